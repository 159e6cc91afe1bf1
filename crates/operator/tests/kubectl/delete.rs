//! delete: finalizers, dependents, namespaces.

use crate::kubectl::{Kubectl, is_too_old_for};

#[test]
fn finalizers_hold_an_object_back() {
    let kubectl = Kubectl::new("delete-finalizers");
    kubectl.ok("create configmap held");
    let finalizers = r#"{"metadata":{"finalizers":["example.org/hold"]}}"#;
    kubectl.ok(&format!("patch configmap held -p '{finalizers}'"));
    kubectl.ok("delete configmap held --wait=false");
    assert_ne!(
        kubectl.value("configmap/held", ".metadata.deletionTimestamp"),
        ""
    );
    let said = kubectl.fails("wait configmap/held --for=delete --timeout=1s");
    assert!(
        said.contains("timed out waiting for the condition"),
        "{said}"
    );
    let none = r#"{"metadata":{"finalizers":null}}"#;
    kubectl.ok(&format!("patch configmap held --type=merge -p '{none}'"));
    kubectl.gone("configmap/held");
    let said = kubectl.fails("delete configmap held");
    assert_eq!(
        said,
        "Error from server (NotFound): configmaps \"held\" not found\n"
    );
    kubectl.ok("delete configmap held --ignore-not-found");
}

#[test]
fn dependents_go_first_after_or_not_at_all() {
    let kubectl = Kubectl::new("delete-cascade");
    for name in ["first", "after", "never"] {
        kubectl.ok(&format!("create deployment {name} --image=nginx:1"));
        kubectl.ok(&format!("rollout status deployment/{name} --timeout=60s"));
    }
    kubectl.ok("delete deployment first --cascade=foreground --timeout=60s");
    assert_eq!(kubectl.ok("get replicasets,pods -l app=first -o name"), "");
    kubectl.ok("delete deployment after --cascade=background");
    kubectl.ok("delete deployment never --cascade=orphan");
    kubectl.gone("pods,replicasets -l app=after");
    let left = kubectl.ok("get replicasets -l app=never -o name");
    let left = left.trim();
    assert!(left.starts_with("replicaset.apps/never-"), "{left}");
    assert_eq!(kubectl.value(left, ".metadata.ownerReferences"), "");
    assert_eq!(
        kubectl.value("pods -l app=never", ".items[*].status.phase"),
        "Running"
    );
}

#[test]
fn all_of_a_kind_or_those_with_a_label() {
    let kubectl = Kubectl::new("delete-all");
    for name in ["a", "b", "c"] {
        kubectl.ok(&format!("create configmap {name}"));
    }
    kubectl.ok("label configmap a b go=yes");
    if !is_too_old_for("a dry run without the paths of OpenAPI v2") {
        kubectl.ok("delete configmap -l go=yes --dry-run=server");
    }
    kubectl.ok("delete configmap -l go=yes");
    assert_eq!(
        kubectl.ok("get configmap -o name"),
        "configmap/c\nconfigmap/kube-root-ca.crt\n"
    );
    kubectl.ok("delete configmap --all");
    kubectl.gone("configmap/c");
}

#[test]
fn a_namespace_ends_with_all_that_is_in_it() {
    let kubectl = Kubectl::new("delete-namespace");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("create configmap held");
    let finalizers = r#"{"metadata":{"finalizers":["example.org/hold"]}}"#;
    kubectl.ok(&format!("patch configmap held -p '{finalizers}'"));
    kubectl.ok("delete namespace delete-namespace --wait=false");
    let mut watch = kubectl.follow("get namespace delete-namespace --watch -o yaml");
    watch.until(&["Some content in the namespace has finalizers remaining: example.org/hold"]);
    drop(watch);
    let said = kubectl.fails("create configmap late");
    assert!(
        said.contains("unable to create new content in namespace delete-namespace because it is being terminated"),
        "{said}"
    );
    let none = r#"{"metadata":{"finalizers":null}}"#;
    kubectl.ok(&format!("patch configmap held --type=merge -p '{none}'"));
    kubectl.gone("namespace/delete-namespace");
    assert_eq!(kubectl.ok("get all,configmaps -o name"), "");
    let said = kubectl.fails("delete namespace default");
    assert!(said.contains("this namespace may not be deleted"), "{said}");
}
