//! The plugin as kubectl runs it, and docs/kubectl-plugin.md.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::{
    kubectl::{Kubectl, both},
    process::{Sandbox, run},
};

const DOCUMENT: &str = "docs/kubectl-plugin.md";

/// A folder for the PATH with links to the program.
fn links() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "kubectl-machine",
        "kubectl-vitistack",
        "kubectl_complete-machine",
    ] {
        let program = env!("CARGO_BIN_EXE_kubevirt-operator");
        std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}

fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

/// Runs a command with the sandbox's kubeconfig.
fn command(sandbox: &Sandbox, links: &TempDir, program: &Path, words: &[&str]) -> Output {
    Command::new(program)
        .args(words)
        .env("KUBECONFIG", sandbox.kubeconfig())
        .env("PATH", path_with(links.path()))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .current_dir(crate::root())
        .output()
        .unwrap()
}

fn documented() -> Vec<String> {
    let document = fs::read_to_string(crate::root().join(DOCUMENT)).unwrap();
    let blocks = document.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_documented_commands_work_as_a_plugin_of_kubectl() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let links = links();
    let kubectl = Kubectl::of(&sandbox, "");
    let commands = documented();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let words = command.strip_prefix("kubectl ").unwrap();
        let output = kubectl
            .command(words)
            .env("PATH", path_with(links.path()))
            .output()
            .unwrap();
        // The Machine db, for which nothing is to boot, is a finding.
        let expected = if command.contains("doctor --all") {
            2
        } else {
            0
        };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{command}\n{}",
            both(&output)
        );
    }
    let listed = kubectl
        .command("machine list web")
        .env("PATH", path_with(links.path()))
        .output()
        .unwrap();
    assert!(both(&listed).contains("Running"), "{}", both(&listed));
}

#[test]
fn every_command_and_cause_is_documented() {
    let document = fs::read_to_string(crate::root().join(DOCUMENT)).unwrap();
    let help = run(&["machine", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.split("\n\n").next().unwrap();
    let names = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 8, "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(
            document.contains(&format!("kubectl machine {name}")),
            "{name}"
        );
    }
    let causes = fs::read_to_string(crate::root().join("crates/plan/src/diagnosis.rs")).unwrap();
    let (_, causes) = causes.split_once("pub enum Cause {").unwrap();
    let causes = causes.split("\n}").next().unwrap();
    let states = [
        "Reported", "Creating", "Starting", "Stopping", "Paused", "Stopped", "Running",
    ];
    let causes: Vec<&str> = causes
        .lines()
        .map(|line| line.trim().trim_end_matches(',').split('(').next().unwrap())
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !states.contains(line))
        .collect();
    assert!(causes.len() > 20, "{causes:?}");
    for cause in causes {
        assert!(document.contains(&format!("`{cause}`")), "{cause}");
    }
}

#[test]
fn the_links_of_the_program_are_the_plugin_and_its_completion() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let links = links();
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("apply -f examples/machine-small.yaml");
    let link = |name: &str| links.path().join(name);
    for name in ["kubectl-machine", "kubectl-vitistack"] {
        let output = command(&sandbox, &links, &link(name), &["list", "-o", "name"]);
        assert_eq!(both(&output), "machine.vitistack.io/small\n");
        let wrong = command(&sandbox, &links, &link(name), &["list", "--nonsense"]);
        assert_eq!(wrong.status.code(), Some(64), "{}", both(&wrong));
        let usage = name.replace('-', " ");
        assert!(both(&wrong).contains(&usage), "{}", both(&wrong));
    }
    let complete = link("kubectl_complete-machine");
    let output = command(&sandbox, &links, &complete, &["stop", "sm"]);
    assert_eq!(both(&output), "small\n:4\n");
    let output = command(&sandbox, &links, &complete, &["-n", "other", "stop", "sm"]);
    assert_eq!(both(&output), ":4\n");
    let kubeconfig = sandbox.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let output = run(&[
        "machine",
        "--kubeconfig",
        kubeconfig,
        "list",
        "--context",
        "nonsense",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).contains("nonsense"), "{}", both(&output));
}
