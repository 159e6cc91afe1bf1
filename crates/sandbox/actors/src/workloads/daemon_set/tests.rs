use super::*;
use crate::testing::{Fixture, created, deleted};

fn set(image: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "agent", "uid": "u", "generation": 1},
        "spec": {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn key() -> Key {
    Key::new("a", "agent")
}

fn fixture() -> Fixture {
    let nodes = ["n1", "n2", "n3"].map(|name| (NODE, json!({"metadata": {"name": name}})));
    let mut fixture = Fixture::of(nodes);
    fixture.put(DAEMON_SET, set("1"));
    fixture
}

fn run_all(fixture: &mut Fixture) {
    let pods: Vec<Object> = fixture.caches.all(POD).cloned().collect();
    for pod in pods {
        let mut running = Value::clone(&pod);
        running["spec"]["nodeName"] = node_of(&pod).into();
        running["status"] =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        fixture.put(POD, running);
    }
}

#[test]
fn every_node_has_one_pod_pinned_to_it() {
    let mut fixture = fixture();
    let writes = fixture.settle(&DaemonSets, &key());
    let nodes: BTreeSet<&str> = created(&writes)
        .iter()
        .map(|pod| node_of(pod))
        .filter(|node| !node.is_empty())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["n1", "n2", "n3"]));
    run_all(&mut fixture);
    fixture.settle(&DaemonSets, &key());
    let status = fixture.get(DAEMON_SET, "a", "agent")["status"].clone();
    assert_eq!(status["numberReady"], 3);
    assert_eq!(status["numberAvailable"], 3);
    assert_eq!(status["desiredNumberScheduled"], 3);
}

#[test]
fn an_update_replaces_one_pod_at_a_time() {
    let mut fixture = fixture();
    fixture.settle(&DaemonSets, &key());
    run_all(&mut fixture);
    fixture.settle(&DaemonSets, &key());
    fixture.put(DAEMON_SET, set("2"));
    for done in 1..=3 {
        let writes = fixture.settle(&DaemonSets, &key());
        assert_eq!(deleted(&writes).len(), 1, "{done}");
        run_all(&mut fixture);
    }
    fixture.settle(&DaemonSets, &key());
    assert_eq!(
        fixture.get(DAEMON_SET, "a", "agent")["status"]["updatedNumberScheduled"],
        3
    );
    assert_eq!(fixture.caches.all(CONTROLLER_REVISION).count(), 2);
}

#[test]
fn tainted_nodes_get_no_pod_and_cordoned_nodes_do() {
    let mut fixture = fixture();
    fixture.put(NODE, json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    fixture.put(
        NODE,
        json!({"metadata": {"name": "n2"}, "spec": {"taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]}}),
    );
    fixture.settle(&DaemonSets, &key());
    assert_eq!(fixture.caches.all(POD).count(), 2);
}

#[test]
fn with_on_delete_old_pods_stay() {
    let mut fixture = fixture();
    fixture.settle(&DaemonSets, &key());
    run_all(&mut fixture);
    let mut newer = set("2");
    newer["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    fixture.put(DAEMON_SET, newer);
    assert!(deleted(&fixture.settle(&DaemonSets, &key())).is_empty());
}
