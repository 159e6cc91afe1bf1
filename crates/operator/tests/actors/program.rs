//! `kubevirt-operator` as a process.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"));
    command
        .args(args)
        .current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
        .stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> String {
    let output = program(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

/// CustomResourceDefinitions of this project.
pub(crate) fn definitions() -> Vec<Value> {
    documents(&output(&["crds"]))
}

/// Objects that `render` prints for an example.
pub(crate) fn rendered(example: &str) -> Vec<Value> {
    documents(&output(&["render", "--filename", example]))
}

/// Exit code and stderr of `simulate` on a cluster that it refuses. Uses `KUBECONFIG`.
pub(crate) fn run_refused() -> (Option<i32>, String) {
    let output = program(&["simulate"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), errors)
}

/// Running `simulate` process, killed when dropped.
pub(crate) struct Simulate(Child);

impl Simulate {
    pub(crate) fn start() -> Self {
        let child = program(&["simulate", "--speed", "fast"]).spawn().unwrap();
        Self(child)
    }

    /// Sends SIGINT and expects exit code 0.
    pub(crate) fn stop(mut self) {
        let interrupt = format!("kill -INT {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &interrupt]).status();
        assert!(sent.unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Simulate {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
