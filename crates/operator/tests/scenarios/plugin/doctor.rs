//! `doctor` names the right cause for every fault that the sandbox knows.

use std::{collections::BTreeSet, time::Duration};

use plugin::ExitCode;
use sandbox::faults::{Faults, VOCABULARY};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Ran, machine};
use crate::{
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::Scenario,
};

/// Longest time from a fault to its verdict.
const LIMIT: Duration = Duration::from_secs(1200);

/// What a user does before the fault shows.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Grow,
    Migrate,
    Snapshot,
    Restore,
}

struct Case {
    kind: &'static str,
    word: &'static str,
    /// The fault with its argument and time, if not the word.
    fault: &'static str,
    object: &'static str,
    spec: Value,
    then: Then,
    cause: &'static str,
    /// Start of the object that the verdict names.
    at: &'static str,
}

fn case(kind: &'static str, word: &'static str, cause: &'static str, at: &'static str) -> Case {
    Case {
        kind,
        word,
        fault: word,
        object: "*",
        spec: json!({ "template": "small" }),
        then: Then::Nothing,
        cause,
        at,
    }
}

/// A Machine with something to boot.
fn imported() -> Value {
    let source = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
    json!({ "template": "small", "disks": [{ "name": "root", "source": source }] })
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let shared = json!({
        "template": "small", "disks": [{ "name": "root", "accessMode": "ReadWriteMany" }],
    });
    vec![
        Case {
            fault: "NotReady@120s",
            ..case("Node", "NotReady", "NodeNotReady", "Node node-")
        },
        Case {
            object: "virt-launcher-*",
            ..case(
                "Pod",
                "Unschedulable",
                "Unschedulable",
                "Pod default/virt-launcher-web-",
            )
        },
        Case {
            object: "virt-launcher-*",
            ..case(
                "Pod",
                "ImagePullBackOff",
                "ImagePullFailed",
                "Pod default/virt-launcher-web-",
            )
        },
        Case {
            object: "virt-launcher-*",
            ..case(
                "Pod",
                "CrashLoopBackOff",
                "LauncherExited",
                "Pod default/virt-launcher-web-",
            )
        },
        Case {
            object: "virt-launcher-*",
            ..case(
                "Pod",
                "NeverReady",
                "PodNotReady",
                "Pod default/virt-launcher-web-",
            )
        },
        Case {
            object: "virt-launcher-*",
            fault: "Exit=137",
            ..case(
                "Pod",
                "Exit",
                "LauncherExited",
                "Pod default/virt-launcher-web-",
            )
        },
        case(
            "PersistentVolumeClaim",
            "ProvisioningFailed",
            "ProvisioningFailed",
            "PersistentVolumeClaim default/web-root",
        ),
        Case {
            then: Then::Grow,
            ..case(
                "PersistentVolumeClaim",
                "ResizeFailed",
                "ResizeFailed",
                "PersistentVolumeClaim default/web-root",
            )
        },
        Case {
            spec: imported(),
            ..case(
                "DataVolume",
                "ImportFailed",
                "ImportFailed",
                "DataVolume default/web-root",
            )
        },
        case(
            "VirtualMachineInstance",
            "CrashLoopBackOff",
            "GuestCrashLoop",
            "VirtualMachine default/web",
        ),
        case(
            "VirtualMachineInstance",
            "Unschedulable",
            "Unschedulable",
            "Pod default/virt-launcher-web-",
        ),
        case(
            "VirtualMachineInstance",
            "NeverReady",
            "GuestNotReady",
            "VirtualMachineInstance default/web",
        ),
        Case {
            spec: shared,
            then: Then::Migrate,
            ..case(
                "VirtualMachineInstance",
                "MigrationFailed",
                "MigrationFailed",
                "VirtualMachineInstanceMigration default/move",
            )
        },
        case(
            "VirtualMachineInstance",
            "Crash",
            "GuestCrashed",
            "VirtualMachine default/web",
        ),
        case(
            "VirtualMachineInstance",
            "Shutdown",
            "GuestShutdown",
            "VirtualMachine default/web",
        ),
        Case {
            object: "virtualmachines.kubevirt.io",
            ..case(
                "CustomResourceDefinition",
                "WebhookUnavailable",
                "VirtApiUnavailable",
                "Service virt-api",
            )
        },
        Case {
            then: Then::Snapshot,
            ..case(
                "VirtualMachineSnapshot",
                "NeverReady",
                "SnapshotFailed",
                "VirtualMachineSnapshot default/before",
            )
        },
        Case {
            then: Then::Restore,
            ..case(
                "VirtualMachineRestore",
                "Failed",
                "RestoreFailed",
                "VirtualMachineRestore default/back",
            )
        },
    ]
}

async fn act(then: Then, scenario: &Scenario) {
    let object = |kind: &str, version: &str, name: &str, spec: Value| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let vm = json!({ "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web" });
    let snapshot = object(
        "VirtualMachineSnapshot",
        "snapshot.kubevirt.io/v1beta1",
        "before",
        json!({ "source": vm }),
    );
    if !matches!(then, Then::Nothing) {
        scenario.until_reason("web", "Running").await;
    }
    match then {
        Then::Nothing => {}
        Then::Grow => {
            let disks = json!([{ "name": "root", "size": "30Gi" }]);
            scenario.patch_spec("web", json!({ "disks": disks })).await;
        }
        Then::Migrate => {
            let spec = json!({ "vmiName": "web" });
            let migration = object(
                "VirtualMachineInstanceMigration",
                "kubevirt.io/v1",
                "move",
                spec,
            );
            scenario.apply_object(migration).await;
        }
        Then::Snapshot => scenario.apply_object(snapshot).await,
        Then::Restore => {
            scenario.apply_object(snapshot).await;
            scenario.wait(60).await;
            machine(scenario, "stop web --wait").await.ok();
            let spec = json!({ "target": vm, "virtualMachineSnapshotName": "before" });
            let restore = object(
                "VirtualMachineRestore",
                "snapshot.kubevirt.io/v1beta1",
                "back",
                spec,
            );
            scenario.apply_object(restore).await;
        }
    }
}

async fn verdict(scenario: &Scenario) -> (Ran, Value) {
    let ran = machine(scenario, "doctor web -o json").await;
    let verdict = serde_json::from_str(&ran.out).unwrap_or_default();
    (ran, verdict)
}

async fn check(case: Case) {
    let Case {
        kind,
        fault,
        object,
        cause,
        at,
        ..
    } = case;
    let faults = format!(
        "- kind: {kind}\n  name: \"{object}\"\n  fault: {}\n{}",
        fault.split('@').next().unwrap(),
        fault
            .split_once('@')
            .map_or(String::new(), |(_, after)| format!("  after: {after}\n"))
    );
    let faults = Faults::from_yaml(&faults).unwrap();
    let scenario = Scenario::start_with(|setup| setup.faults = faults).await;
    scenario.create_machine("web", case.spec).await;
    act(case.then, &scenario).await;
    let start = tokio::time::Instant::now();
    let mut found = BTreeSet::new();
    loop {
        let (ran, verdict) = verdict(&scenario).await;
        if verdict["cause"] == cause {
            let object = verdict["object"].as_str().unwrap();
            assert!(object.starts_with(at), "{kind} {fault}: {verdict:#}");
            assert_ne!(verdict["remedy"], "", "{kind} {fault}: {verdict:#}");
            assert_ne!(verdict["message"], "", "{kind} {fault}: {verdict:#}");
            assert_eq!(ran.code, ExitCode::Found, "{kind} {fault}: {verdict:#}");
            return;
        }
        found.insert(format!(
            "{} of {}: {} {}",
            verdict["cause"], verdict["object"], verdict["message"], ran.err
        ));
        assert!(
            start.elapsed() < LIMIT,
            "{kind} {fault}: {cause} is not among {found:#?}"
        );
        sleep(Duration::from_secs(1)).await;
    }
}

const REASON: &str = "each fault needs a cluster of its own, and minutes";

fn check_kind(kind: &str) {
    for case in cases().into_iter().filter(|case| case.kind == kind) {
        run_scenario_in_sandbox(REASON, check(case));
    }
}

#[test]
fn every_fault_has_a_case() {
    let known: BTreeSet<(&str, &str)> = VOCABULARY
        .iter()
        .map(|(kind, word, _)| (*kind, *word))
        .collect();
    let tested: BTreeSet<(&str, &str)> =
        cases().iter().map(|case| (case.kind, case.word)).collect();
    assert_eq!(tested, known);
    let checked = [
        "Node",
        "Pod",
        "PersistentVolumeClaim",
        "DataVolume",
        "VirtualMachineInstance",
        "CustomResourceDefinition",
        "VirtualMachineSnapshot",
        "VirtualMachineRestore",
    ];
    assert!(known.iter().all(|(kind, _)| checked.contains(kind)));
}

#[test]
fn the_doctor_names_faults_of_nodes_and_pods() {
    check_kind("Node");
    check_kind("Pod");
}

#[test]
fn the_doctor_names_faults_of_disks() {
    check_kind("PersistentVolumeClaim");
    check_kind("DataVolume");
}

#[test]
fn the_doctor_names_faults_of_guests() {
    check_kind("VirtualMachineInstance");
    check_kind("CustomResourceDefinition");
}

#[test]
fn the_doctor_names_faults_of_snapshots_and_restores() {
    check_kind("VirtualMachineSnapshot");
    check_kind("VirtualMachineRestore");
}

#[test]
fn a_healthy_machine_has_no_finding() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", imported()).await;
        scenario.until_reason("web", "Running").await;
        let ran = machine(&scenario, "doctor web").await;
        let out = ran.ok();
        assert!(
            out.starts_with(&format!(
                "Machine {}/web Healthy: Running\n",
                scenario.namespace
            )),
            "{out}"
        );
        assert!(out.contains("VirtualMachineInstance/web"), "{out}");
        machine(&scenario, "stop web --wait").await.ok();
        let out = machine(&scenario, "doctor web").await.ok();
        assert!(out.contains("Healthy: Stopped"), "{out}");
    });
}

#[test]
fn a_fleet_is_grouped_by_cause() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        for name in ["a", "b"] {
            scenario
                .create_machine(name, json!({ "machineClass": "missing" }))
                .await;
            scenario.until_phase(name, "Failed").await;
        }
        let stopped =
            json!({ "template": "small", "powerState": "Stopped", "bootOrder": ["network"] });
        scenario.create_machine("c", stopped).await;
        scenario.until_reason("c", "Stopped").await;
        let ran = machine(&scenario, "doctor --all").await;
        assert_eq!(ran.code, ExitCode::Found);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert_eq!(lines[0], "Broken: InvalidSpec: 2 Machines", "{}", ran.out);
        assert!(
            lines[1].contains(&format!("{}/a: Machine", scenario.namespace)),
            "{}",
            ran.out
        );
        assert!(lines[3].starts_with("  Remedy: "), "{}", ran.out);
        assert_eq!(lines[4], "Healthy: Stopped: 1 Machine", "{}", ran.out);
    });
}

#[test]
fn what_may_not_be_read_is_named() {
    run_scenario_in_sandbox(
        "a user with few rights of the sandbox's API server",
        async {
            let mut scenario = Scenario::start().await;
            scenario.create_machine("web", imported()).await;
            scenario.until_reason("web", "Running").await;
            scenario
                .apply(
                    "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: few, namespace: default}
rules:
  - {apiGroups: [vitistack.io], resources: [machines], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: few, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: few}
subjects: [{kind: ServiceAccount, name: few, namespace: default}]
",
                )
                .await;
            scenario.client = scenario.cluster.client_of("default", "few");
            let ran = machine(&scenario, "doctor web").await;
            assert!(ran.err.contains("cannot list pods"), "{}", ran.err);
            assert!(ran.out.contains("Healthy: Running"), "{}", ran.out);
        },
    );
}
