use super::*;
use crate::testing::{Scene, created, deleted};

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

fn scene() -> Scene {
    let nodes = ["n1", "n2", "n3"].map(|name| (NODE, json!({"metadata": {"name": name}})));
    let mut scene = Scene::of(nodes);
    scene.put(DAEMON_SET, set("1"));
    scene
}

fn run_all(scene: &mut Scene) {
    let pods: Vec<Object> = scene.caches.all(POD).cloned().collect();
    for pod in pods {
        let mut running = Value::clone(&pod);
        running["spec"]["nodeName"] = node_of(&pod).into();
        running["status"] =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        scene.put(POD, running);
    }
}

#[test]
fn every_node_has_one_pod_that_is_meant_for_it() {
    let mut scene = scene();
    let writes = scene.settle(&DaemonSets, &key());
    let nodes: BTreeSet<&str> = created(&writes)
        .iter()
        .map(|pod| node_of(pod))
        .filter(|node| !node.is_empty())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["n1", "n2", "n3"]));
    run_all(&mut scene);
    scene.settle(&DaemonSets, &key());
    let status = scene.get(DAEMON_SET, "a", "agent")["status"].clone();
    assert_eq!(status["numberReady"], 3);
    assert_eq!(status["numberAvailable"], 3);
    assert_eq!(status["desiredNumberScheduled"], 3);
}

#[test]
fn an_update_takes_one_node_at_a_time() {
    let mut scene = scene();
    scene.settle(&DaemonSets, &key());
    run_all(&mut scene);
    scene.settle(&DaemonSets, &key());
    scene.put(DAEMON_SET, set("2"));
    for done in 1..=3 {
        let writes = scene.settle(&DaemonSets, &key());
        assert_eq!(deleted(&writes).len(), 1, "{done}");
        run_all(&mut scene);
    }
    scene.settle(&DaemonSets, &key());
    assert_eq!(
        scene.get(DAEMON_SET, "a", "agent")["status"]["updatedNumberScheduled"],
        3
    );
    assert_eq!(scene.caches.all(CONTROLLER_REVISION).count(), 2);
}

#[test]
fn tainted_nodes_are_left_out_and_cordoned_ones_are_not() {
    let mut scene = scene();
    scene.put(NODE, json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    scene.put(
        NODE,
        json!({"metadata": {"name": "n2"}, "spec": {"taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]}}),
    );
    scene.settle(&DaemonSets, &key());
    assert_eq!(scene.caches.all(POD).count(), 2);
}

#[test]
fn with_on_delete_old_pods_stay() {
    let mut scene = scene();
    scene.settle(&DaemonSets, &key());
    run_all(&mut scene);
    let mut newer = set("2");
    newer["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    scene.put(DAEMON_SET, newer);
    assert!(deleted(&scene.settle(&DaemonSets, &key())).is_empty());
}
