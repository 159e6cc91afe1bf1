//! Command `plan` as a process. The scenarios test its output for running Machines.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{cluster::with_cluster, root, text};

fn plan(kubeconfig: &Path, args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"))
        .args(["plan", "--detailed-exitcode", "--kubeconfig"])
        .arg(kubeconfig)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(root())
        .output()
        .unwrap()
}

fn class() -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": "big" }, "spec": { "cpu": { "cores": 2 }, "memory": { "quantity": "4Gi" } },
    })
}

/// Writes documents as JSON.
fn file(documents: &[Value]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    for document in documents {
        writeln!(file, "---\n{document}").unwrap();
    }
    file
}

#[test]
fn the_exit_status_says_whether_anything_would_change() {
    with_cluster(&[class()], |kubeconfig| {
        let same = file(&[class()]);
        let output = plan(kubeconfig, &["-f", same.path().to_str().unwrap()], &[]);
        assert_eq!(text(&output.stdout), "No changes.\n");
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));

        let mut other = class();
        other["spec"]["cpu"]["cores"] = 3.into();
        let changed = file(&[other.clone()]);
        let args = ["-f", changed.path().to_str().unwrap()];
        let output = plan(kubeconfig, &args, &[]);
        assert_eq!(
            text(&output.stdout),
            "MachineClass big: 0 to create, 1 to change, 0 to delete\n  ~ MachineClass big\n      \
             spec.cpu.cores: 2 -> 3\n\nPlan: 0 to create, 1 to change, 0 to delete.\n"
        );
        assert_eq!(output.status.code(), Some(2));
        let coloured = plan(kubeconfig, &args, &[("CLICOLOR_FORCE", "1")]);
        assert!(text(&coloured.stdout).contains("\x1b["));
        let plain = plan(kubeconfig, &args, &[("NO_COLOR", "1")]);
        assert_eq!(plain.stdout, output.stdout);

        other["spec"]["cpu"]["cores"] = "many".into();
        let refused = file(&[other]);
        let output = plan(kubeconfig, &["-f", refused.path().to_str().unwrap()], &[]);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(":1: the API server refuses the document: "),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(1));

        let output = plan(kubeconfig, &["-f", "/nowhere.yaml"], &[]);
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("error: /nowhere.yaml: "), "{stderr}");
        assert_eq!(output.status.code(), Some(1));
    });
}

#[test]
fn foreign_documents_are_ignored_and_duplicates_are_refused() {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let documents = file(&[map, class(), class(), json!({ "kind": "Machine" })]);
    with_cluster(&[class()], |kubeconfig| {
        let output = plan(kubeconfig, &["-f", documents.path().to_str().unwrap()], &[]);
        let stderr = text(&output.stderr);
        assert!(stderr.contains("ConfigMap (v1) is ignored"), "{stderr}");
        assert!(
            stderr.contains("MachineClass \"big\" is already defined in"),
            "{stderr}"
        );
        assert!(stderr.contains(":4: apiVersion: is missing"), "{stderr}");
        assert_eq!(output.status.code(), Some(1));
    });
}

#[test]
fn an_unreachable_cluster_is_reported_with_a_remedy() {
    let documents = file(&[class()]);
    let args = ["-f", documents.path().to_str().unwrap()];
    let output = plan(Path::new("/nowhere/kubeconfig"), &args, &[]);
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("error: the kubeconfig /nowhere/kubeconfig cannot be used: "),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(1));

    let nobody = file(&[json!({
        "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "k", "user": "u" } }],
        "clusters": [{ "name": "k", "cluster": { "server": "http://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": {} }],
    })]);
    let output = plan(nobody.path(), &args, &[]);
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("error: cannot reach the API server: ")
            && stderr.contains("check that it is running"),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(1));
}
