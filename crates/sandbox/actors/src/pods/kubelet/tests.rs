use serde_json::json;

use super::*;
use crate::{
    faults::ANNOTATION,
    nodes::SIMULATED,
    testing::{Scene, created, deleted, reasons},
};

fn node() -> (Kind, Value) {
    let node = json!({
        "metadata": {"name": "n1", "labels": {SIMULATED: "true"}},
        "spec": {"podCIDR": "10.1.0.0/24"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    (NODE, node)
}

fn pod(policy: &str, fail: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "p", "annotations": {ANNOTATION: fail}},
        "spec": {
            "nodeName": "n1",
            "restartPolicy": policy,
            "containers": [{"name": "c", "image": "i", "readinessProbe": {}}],
        },
    })
}

fn key() -> Key {
    Key::new("a", "p")
}

fn status(scene: &Scene) -> Value {
    scene.get(POD, "a", "p")["status"].clone()
}

#[test]
fn a_pod_starts_and_becomes_ready_with_an_address_of_its_node() {
    let mut scene = Scene::of([node(), (POD, pod("Always", ""))]);
    let writes = scene.settle(&Kubelet::default(), &key());
    let status = status(&scene);
    assert_eq!(status["phase"], "Running");
    assert!(is_true(&scene.get(POD, "a", "p"), "Ready"));
    assert!(status["podIP"].as_str().unwrap().starts_with("10.1.0."));
    assert_eq!(status["hostIP"], "192.168.0.1");
    assert_eq!(reasons(&writes), ["Pulled", "Created", "Started"]);
}

#[test]
fn every_phase_takes_its_time() {
    let mut scene = Scene::of([node(), (POD, pod("Always", ""))]);
    scene.speed = crate::Speed::Real;
    scene.settle(&Kubelet::default(), &key());
    assert_eq!(status(&scene)["phase"], "Pending");
    scene.pass(Duration::from_millis(1500));
    scene.settle(&Kubelet::default(), &key());
    assert_eq!(status(&scene)["phase"], "Running");
    assert!(!is_true(&scene.get(POD, "a", "p"), "Ready"));
    scene.pass(Duration::from_millis(1500));
    scene.settle(&Kubelet::default(), &key());
    assert!(is_true(&scene.get(POD, "a", "p"), "Ready"));
}

#[test]
fn two_pods_never_have_the_same_address() {
    let mut small = node();
    small.1["spec"]["podCIDR"] = json!("10.1.0.0/29");
    let mut scene = Scene::of([small]);
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..6 {
        let mut one = pod("Always", "");
        one["metadata"]["name"] = format!("p{number}").into();
        scene.put(POD, one);
        scene.settle(&Kubelet::default(), &Key::new("a", format!("p{number}")));
        seen.insert(text(&scene.get(POD, "a", &format!("p{number}")), "/status/podIP").to_owned());
    }
    assert_eq!(seen.len(), 6);
}

#[test]
fn crashes_are_counted_and_end_when_they_were_asked_to() {
    let mut scene = Scene::of([node(), (POD, pod("Always", "CrashLoopBackOff*2"))]);
    for _ in 0..3 {
        scene.settle(&Kubelet::default(), &key());
        scene.pass(Duration::from_secs(400));
    }
    let status = status(&scene);
    assert_eq!(status["containerStatuses"][0]["restartCount"], 2);
    assert_eq!(
        status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        1
    );
    assert!(status["containerStatuses"][0]["state"]["running"].is_object());
}

#[test]
fn a_crash_loop_waits_even_at_instant_speed() {
    let mut scene = Scene::of([node(), (POD, pod("Always", "CrashLoopBackOff"))]);
    scene.settle(&Kubelet::default(), &key());
    let outcome = scene.decide(&Kubelet::default(), &key());
    assert!(outcome.writes.is_empty());
    assert_eq!(outcome.next, Some(LEAST_BACK_OFF));
    let waiting = status(&scene)["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!(waiting, "CrashLoopBackOff");
}

#[test]
fn a_pod_that_is_not_restarted_fails_with_its_code() {
    let mut scene = Scene::of([node(), (POD, pod("Never", "Exit=137"))]);
    scene.settle(&Kubelet::default(), &key());
    let status = status(&scene);
    assert_eq!(status["phase"], "Failed");
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        137
    );
}

#[test]
fn an_image_may_be_missing() {
    let mut scene = Scene::of([node(), (POD, pod("Always", "ImagePullBackOff"))]);
    let writes = scene.settle(&Kubelet::default(), &key());
    assert_eq!(status(&scene)["phase"], "Pending");
    assert_eq!(reasons(&writes), ["Pulling", "Failed", "BackOff"]);
}

#[test]
fn a_ready_pod_can_become_unready_later() {
    let mut scene = Scene::of([node(), (POD, pod("Always", "NeverReady@1m"))]);
    scene.settle(&Kubelet::default(), &key());
    assert!(is_true(&scene.get(POD, "a", "p"), "Ready"));
    scene.pass(Duration::from_secs(60));
    scene.settle(&Kubelet::default(), &key());
    assert!(!is_true(&scene.get(POD, "a", "p"), "Ready"));
}

#[test]
fn what_is_asked_of_a_deployment_holds_for_its_pods() {
    let deployment = json!({"metadata": {"namespace": "a", "name": "d", "annotations": {ANNOTATION: "NeverReady"}}});
    let set = json!({"metadata": {"namespace": "a", "name": "s", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "controller": true},
    ]}});
    let mut one = pod("Always", "");
    one["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "controller": true}]);
    let mut scene = Scene::of([
        node(),
        (DEPLOYMENT, deployment),
        (REPLICA_SET, set),
        (POD, one),
    ]);
    scene.settle(&Kubelet::default(), &key());
    assert_eq!(status(&scene)["phase"], "Running");
    assert!(!is_true(&scene.get(POD, "a", "p"), "Ready"));
}

#[test]
fn a_pod_ends_within_its_grace() {
    let mut scene = Scene::of([node(), (POD, pod("Always", ""))]);
    scene.settle(&Kubelet::default(), &key());
    let mut ending = Value::clone(&scene.get(POD, "a", "p"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    ending["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    scene.speed = crate::Speed::Real;
    scene.put(POD, ending);
    assert!(deleted(&scene.settle(&Kubelet::default(), &key())).is_empty());
    scene.pass(Duration::from_secs(1));
    assert_eq!(deleted(&scene.settle(&Kubelet::default(), &key())), ["p"]);
}

#[test]
fn nothing_happens_on_nodes_that_are_real_or_not_ready() {
    let mut real = node();
    real.1["metadata"]["labels"] = json!({});
    let mut scene = Scene::of([real, (POD, pod("Always", ""))]);
    assert!(scene.settle(&Kubelet::default(), &key()).is_empty());
    let mut silent = node();
    silent.1["status"]["conditions"][0]["status"] = json!("Unknown");
    scene.put(NODE, silent.1);
    assert!(scene.settle(&Kubelet::default(), &key()).is_empty());
}

fn dumper(image: &str, config: &str) -> Value {
    let mut pod = pod("Never", "");
    pod["spec"]["containers"] = json!([{
        "name": "install-strategy-upload",
        "image": image,
        "command": ["virt-operator", "--dump-install-strategy"],
        "env": [{"name": "TARGET_DEPLOYMENT_CONFIG", "value": config}],
    }]);
    pod
}

fn config(version: &str) -> String {
    let config = json!({
        "id": "abc",
        "namespace": "kubevirt",
        "registry": "registry.example",
        "kubeVirtVersion": version,
    });
    config.to_string()
}

#[test]
fn a_dump_leaves_a_strategy_behind_and_ends() {
    let pod = dumper("registry.example/virt-operator:v1.9.0", &config("v1.9.0"));
    let mut scene = Scene::of([node(), (POD, pod)]);
    let writes = scene.settle(&Kubelet::default(), &key());
    let objects = created(&writes);
    assert_eq!(objects.len(), 1);
    let metadata = &objects[0]["metadata"];
    assert_eq!(metadata["namespace"], "kubevirt");
    assert_eq!(metadata["labels"]["kubevirt.io/install-strategy"], "");
    let annotations = &metadata["annotations"];
    assert_eq!(
        annotations["kubevirt.io/install-strategy-version"],
        "v1.9.0"
    );
    assert_eq!(
        annotations["kubevirt.io/install-strategy-identifier"],
        "abc"
    );
    assert_eq!(status(&scene)["phase"], "Succeeded");
}

#[test]
fn a_release_that_does_not_exist_has_no_image() {
    let image = "registry.example/virt-operator:v9.9.9";
    let mut scene = Scene::of([node(), (POD, dumper(image, &config("v9.9.9")))]);
    let writes = scene.settle(&Kubelet::default(), &key());
    assert!(created(&writes).is_empty());
    assert_eq!(reasons(&writes), ["Pulling", "Failed", "BackOff"]);
    let waiting = &status(&scene)["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("ErrImagePull"), "{message}");
}

#[test]
fn a_dump_that_is_not_told_what_to_install_fails() {
    let pod = dumper("registry.example/virt-operator:v1.9.0", "");
    let mut scene = Scene::of([node(), (POD, pod)]);
    assert!(created(&scene.settle(&Kubelet::default(), &key())).is_empty());
    assert_eq!(status(&scene)["phase"], "Failed");
}

#[test]
fn an_image_that_can_be_pulled_again_is() {
    let mut failing = pod("Always", "ImagePullBackOff");
    let mut scene = Scene::of([node(), (POD, failing.clone())]);
    scene.settle(&Kubelet::default(), &key());
    let next = scene.decide(&Kubelet::default(), &key()).next;
    assert_eq!(next, Some(Duration::from_secs(10)));
    failing["status"] = status(&scene);
    failing["metadata"]["annotations"] = json!({});
    scene.put(POD, failing);
    scene.settle(&Kubelet::default(), &key());
    assert_eq!(status(&scene)["phase"], "Running");
}

#[test]
fn what_crashes_soon_does_not_become_ready_before() {
    let mut scene = Scene::of([node(), (POD, pod("Always", "CrashLoopBackOff"))]);
    scene.speed = crate::Speed::Real;
    for _ in 0..8 {
        scene.settle(&Kubelet::default(), &key());
        assert!(!is_true(&scene.get(POD, "a", "p"), "Ready"));
        scene.pass(Duration::from_millis(600));
    }
    assert_eq!(stage(&scene.get(POD, "a", "p")), Stage::CrashBackOff);
}
