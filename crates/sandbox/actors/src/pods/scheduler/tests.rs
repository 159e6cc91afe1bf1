use serde_json::json;

use super::*;
use crate::testing::{Fixture, reasons};
use crate::{Write, faults::ANNOTATION};

fn node(name: &str, cpu: &str) -> (Kind, Value) {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "3"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    (NODE, node)
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn bound(writes: &[Write]) -> Option<&str> {
    writes.iter().find_map(|write| match write {
        Write::Bind { node, .. } => Some(node.as_str()),
        _ => None,
    })
}

fn message(fixture: &Fixture, name: &str) -> String {
    let pod = fixture.get(POD, "a", name);
    text(
        crate::object::condition(&pod, "PodScheduled").unwrap(),
        "/message",
    )
    .to_owned()
}

fn schedule(fixture: &mut Fixture, name: &str) -> Vec<Write> {
    fixture.settle(&Scheduler, &Key::new("a", name))
}

#[test]
fn the_emptiest_node_is_chosen() {
    let full = with(pod("full", "1"), "/spec/nodeName", json!("n1"));
    let mut fixture = Fixture::of([
        node("n1", "4"),
        node("n2", "4"),
        (POD, full),
        (POD, pod("p", "1")),
    ]);
    let writes = schedule(&mut fixture, "p");
    assert_eq!(bound(&writes), Some("n2"));
    assert_eq!(reasons(&writes), ["Scheduled"]);
}

#[test]
fn a_pod_that_fits_no_node_gets_the_schedulers_message() {
    let tainted = with(
        node("n2", "4").1,
        "/spec",
        json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
    );
    let cordoned = with(node("n3", "4").1, "/spec", json!({"unschedulable": true}));
    let mut fixture = Fixture::of([
        node("n1", "1"),
        (NODE, tainted),
        (NODE, cordoned),
        (POD, pod("p", "2")),
    ]);
    let writes = schedule(&mut fixture, "p");
    assert_eq!(bound(&writes), None);
    assert_eq!(
        message(&fixture, "p"),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), \
         1 node(s) were unschedulable. preemption: 0/3 nodes are available: \
         1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    );
    assert_eq!(reasons(&writes), ["FailedScheduling"]);
}

#[test]
fn finished_pods_use_no_capacity() {
    let mut done = with(pod("done", "4"), "/spec/nodeName", json!("n1"));
    done["status"] = json!({"phase": "Succeeded"});
    let mut fixture = Fixture::of([node("n1", "4"), (POD, done), (POD, pod("p", "4"))]);
    assert_eq!(bound(&schedule(&mut fixture, "p")), Some("n1"));
}

#[test]
fn the_number_of_pods_is_limited() {
    let bound = |name| (POD, with(pod(name, "0"), "/spec/nodeName", json!("n1")));
    let mut fixture = Fixture::of([
        node("n1", "4"),
        bound("a"),
        bound("b"),
        bound("c"),
        (POD, pod("p", "0")),
    ]);
    schedule(&mut fixture, "p");
    assert!(message(&fixture, "p").contains("1 Too many pods"));
}

#[test]
fn a_pod_with_an_unbound_claim_is_unschedulable() {
    let user = with(
        pod("p", "1"),
        "/spec/volumes",
        json!([{"persistentVolumeClaim": {"claimName": "data"}}]),
    );
    let mut fixture = Fixture::of([node("n1", "4"), (POD, user)]);
    schedule(&mut fixture, "p");
    assert!(message(&fixture, "p").contains(r#"persistentvolumeclaim "data" not found"#));
    fixture.put(
        CLAIM,
        json!({"metadata": {"namespace": "a", "name": "data"}}),
    );
    schedule(&mut fixture, "p");
    assert!(message(&fixture, "p").contains("pod has unbound immediate PersistentVolumeClaims"));
    fixture.put(
        CLAIM,
        json!({
            "metadata": {"namespace": "a", "name": "data"},
            "spec": {"volumeName": "v"}, "status": {"phase": "Bound"},
        }),
    );
    assert_eq!(bound(&schedule(&mut fixture, "p")), Some("n1"));
}

#[test]
fn a_claim_that_waits_for_its_consumer_gets_a_selected_node_first() {
    let user = with(
        pod("p", "1"),
        "/spec/volumes",
        json!([{"persistentVolumeClaim": {"claimName": "data"}}]),
    );
    let claim = json!({"metadata": {"namespace": "a", "name": "data"}, "spec": {"storageClassName": "local"}});
    let class = json!({"metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"});
    let mut fixture = Fixture::of([
        node("n1", "4"),
        (POD, user),
        (CLAIM, claim),
        (STORAGE_CLASS, class),
    ]);
    assert_eq!(bound(&schedule(&mut fixture, "p")), None);
    assert_eq!(
        annotation(&fixture.get(CLAIM, "a", "data"), SELECTED_NODE),
        Some("n1")
    );
}

#[test]
fn a_pod_does_not_fit_outside_its_volumes_node() {
    let user = with(
        pod("p", "1"),
        "/spec/volumes",
        json!([{"persistentVolumeClaim": {"claimName": "data"}}]),
    );
    let claim = json!({
        "metadata": {"namespace": "a", "name": "data"},
        "spec": {"volumeName": "v"}, "status": {"phase": "Bound"},
    });
    let volume = json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]},
    ]}}}});
    let mut fixture = Fixture::of([
        node("n1", "4"),
        node("n2", "4"),
        (POD, user),
        (CLAIM, claim),
        (VOLUME, volume),
    ]);
    assert_eq!(bound(&schedule(&mut fixture, "p")), Some("n2"));
}

#[test]
fn gates_and_other_schedulers_are_respected() {
    let gated = with(
        pod("gated", "1"),
        "/spec/schedulingGates",
        json!([{"name": "g"}]),
    );
    let foreign = with(pod("foreign", "1"), "/spec/schedulerName", json!("mine"));
    let mut fixture = Fixture::of([node("n1", "4"), (POD, gated), (POD, foreign)]);
    assert!(schedule(&mut fixture, "gated").is_empty());
    assert!(schedule(&mut fixture, "foreign").is_empty());
}

#[test]
fn a_pod_with_fault_unschedulable_gets_no_node() {
    let pod = with(
        pod("p", "1"),
        "/metadata/annotations",
        json!({ANNOTATION: "Unschedulable"}),
    );
    let mut fixture = Fixture::of([node("n1", "4"), (POD, pod)]);
    assert_eq!(bound(&schedule(&mut fixture, "p")), None);
}
