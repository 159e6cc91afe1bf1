use serde_json::json;

use super::*;
use crate::{
    faults::ANNOTATION,
    nodes::SIMULATED,
    testing::{Fixture, created, deleted, reasons},
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

fn status(fixture: &Fixture) -> Value {
    fixture.get(POD, "a", "p")["status"].clone()
}

#[test]
fn a_pod_starts_and_becomes_ready_with_an_address_of_its_node() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", ""))]);
    let writes = fixture.settle(&Kubelet::default(), &key());
    let status = status(&fixture);
    assert_eq!(status["phase"], "Running");
    assert!(is_true(&fixture.get(POD, "a", "p"), "Ready"));
    assert!(status["podIP"].as_str().unwrap().starts_with("10.1.0."));
    assert_eq!(status["hostIP"], "192.168.0.1");
    assert_eq!(reasons(&writes), ["Pulled", "Created", "Started"]);
}

#[test]
fn every_phase_takes_its_time() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", ""))]);
    fixture.speed = crate::Speed::Real;
    fixture.settle(&Kubelet::default(), &key());
    assert_eq!(status(&fixture)["phase"], "Pending");
    fixture.advance(Duration::from_millis(1500));
    fixture.settle(&Kubelet::default(), &key());
    assert_eq!(status(&fixture)["phase"], "Running");
    assert!(!is_true(&fixture.get(POD, "a", "p"), "Ready"));
    fixture.advance(Duration::from_millis(1500));
    fixture.settle(&Kubelet::default(), &key());
    assert!(is_true(&fixture.get(POD, "a", "p"), "Ready"));
}

#[test]
fn two_pods_never_have_the_same_address() {
    let mut small = node();
    small.1["spec"]["podCIDR"] = json!("10.1.0.0/29");
    let mut fixture = Fixture::of([small]);
    let mut addresses = std::collections::BTreeSet::new();
    for number in 0..6 {
        let mut one = pod("Always", "");
        one["metadata"]["name"] = format!("p{number}").into();
        fixture.put(POD, one);
        fixture.settle(&Kubelet::default(), &Key::new("a", format!("p{number}")));
        addresses.insert(
            text(
                &fixture.get(POD, "a", &format!("p{number}")),
                "/status/podIP",
            )
            .to_owned(),
        );
    }
    assert_eq!(addresses.len(), 6);
}

#[test]
fn a_crash_loop_ends_after_the_requested_number_of_crashes() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", "CrashLoopBackOff*2"))]);
    for _ in 0..3 {
        fixture.settle(&Kubelet::default(), &key());
        fixture.advance(Duration::from_secs(400));
    }
    let status = status(&fixture);
    assert_eq!(status["containerStatuses"][0]["restartCount"], 2);
    assert_eq!(
        status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        1
    );
    assert!(status["containerStatuses"][0]["state"]["running"].is_object());
}

#[test]
fn a_crash_loop_backs_off_even_at_instant_speed() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", "CrashLoopBackOff"))]);
    fixture.settle(&Kubelet::default(), &key());
    let outcome = fixture.reconcile(&Kubelet::default(), &key());
    assert!(outcome.writes.is_empty());
    assert_eq!(outcome.requeue_after, Some(MIN_BACK_OFF));
    let waiting = status(&fixture)["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!(waiting, "CrashLoopBackOff");
}

#[test]
fn a_pod_that_is_not_restarted_fails_with_the_exit_code() {
    let mut fixture = Fixture::of([node(), (POD, pod("Never", "Exit=137"))]);
    fixture.settle(&Kubelet::default(), &key());
    let status = status(&fixture);
    assert_eq!(status["phase"], "Failed");
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        137
    );
}

#[test]
fn an_image_may_be_missing() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", "ImagePullBackOff"))]);
    let writes = fixture.settle(&Kubelet::default(), &key());
    assert_eq!(status(&fixture)["phase"], "Pending");
    assert_eq!(reasons(&writes), ["Pulling", "Failed", "BackOff"]);
}

#[test]
fn a_ready_pod_can_become_unready_later() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", "NeverReady@1m"))]);
    fixture.settle(&Kubelet::default(), &key());
    assert!(is_true(&fixture.get(POD, "a", "p"), "Ready"));
    fixture.advance(Duration::from_secs(60));
    fixture.settle(&Kubelet::default(), &key());
    assert!(!is_true(&fixture.get(POD, "a", "p"), "Ready"));
}

#[test]
fn a_fault_of_a_deployment_applies_to_its_pods() {
    let deployment = json!({"metadata": {"namespace": "a", "name": "d", "annotations": {ANNOTATION: "NeverReady"}}});
    let set = json!({"metadata": {"namespace": "a", "name": "s", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "controller": true},
    ]}});
    let mut one = pod("Always", "");
    one["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "controller": true}]);
    let mut fixture = Fixture::of([
        node(),
        (DEPLOYMENT, deployment),
        (REPLICA_SET, set),
        (POD, one),
    ]);
    fixture.settle(&Kubelet::default(), &key());
    assert_eq!(status(&fixture)["phase"], "Running");
    assert!(!is_true(&fixture.get(POD, "a", "p"), "Ready"));
}

#[test]
fn a_pod_terminates_within_its_grace_period() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", ""))]);
    fixture.settle(&Kubelet::default(), &key());
    let mut ending = Value::clone(&fixture.get(POD, "a", "p"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    ending["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    fixture.speed = crate::Speed::Real;
    fixture.put(POD, ending);
    assert!(deleted(&fixture.settle(&Kubelet::default(), &key())).is_empty());
    fixture.advance(Duration::from_secs(1));
    assert_eq!(deleted(&fixture.settle(&Kubelet::default(), &key())), ["p"]);
}

#[test]
fn nothing_happens_on_nodes_that_are_real_or_not_ready() {
    let mut real = node();
    real.1["metadata"]["labels"] = json!({});
    let mut fixture = Fixture::of([real, (POD, pod("Always", ""))]);
    assert!(fixture.settle(&Kubelet::default(), &key()).is_empty());
    let mut silent = node();
    silent.1["status"]["conditions"][0]["status"] = json!("Unknown");
    fixture.put(NODE, silent.1);
    assert!(fixture.settle(&Kubelet::default(), &key()).is_empty());
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
fn a_dump_writes_its_config_map_and_succeeds() {
    let pod = dumper("registry.example/virt-operator:v1.9.0", &config("v1.9.0"));
    let mut fixture = Fixture::of([node(), (POD, pod)]);
    let writes = fixture.settle(&Kubelet::default(), &key());
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
    assert_eq!(status(&fixture)["phase"], "Succeeded");
}

#[test]
fn an_unknown_release_has_no_image() {
    let image = "registry.example/virt-operator:v9.9.9";
    let mut fixture = Fixture::of([node(), (POD, dumper(image, &config("v9.9.9")))]);
    let writes = fixture.settle(&Kubelet::default(), &key());
    assert!(created(&writes).is_empty());
    assert_eq!(reasons(&writes), ["Pulling", "Failed", "BackOff"]);
    let waiting = &status(&fixture)["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("ErrImagePull"), "{message}");
}

#[test]
fn a_dump_without_configuration_fails() {
    let pod = dumper("registry.example/virt-operator:v1.9.0", "");
    let mut fixture = Fixture::of([node(), (POD, pod)]);
    assert!(created(&fixture.settle(&Kubelet::default(), &key())).is_empty());
    assert_eq!(status(&fixture)["phase"], "Failed");
}

#[test]
fn an_image_pull_is_retried_after_its_fault_is_removed() {
    let mut failing = pod("Always", "ImagePullBackOff");
    let mut fixture = Fixture::of([node(), (POD, failing.clone())]);
    fixture.settle(&Kubelet::default(), &key());
    let next = fixture.reconcile(&Kubelet::default(), &key()).requeue_after;
    assert_eq!(next, Some(Duration::from_secs(10)));
    failing["status"] = status(&fixture);
    failing["metadata"]["annotations"] = json!({});
    fixture.put(POD, failing);
    fixture.settle(&Kubelet::default(), &key());
    assert_eq!(status(&fixture)["phase"], "Running");
}

#[test]
fn a_pod_that_is_about_to_crash_does_not_become_ready() {
    let mut fixture = Fixture::of([node(), (POD, pod("Always", "CrashLoopBackOff"))]);
    fixture.speed = crate::Speed::Real;
    for _ in 0..8 {
        fixture.settle(&Kubelet::default(), &key());
        assert!(!is_true(&fixture.get(POD, "a", "p"), "Ready"));
        fixture.advance(Duration::from_millis(600));
    }
    assert_eq!(stage(&fixture.get(POD, "a", "p")), Stage::CrashBackOff);
}
