//! Helm's starter chart (`helm create`), in the sandbox.

use crate::{helm::Helm, kubectl::Kubectl};

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    let kubectl = Kubectl::new("helm-release");
    let helm = Helm::of(&kubectl);
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
    let refused = helm.fails("install bad ./tiny -n helm-release --set nameOverride=BAD_NAME");
    assert!(refused.contains("is invalid: metadata.name"), "{refused}");
    helm.ok("uninstall bad -n helm-release");
    helm.ok("uninstall web -n helm-release --wait --timeout 60s");
    assert_eq!(kubectl.ok("get deployments,services,secrets -o name"), "");
}
