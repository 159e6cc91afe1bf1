//! Helm, where there is one.

use std::process::{Command, Stdio};

use crate::kubectl::{Kubectl, both};

struct Helm(Kubectl);

impl Helm {
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("helm");
        command
            .env("HOME", self.0.folder())
            .env("KUBECONFIG", self.0.kubeconfig())
            .current_dir(self.0.folder())
            .stdin(Stdio::null())
            .args(words.split_whitespace());
        command
    }

    fn ok(&self, words: &str) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "helm {words}\n{}", both(&output));
        both(&output)
    }
}

#[test]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    if Command::new("helm").arg("version").output().is_err() {
        eprintln!("SKIPPED: helm is not on PATH");
        return;
    }
    let helm = Helm(Kubectl::new("helm-release"));
    let kubectl = &helm.0;
    helm.ok("create tiny");
    helm.ok("install web ./tiny -n helm-release --wait --timeout 60s");
    assert!(helm.ok("list -n helm-release").contains("deployed"));
    helm.ok("upgrade web ./tiny -n helm-release --set replicaCount=2 --wait --timeout 60s");
    assert_eq!(
        kubectl.value("deployment/web-tiny", ".status.readyReplicas"),
        "2"
    );
    helm.ok("rollback web 1 -n helm-release --wait --timeout 60s");
    assert_eq!(kubectl.value("deployment/web-tiny", ".spec.replicas"), "1");
    assert!(
        helm.ok("history web -n helm-release")
            .contains("Rollback to 1")
    );
    let refused = helm
        .command("install bad ./tiny -n helm-release --set nameOverride=BAD_NAME")
        .output()
        .unwrap();
    assert!(
        both(&refused).contains("is invalid: metadata.name"),
        "{}",
        both(&refused)
    );
    helm.ok("uninstall bad -n helm-release");
    helm.ok("uninstall web -n helm-release --wait --timeout 60s");
    assert_eq!(kubectl.ok("get deployments,services,secrets -o name"), "");
}
