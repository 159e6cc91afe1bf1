//! `virt-operator plan` as people run it. What it tells of an installation is told in the stories of
//! KubeVirt.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output},
};

use sandbox::KubeVirtMode;
use serde_json::json;

use super::{cluster::with_cluster_as, root, text};

const REGISTRY: &str = "registry.example/kubevirt";

fn plan(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"))
        .args(["virt-operator", "plan", "--kubeconfig"])
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
fn an_empty_cluster_is_told_what_would_come_and_stays_empty() {
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
    with_cluster_as(KubeVirtMode::Managed, &[], |kubeconfig| {
        let args = ["-f", kubevirt, "--strategy", strategy];
        for _ in 0..2 {
            let output = plan(kubeconfig, &args);
            let (told, said) = (text(&output.stdout), text(&output.stderr));
            assert!(
                told.contains("+ Deployment kubevirt/virt-api\n"),
                "{told}{said}"
            );
            assert!(told.contains("* Secret kubevirt/kubevirt-ca: "), "{told}");
            assert!(
                said.contains("those of config/rbac/virt-operator were looked at"),
                "{said}"
            );
            assert_eq!(output.status.code(), Some(2), "{told}{said}");
        }

        let output = plan(kubeconfig, &["-f", kubevirt]);
        let told = text(&output.stdout);
        assert!(told.contains("A Job writes the install strategy"), "{told}");
        assert_eq!(output.status.code(), Some(2));

        let output = plan(kubeconfig, &[]);
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no KubeVirt resource in the cluster"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));

        let output = plan(kubeconfig, &["--strategy", "missing.yaml"]);
        let said = text(&output.stderr);
        assert!(
            said.contains("--strategy missing.yaml: cannot be read"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
    });
}
