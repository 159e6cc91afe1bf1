//! The kubectl plugin: commands against a cluster with the operator.

mod doctor;

use std::{sync::Arc, time::Duration};

use clap::{FromArgMatches as _, Subcommand as _};
use kubevirt_operator::kubectl::previewer;
use plugin::{Command, ExitCode, Session, SharedWriter, Terminal};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    runner::{Need, run_scenario, run_scenario_alone, run_scenario_with},
    scenario::Scenario,
};

/// Output of a command.
struct Ran {
    code: ExitCode,
    out: String,
    err: String,
}

fn parse(line: &str) -> Command {
    let words = std::iter::once("machine").chain(line.split_whitespace());
    let parser = Command::augment_subcommands(clap::Command::new("machine"));
    let matches = parser.try_get_matches_from(words).unwrap();
    Command::from_arg_matches(&matches).unwrap()
}

fn session(scenario: &Scenario, out: &SharedWriter, err: &SharedWriter) -> Session {
    let clock = scenario.cluster.clock();
    Session {
        client: scenario.client.clone(),
        namespace: scenario.namespace.clone(),
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        terminal: Terminal::default(),
        clock: Arc::clone(&clock) as _,
        previewer: previewer(move || clock()),
        program: Vec::new(),
    }
}

fn plain(writer: &SharedWriter) -> String {
    anstream::adapter::strip_str(&writer.take()).to_string()
}

/// Runs a command to its end.
async fn machine(scenario: &Scenario, line: &str) -> Ran {
    let (out, err) = (SharedWriter::default(), SharedWriter::default());
    let mut session = session(scenario, &out, &err);
    let code = parse(line).run(&mut session).await;
    Ran {
        code,
        out: plain(&out),
        err: plain(&err),
    }
}

impl Ran {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, ExitCode::Done, "{}{}", self.out, self.err);
        self.out
    }
}

async fn running(spec: Value) -> Scenario {
    let scenario = Scenario::start().await;
    scenario.create_machine("web", spec).await;
    scenario.until_reason("web", "Running").await;
    scenario
}

#[test]
fn machines_are_listed_as_kubectl_lists() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        scenario
            .create_machine("bad", json!({ "machineClass": "missing" }))
            .await;
        scenario.until_phase("bad", "Failed").await;
        let listed = machine(&scenario, "list").await.ok();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 3, "{listed}");
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(
            words,
            [
                "NAME",
                "PHASE",
                "NODE",
                "ADDRESSES",
                "SIZE",
                "AGE",
                "REASON"
            ]
        );
        assert!(lines[1].contains("TemplateNotFound"), "{listed}");
        assert!(lines[2].contains("1 CPU, 2Gi"), "{listed}");
        assert!(lines[2].contains("node-"), "{listed}");

        let names = machine(&scenario, "list -o name").await.ok();
        assert_eq!(
            names,
            "machine.vitistack.io/bad\nmachine.vitistack.io/web\n"
        );
        let one: Value =
            serde_json::from_str(&machine(&scenario, "list web -o json").await.ok()).unwrap();
        assert_eq!(one["kind"], "Machine");
        assert!(one["metadata"].get("managedFields").is_none());
        let all: Value =
            serde_saphyr::from_str(&machine(&scenario, "list -o yaml").await.ok()).unwrap();
        assert_eq!(all["items"].as_array().unwrap().len(), 2);
        let wide = machine(&scenario, "list web -o wide").await.ok();
        assert!(wide.contains("Running on node-"), "{wide}");

        let missing = machine(&scenario, "list nothing").await;
        assert_eq!(missing.code, ExitCode::Failed);
        assert!(
            missing.err.contains("there is no Machine \"nothing\""),
            "{}",
            missing.err
        );
        let none = machine(&scenario, "list -l app=none").await;
        assert_eq!(none.code, ExitCode::Done);
        assert!(none.err.contains("no Machines found"), "{}", none.err);
    });
}

#[test]
fn a_watched_list_prints_what_changes() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let (out, err) = (SharedWriter::default(), SharedWriter::default());
        let mut session = session(&scenario, &out, &err);
        let using = async {
            scenario
                .create_machine("web", json!({ "template": "small" }))
                .await;
            scenario.until_reason("web", "Running").await;
            scenario.delete("Machine", "web").await;
            scenario.until_gone("Machine", "web").await;
            scenario.wait(5).await;
        };
        let watching = parse("list --watch").run(&mut session);
        tokio::select! {
            code = watching => panic!("the watch ended with {code:?}"),
            () = using => {}
        }
        let (out, err) = (plain(&out), plain(&err));
        let phases: Vec<&str> = out
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        let at = |phase: &str| phases.iter().position(|found| *found == phase);
        assert!(at("Creating").unwrap() < at("Running").unwrap(), "{out}");
        assert!(
            err.contains("Machine default/web was deleted") || scenario.cluster.is_real(),
            "{err}"
        );
    });
}

#[test]
fn a_machine_is_stopped_started_paused_and_resumed() {
    run_scenario_with(&[Need::Services], async {
        let scenario = running(json!({ "template": "small" })).await;
        for (command, done, phase) in [
            ("stop", "stopped", "Stopped"),
            ("start", "started", "Running"),
            ("pause", "paused", "Running"),
            ("resume", "resumed", "Running"),
        ] {
            let out = machine(&scenario, &format!("{command} web --wait"))
                .await
                .ok();
            assert_eq!(
                out,
                format!("machine.vitistack.io/web changed\nmachine.vitistack.io/web {done}\n")
            );
            scenario.until_phase("web", phase).await;
            let before = scenario.get("Machine", "web").await;
            let again = machine(&scenario, &format!("{command} web")).await.ok();
            assert_eq!(again, "machine.vitistack.io/web unchanged\n");
            let after = scenario.get("Machine", "web").await;
            assert_eq!(
                before["metadata"]["generation"],
                after["metadata"]["generation"]
            );
        }
    });
}

#[test]
fn a_restart_waits_for_the_next_instance() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let before = scenario.get("VirtualMachineInstance", "web").await;
        let ran = machine(&scenario, "restart web --wait").await;
        assert!(ran.err.contains("web: "), "progress: {}", ran.err);
        assert!(ran.ok().ends_with("machine.vitistack.io/web restarted\n"));
        let after = scenario.get("VirtualMachineInstance", "web").await;
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    });
}

#[test]
fn machines_are_changed_only_if_they_are_named() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let nothing = machine(&scenario, "stop").await;
        assert_eq!(nothing.code, ExitCode::Failed);
        assert!(
            nothing.err.contains("select them with -l or --all"),
            "{}",
            nothing.err
        );
        machine(&scenario, "stop --all --wait").await.ok();
        let refused = machine(&scenario, "restart web").await;
        assert_eq!(refused.code, ExitCode::Failed);
        assert!(refused.err.contains("use start"), "{}", refused.err);
    });
}

#[test]
fn a_wait_that_ends_without_success_says_why() {
    run_scenario_alone(&[], async {
        let mut scenario = running(json!({ "template": "small" })).await;
        scenario.stop_operator().await;
        let ran = machine(&scenario, "stop web --wait --timeout 3").await;
        assert_eq!(ran.code, ExitCode::Failed);
        assert!(ran.err.contains("is not stopped after 3 s"), "{}", ran.err);
        assert!(
            ran.err.contains("kubectl machine doctor web"),
            "{}",
            ran.err
        );
    });
}

#[test]
fn events_of_a_machine_and_its_objects_are_one_timeline() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        scenario.wait(5).await;
        let out = machine(&scenario, "events web").await.ok();
        let at = |words: &str| {
            out.find(words)
                .unwrap_or_else(|| panic!("{words} in {out}"))
        };
        assert!(at("machine/web") < at("pod/virt-launcher-web-"), "{out}");
        assert!(
            at("persistentvolumeclaim/web-root") < at("Started"),
            "{out}"
        );
        assert!(at("Created") < at("Started"), "{out}");
        let warnings = machine(&scenario, "events web --type Warning").await;
        assert_eq!(warnings.code, ExitCode::Done);
        assert!(!warnings.out.contains("Normal"), "{}", warnings.out);
    });
}

#[test]
fn a_tree_shows_owners_above_what_they_own() {
    run_scenario(async {
        let scenario = running(json!({
            "template": "small", "cloudInit": { "userData": "#cloud-config\n" },
        }))
        .await;
        let out = machine(&scenario, "tree web").await.ok();
        let lines: Vec<&str> = out.lines().collect();
        let indent = |object: &str| {
            let line = lines.iter().find(|line| line.contains(object));
            let line = line.unwrap_or_else(|| panic!("{object} in {out}"));
            line.split(object).next().unwrap().chars().count()
        };
        assert_eq!(indent("Machine/web"), 0);
        for child in [
            "VirtualMachine/web",
            "PersistentVolumeClaim/web-root",
            "Secret/web-cloud-init",
        ] {
            assert_eq!(indent(child), 2, "{out}");
        }
        assert_eq!(indent("VirtualMachineInstance/web"), 4, "{out}");
        assert_eq!(indent("Pod/virt-launcher-web-"), 6, "{out}");
        assert!(out.contains("Running, node-"), "{out}");
    });
}

#[test]
fn a_diff_shows_what_the_operator_would_change() {
    run_scenario_alone(&[], async {
        let mut scenario = running(json!({ "template": "small" })).await;
        scenario.wait(10).await;
        let ran = machine(&scenario, "diff web").await;
        assert_eq!(ran.ok(), "No changes.\n");
        scenario.stop_operator().await;
        scenario
            .patch_spec(
                "web",
                json!({ "disks": [{ "name": "data", "size": "5Gi" }] }),
            )
            .await;
        let ran = machine(&scenario, "diff web").await;
        assert_eq!(ran.code, ExitCode::Found, "{}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("+ PersistentVolumeClaim web-data"),
            "{}",
            ran.out
        );
    });
}

#[test]
fn a_machine_is_created_from_flags() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let flags = "create web --template small --disk data=5Gi --label app=shop";
        let printed = machine(&scenario, &format!("{flags} --dry-run client -o yaml"))
            .await
            .ok();
        assert_eq!(
            printed,
            format!(
                "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata:\n  labels:\n    app: shop\n  \
                 name: web\n  namespace: {}\nspec:\n  disks:\n  - name: data\n    size: 5Gi\n  template: small\n",
                scenario.namespace
            )
        );
        let checked = machine(&scenario, &format!("{flags} --dry-run server"))
            .await
            .ok();
        assert_eq!(
            checked,
            "machine.vitistack.io/web created (server dry run)\n"
        );
        assert!(scenario.find("Machine", "web").await.is_none());
        machine(&scenario, flags).await.ok();
        scenario.until_phase("web", "Running").await;
        let refused = machine(&scenario, "create Web --template small").await;
        assert_eq!(refused.code, ExitCode::Failed);
        assert!(refused.err.contains("metadata.name"), "{}", refused.err);
        let unnamed = machine(&scenario, "create").await;
        assert_eq!(unnamed.code, ExitCode::Failed);
        assert!(unnamed.err.contains("name the Machine"), "{}", unnamed.err);
    });
}

#[test]
fn names_complete_in_the_shell() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        for name in ["web-1", "web-2", "db"] {
            scenario
                .create_machine(
                    name,
                    json!({ "template": "small", "powerState": "Stopped" }),
                )
                .await;
        }
        let (out, err) = (SharedWriter::default(), SharedWriter::default());
        let mut session = session(&scenario, &out, &err);
        for (typed, expected) in [
            ("sto", "stop\n:4\n"),
            ("stop we", "web-1\nweb-2\n:4\n"),
            ("stop web-1 we", "web-2\n:4\n"),
            ("create we", ":4\n"),
            ("stop --wa", "--wait\n:4\n"),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            let completed = plugin::complete(&words, &mut session);
            timeout(Duration::from_secs(60), completed)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(plain(&out), expected, "{typed}");
        }
    });
}
