//! Installation beside KubeVirt's own manifests and beside other releases.

use std::path::Path;

use serde_json::json;

use crate::{
    docs::blocks,
    helm::{Helm, NAMESPACE},
    install::{assert_a_machine_runs, start_bare},
    kubectl::{Kubectl, is_too_old_for},
    objects::Objects,
    process::{Sandbox, run},
};

const ROLE: &str = "clusterrole/kubevirt-operator";
const BINDING: &str = "clusterrolebinding/kubevirt-operator-manager-rolebinding";
const SECTION: &str = "Beside KubeVirt's own manifests";

/// ClusterRole of KubeVirt's release manifests.
const KUBEVIRT_ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kubevirt-operator
  labels:
    kubevirt.io: ""
rules:
  - apiGroups: [kubevirt.io]
    resources: [kubevirts]
    verbs: [get, list, watch, patch, update]
"#;

/// Starts a cluster with KubeVirt's ClusterRole.
fn with_kubevirt() -> (Sandbox, Kubectl, String) {
    let (sandbox, kubectl) = start_bare();
    kubectl.ok_with_input(KUBEVIRT_ROLE, "apply -f -");
    let role = kubectl.ok(&format!("get {ROLE} -o yaml"));
    (sandbox, kubectl, role)
}

fn assert_untouched(kubectl: &Kubectl, role: &str) {
    assert_eq!(kubectl.ok(&format!("get {ROLE} -o yaml")), role);
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn helm_does_not_change_the_cluster_role_of_kubevirt() {
    let (sandbox, kubectl, role) = with_kubevirt();
    let helm = Helm::of(&kubectl);
    let install = format!(
        "install vms CHART --namespace {NAMESPACE} --create-namespace --wait --timeout 90s"
    );
    for more in ["", " --take-ownership"] {
        let refused = helm.fails(&format!("{install}{more}"));
        assert!(refused.contains("set fullnameOverride"), "{refused}");
        assert_untouched(&kubectl, &role);
    }
    helm.ok(&format!(
        "{install} --set fullnameOverride=machine-operator"
    ));
    assert_untouched(&kubectl, &role);
    assert_a_machine_runs(&sandbox, &kubectl, "machine-operator-controller-manager");
    helm.ok(&format!("uninstall vms --namespace {NAMESPACE} --wait"));
    assert_untouched(&kubectl, &role);
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_release_without_roles_coexists_with_the_cluster_role_of_kubevirt() {
    let (_sandbox, kubectl, role) = with_kubevirt();
    let install = format!("install vms CHART --namespace {NAMESPACE} --create-namespace");
    Helm::of(&kubectl).ok(&format!("{install} --set rbac.create=false"));
    assert_untouched(&kubectl, &role);
}

#[test]
fn kubectl_does_not_change_the_cluster_role_of_kubevirt() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    let (sandbox, kubectl, role) = with_kubevirt();
    let apply = "apply --server-side --field-manager=vitistack";
    for of in ["-f config/rbac/", "-k config/default"] {
        let refused = kubectl.fails(&format!("{apply} {of}"));
        assert!(refused.contains(": .rules"), "{refused}");
        assert_untouched(&kubectl, &role);
    }
    // The documented remedy: the binding that was created refers to KubeVirt's role.
    kubectl.ok(&format!("delete {BINDING}"));
    kubectl.ok(&format!("{apply} -k {}", kustomization(&kubectl)));
    assert_untouched(&kubectl, &role);
    assert_eq!(kubectl.value(BINDING, ".roleRef.name"), "machine-operator");
    assert_a_machine_runs(&sandbox, &kubectl, "kubevirt-operator-controller-manager");
}

#[test]
fn the_binary_does_not_change_the_cluster_role_of_kubevirt() {
    let (sandbox, system, role) = with_kubevirt();
    let kubectl = Kubectl::of(&sandbox, "");
    let output = run(&["manifests", "--cluster-role", "machine-operator"]);
    let manifests = String::from_utf8(output.stdout).unwrap();
    let apply = "apply --server-side --field-manager=vitistack -f -";
    kubectl.ok_with_input(&manifests, apply);
    assert_untouched(&system, &role);
    assert_a_machine_runs(&sandbox, &system, "kubevirt-operator-controller-manager");
}

/// Writes the documented Kustomization on top of this repository, and returns its folder.
fn kustomization(kubectl: &Kubectl) -> String {
    let blocks = blocks(SECTION, "yaml");
    let text = blocks.last().unwrap();
    let url = concat!(
        "https://github.com/vitistack/kubevirt-operator/config/default?ref=v",
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.contains(url), "{text}");
    let file = kubectl.file("Kustomization", "");
    let folder = Path::new(&file).parent().unwrap().canonicalize().unwrap();
    let root = crate::root().canonicalize().unwrap();
    // kustomize accepts no absolute path.
    let up = "../".repeat(folder.components().count() - 1);
    let below = root.strip_prefix("/").unwrap().to_str().unwrap();
    kubectl.file(
        "Kustomization",
        &text.replace(url, &format!("{up}{below}/config/default")),
    );
    folder.to_str().unwrap().to_owned()
}

#[test]
fn the_documented_kustomization_changes_the_cluster_role_name_only() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    let kubectl = Kubectl::new("beside-kustomize");
    let folder = kustomization(&kubectl);
    let built = Objects::read(&kubectl.ok(&format!("kustomize {folder}")));
    let printed = Objects::of_command(&["--cluster-role=machine-operator"]);
    built.assert_same_as(&printed, "the Kustomization");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_second_release_in_a_namespace_is_refused() {
    let (_sandbox, kubectl) = start_bare();
    let helm = Helm::of(&kubectl);
    let values = |name: &str, namespace: &str| {
        helm.file(&json!({ "fullnameOverride": name, "watchNamespaces": [namespace] }))
    };
    let install = |release: &str, namespace: &str, values: &str| {
        format!(
            "install {release} CHART --namespace {namespace} --create-namespace --values {values}"
        )
    };
    helm.ok(&install("a", NAMESPACE, &values("", "default")));
    let b = format!("{} --set crds.install=false", values("b", "team-b"));
    let refused = helm.fails(&install("b", NAMESPACE, &b));
    assert!(
        refused.contains("kubevirt-operator-controller-manager is another Machine operator"),
        "{refused}"
    );
    kubectl.ok("create namespace team-b");
    helm.ok(&install("b", "elsewhere", &b));

    // Another release name is accepted.
    let a = values("vms", "default");
    helm.ok(&format!(
        "upgrade a CHART --namespace {NAMESPACE} --values {a}"
    ));
    assert_eq!(
        kubectl.ok("get deployments -o name"),
        "deployment.apps/vms-controller-manager\n"
    );
}

/// Objects of KubeVirt's release manifests that have the names of ours.
const KUBEVIRT_SHARED: &str = r#"
apiVersion: v1
kind: Namespace
metadata:
  name: kubevirt
  labels:
    kubevirt.io: ""
    pod-security.kubernetes.io/enforce: privileged
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: kubevirt-cluster-critical
value: 1000000000
globalDefault: false
description: This priority class should be used for core kubevirt components only.
"#;

#[test]
fn the_documented_commands_do_not_conflict_with_objects_of_kubevirt() {
    for theirs in ["apply", "apply --server-side"] {
        for (ours, file) in [
            ("apply", "docs/virt-operator.md"),
            (
                "apply --server-side --field-manager=vitistack",
                "docs/install.md",
            ),
        ] {
            let command = format!("kubectl {ours} -f config/rbac/virt-operator");
            assert!(crate::text(file).contains(&command), "{file}: {command}");
            // The folder's objects name their namespaces.
            let (sandbox, _) = start_bare();
            let kubectl = Kubectl::of(&sandbox, "");
            kubectl.ok_with_input(KUBEVIRT_SHARED, &format!("{theirs} -f -"));
            kubectl.ok(&format!("{ours} -f config/rbac/virt-operator/"));
            let labels = kubectl.ok("get namespace kubevirt -o jsonpath={.metadata.labels}");
            let label = "pod-security.kubernetes.io/enforce";
            assert!(labels.contains(label), "{theirs}, {ours}: {labels}");
        }
    }
}
