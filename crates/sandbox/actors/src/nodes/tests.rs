use super::*;
use crate::{faults::ANNOTATION, testing::Fixture};

const NODES: Nodes = Nodes {
    count: 2,
    kubevirt: Mode::BuiltIn,
};

fn registered() -> Fixture {
    let mut fixture = Fixture::of([]);
    for key in NODES.initial_keys() {
        fixture.settle(&NODES, &key);
    }
    fixture.settle(&NODES, &Key::cluster("node-1"));
    fixture
}

#[test]
fn nodes_are_registered_and_become_ready() {
    let fixture = registered();
    let node = fixture.get(NODE, "", "node-1");
    assert!(is_true(&node, "Ready"));
    assert_eq!(
        node["status"]["allocatable"]["devices.kubevirt.io/kvm"],
        "1k"
    );
    assert_eq!(fixture.caches.all(NODE).count(), 2);
}

#[test]
fn address_ranges_do_not_overlap() {
    let fixture = registered();
    let ranges: std::collections::BTreeSet<_> = fixture
        .caches
        .all(NODE)
        .map(|node| text(node, "/spec/podCIDR").to_owned())
        .collect();
    assert_eq!(ranges.len(), 2);
}

#[test]
fn capacity_set_by_a_user_is_kept() {
    let mut fixture = Fixture::of([(
        NODE,
        json!({
            "metadata": {"name": "mine", "labels": {SIMULATED: "true"}},
            "status": {"capacity": {"cpu": "2", "pods": "5"}},
        }),
    )]);
    fixture.settle(&NODES, &Key::cluster("mine"));
    assert_eq!(
        fixture.get(NODE, "", "mine")["status"]["allocatable"],
        json!({"cpu": "2", "pods": "5"})
    );
}

#[test]
fn a_node_with_fault_not_ready_is_tainted_and_recovers() {
    let mut fixture = registered();
    let mut node = Value::clone(&fixture.get(NODE, "", "node-1"));
    node["metadata"]["annotations"] = json!({ANNOTATION: "NotReady"});
    fixture.put(NODE, node);
    fixture.settle(&NODES, &Key::cluster("node-1"));
    let node = fixture.get(NODE, "", "node-1");
    let ready = crate::object::condition(&node, "Ready").unwrap();
    assert_eq!(
        (text(ready, "/status"), text(ready, "/reason")),
        ("Unknown", "NodeStatusUnknown")
    );
    assert_eq!(list(&node, "/spec/taints").len(), 2);
    let mut healed = Value::clone(&node);
    healed["metadata"]["annotations"] = json!({});
    fixture.put(NODE, healed);
    fixture.settle(&NODES, &Key::cluster("node-1"));
    let node = fixture.get(NODE, "", "node-1");
    assert!(is_true(&node, "Ready"));
    assert!(list(&node, "/spec/taints").is_empty());
}

#[test]
fn a_cordoned_node_has_the_unschedulable_taint() {
    let mut fixture = registered();
    let mut cordoned = Value::clone(&fixture.get(NODE, "", "node-1"));
    cordoned["spec"]["unschedulable"] = json!(true);
    fixture.put(NODE, cordoned);
    fixture.settle(&NODES, &Key::cluster("node-1"));
    let node = fixture.get(NODE, "", "node-1");
    assert_eq!(
        text(&node, "/spec/taints/0/key"),
        "node.kubernetes.io/unschedulable"
    );
}

#[test]
fn a_deleted_node_stays_deleted() {
    let mut fixture = Fixture::of([]);
    assert!(fixture.settle(&NODES, &Key::cluster("node-1")).is_empty());
}

#[test]
fn at_real_speed_the_lease_is_renewed() {
    let mut fixture = registered();
    fixture.speed = Speed::Real;
    fixture.settle(&NODES, &Key::cluster("node-1"));
    let first = fixture.get(LEASE, LEASES, "node-1")["spec"]["renewTime"].clone();
    assert_eq!(first, "2026-01-01T00:00:00.000000Z");
    fixture.advance(HEARTBEAT);
    fixture.settle(&NODES, &Key::cluster("node-1"));
    assert_ne!(
        fixture.get(LEASE, LEASES, "node-1")["spec"]["renewTime"],
        first
    );
}
