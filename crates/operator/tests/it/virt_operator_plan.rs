//! Command `virt-operator plan` as a process. The install suite tests its output.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output},
};

use sandbox::KubeVirtMode;
use serde_json::json;

use super::{cluster::with_cluster_in_mode, root, text};

const REGISTRY: &str = "registry.example/kubevirt";

fn plan(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"))
        .args([
            "virt-operator",
            "plan",
            "--detailed-exitcode",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .args(args)
        .current_dir(root())
        .output()
        .unwrap()
}

fn file(content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

#[test]
fn the_plan_for_an_empty_cluster_lists_all_objects_and_writes_nothing() {
    let config = json!({
        "namespace": "kubevirt", "registry": REGISTRY, "kubeVirtVersion": "v1.9.0",
    });
    let strategy = file(&sandbox::synthetic_strategy("v1.9.0", &config).unwrap());
    let kubevirt = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" },
        "spec": {
            "imageTag": "v1.9.0", "imageRegistry": REGISTRY, "infra": { "nodePlacement": {} },
        },
    });
    let kubevirt = file(&kubevirt.to_string());
    let (strategy, kubevirt) = (strategy.path(), kubevirt.path());
    let (strategy, kubevirt) = (strategy.to_str().unwrap(), kubevirt.to_str().unwrap());
    with_cluster_in_mode(KubeVirtMode::Managed, &[], |kubeconfig| {
        let args = ["-f", kubevirt, "--strategy", strategy];
        for _ in 0..2 {
            let output = plan(kubeconfig, &args);
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert!(
                stdout.contains("+ Deployment kubevirt/virt-api\n"),
                "{stdout}{stderr}"
            );
            assert!(
                stdout.contains("* Secret kubevirt/kubevirt-ca: "),
                "{stdout}"
            );
            assert!(
                stderr.contains("used the permissions of config/rbac/virt-operator"),
                "{stderr}"
            );
            assert_eq!(output.status.code(), Some(2), "{stdout}{stderr}");
        }

        let output = plan(kubeconfig, &["-f", kubevirt]);
        let stdout = text(&output.stdout);
        assert!(
            stdout.contains("A Job writes the install strategy"),
            "{stdout}"
        );
        assert_eq!(output.status.code(), Some(2));

        let output = plan(kubeconfig, &[]);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("no KubeVirt resource in the cluster"),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(1));

        let output = plan(kubeconfig, &["--strategy", "missing.yaml"]);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("--strategy missing.yaml: cannot be read"),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(1));
    });
}
