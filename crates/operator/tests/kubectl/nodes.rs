//! `kubectl drain` and `uncordon`, in a sandbox of their own without pods of other tests.

use crate::{kubectl::Kubectl, process::Sandbox};

#[test]
fn a_node_is_drained_and_uncordoned() {
    let sandbox = Sandbox::start(&["--speed", "instant", "--nodes", "2"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=4");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("cordon node-1");
    assert!(
        kubectl
            .ok("get node node-1")
            .contains("Ready,SchedulingDisabled")
    );
    kubectl.ok("drain node-1 --timeout=60s");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    let nodes = kubectl.value("pods -l app=web", ".items[*].spec.nodeName");
    assert_eq!(nodes, "node-2 node-2 node-2 node-2");
    kubectl.ok("uncordon node-1");
    kubectl.ok("scale deployment web --replicas=8");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    assert!(kubectl.ok("get pods -o wide").contains("node-1"));
}

#[test]
fn a_disruption_budget_delays_a_drain() {
    let sandbox = Sandbox::start(&["--speed", "instant", "--nodes", "1"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    let budget = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector":
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}}"#;
    kubectl.ok_with_input(budget, "create -f -");
    kubectl
        .follow("get pdb web --watch -o jsonpath='{.status.currentHealthy}{\"\\n\"}'")
        .until(&["2"]);
    let printed = kubectl.fails("drain node-1 --timeout=1s");
    assert!(
        printed.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{printed}"
    );
    assert_eq!(
        kubectl.value("deployment/web", ".status.readyReplicas"),
        "2"
    );
}
