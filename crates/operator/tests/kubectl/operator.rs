//! The operator as a process beside a sandbox without one.

use crate::{
    kubectl::Kubectl,
    operator_process::{OperatorProcess, kubeconfig_of},
    process::Sandbox,
};

/// Documented RBAC objects for some namespaces only.
fn rights_in_team_a() -> String {
    let text = std::fs::read_to_string(crate::root().join("docs/operator-reference.md")).unwrap();
    let mut blocks = text.split("```yaml\n");
    let block = blocks.find(|block| block.contains("namespace: team-a"));
    block.unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn the_operator_reconciles_its_namespaces_only_and_releases_its_lease() {
    let sandbox = Sandbox::start(&["--no-operator", "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "team-a");
    let system = Kubectl::of(&sandbox, "kubevirt-operator-system");
    system.ok("apply -f config/rbac");
    for namespace in ["team-a", "team-b"] {
        kubectl.ok(&format!("create namespace {namespace}"));
    }
    kubectl.ok("delete clusterrolebinding kubevirt-operator-manager-rolebinding");
    kubectl.ok_with_input(&rights_in_team_a(), "apply -f -");
    let kubeconfig = kubeconfig_of(&system, "kubevirt-operator-controller-manager");

    let mut running =
        OperatorProcess::start(&["--kubeconfig", &kubeconfig, "--watch-namespaces=team-a"]);
    for namespace in ["team-b", "team-a"] {
        Kubectl::of(&sandbox, namespace).ok("apply -f examples/machine-small.yaml");
    }
    running.until(&[
        r#""machine":"small""#,
        r#""namespace":"team-a""#,
        r#""reason":"Started""#,
    ]);
    kubectl.ok("wait --for=condition=Ready machine/small");
    let elsewhere = Kubectl::of(&sandbox, "team-b");
    assert_eq!(elsewhere.value("machine/small", ".status"), "");
    assert_ne!(
        system.value("lease/kubevirt-operator", ".spec.holderIdentity"),
        ""
    );

    let log = running.end();
    assert!(log.contains("released the Lease"), "{log}");
    assert!(!log.contains("team-b"), "{log}");
    assert_eq!(
        system.value("lease/kubevirt-operator", ".spec.holderIdentity"),
        ""
    );
}
