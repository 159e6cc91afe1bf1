//! Nodes are drained: in a sandbox of their own, where no other test's pods are.

use crate::{kubectl::Kubectl, process::Sandbox};

#[test]
fn a_node_is_drained_and_comes_back() {
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
fn a_disruption_budget_holds_a_drain_back() {
    let sandbox = Sandbox::start(&["--speed", "instant", "--nodes", "1"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("create poddisruptionbudget web --selector='app in (web)' --min-available=2");
    kubectl
        .follow("get pdb web --watch -o jsonpath='{.status.currentHealthy}{\"\\n\"}'")
        .until(&["2"]);
    let said = kubectl.fails("drain node-1 --timeout=1s");
    assert!(
        said.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{said}"
    );
    assert_eq!(
        kubectl.value("deployment/web", ".status.readyReplicas"),
        "2"
    );
}
