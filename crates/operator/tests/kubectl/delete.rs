//! `kubectl delete`: finalizers, dependents, namespaces.

use crate::kubectl::{Kubectl, is_too_old_for};

#[test]
fn finalizers_delay_a_deletion() {
    let kubectl = Kubectl::new("delete-finalizers");
    kubectl.ok("create configmap blocked");
    let finalizers = r#"{"metadata":{"finalizers":["example.org/hold"]}}"#;
    kubectl.ok(&format!("patch configmap blocked -p '{finalizers}'"));
    kubectl.ok("delete configmap blocked --wait=false");
    assert_ne!(
        kubectl.value("configmap/blocked", ".metadata.deletionTimestamp"),
        ""
    );
    let printed = kubectl.fails("wait configmap/blocked --for=delete --timeout=1s");
    assert!(
        printed.contains("timed out waiting for the condition"),
        "{printed}"
    );
    let none = r#"{"metadata":{"finalizers":null}}"#;
    kubectl.ok(&format!("patch configmap blocked --type=merge -p '{none}'"));
    kubectl.until_deleted("configmap/blocked");
    let printed = kubectl.fails("delete configmap blocked");
    assert_eq!(
        printed,
        "Error from server (NotFound): configmaps \"blocked\" not found\n"
    );
    kubectl.ok("delete configmap blocked --ignore-not-found");
}

#[test]
fn foreground_background_and_orphan_deletion_work() {
    let kubectl = Kubectl::new("delete-cascade");
    for name in ["first", "after", "never"] {
        kubectl.ok(&format!("create deployment {name} --image=nginx:1"));
        kubectl.ok(&format!("rollout status deployment/{name} --timeout=60s"));
    }
    kubectl.ok("delete deployment first --cascade=foreground --timeout=60s");
    assert_eq!(kubectl.ok("get replicasets,pods -l app=first -o name"), "");
    kubectl.ok("delete deployment after --cascade=background");
    kubectl.ok("delete deployment never --cascade=orphan");
    kubectl.until_deleted("pods,replicasets -l app=after");
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
fn delete_all_and_delete_by_label_work() {
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
    kubectl.until_deleted("configmap/c");
}

#[test]
fn deleting_a_namespace_deletes_its_objects() {
    let kubectl = Kubectl::new("delete-namespace");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("create configmap blocked");
    let finalizers = r#"{"metadata":{"finalizers":["example.org/hold"]}}"#;
    kubectl.ok(&format!("patch configmap blocked -p '{finalizers}'"));
    kubectl.ok("delete namespace delete-namespace --wait=false");
    let mut watch = kubectl.follow("get namespace delete-namespace --watch -o yaml");
    watch.until(&["Some content in the namespace has finalizers remaining: example.org/hold"]);
    drop(watch);
    let printed = kubectl.fails("create configmap late");
    assert!(
        printed.contains("unable to create new content in namespace delete-namespace because it is being terminated"),
        "{printed}"
    );
    let none = r#"{"metadata":{"finalizers":null}}"#;
    kubectl.ok(&format!("patch configmap blocked --type=merge -p '{none}'"));
    kubectl.until_deleted("namespace/delete-namespace");
    assert_eq!(kubectl.ok("get all,configmaps -o name"), "");
    let printed = kubectl.fails("delete namespace default");
    assert!(
        printed.contains("this namespace may not be deleted"),
        "{printed}"
    );
}
