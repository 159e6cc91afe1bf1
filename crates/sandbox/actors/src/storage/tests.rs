use std::time::Duration;

use super::*;
use crate::{
    Kind,
    faults::ANNOTATION,
    kind::{CLAIM, POD, VOLUME},
    object::{condition, has_finalizer},
    testing::{Scene, created, deleted, reasons},
    turn::SELECTED_NODE,
};

fn claim(class: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "data", "uid": "u1"},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    })
}

fn scene(claim: Value) -> Scene {
    let classes = classes().into_iter().map(|class| (STORAGE_CLASS, class));
    let mut scene = Scene::of(classes.collect::<Vec<(Kind, Value)>>());
    scene.put(CLAIM, claim);
    scene
}

fn settle(scene: &mut Scene) -> Vec<crate::Write> {
    let mut writes = Vec::new();
    for _ in 0..3 {
        writes.extend(scene.settle(&Claims, &Key::new("a", "data")));
        writes.extend(scene.settle(&Volumes, &Key::cluster("pvc-u1")));
    }
    writes
}

fn phase(scene: &Scene) -> String {
    text(&scene.get(CLAIM, "a", "data"), "/status/phase").to_owned()
}

#[test]
fn a_claim_is_bound_to_a_volume_made_for_it() {
    let mut scene = scene(claim("standard"));
    let writes = settle(&mut scene);
    let claim = scene.get(CLAIM, "a", "data");
    let volume = scene.get(VOLUME, "", "pvc-u1");
    assert_eq!(text(&claim, "/status/phase"), "Bound");
    assert_eq!(text(&claim, "/status/capacity/storage"), "1Gi");
    assert_eq!(text(&volume, "/status/phase"), "Bound");
    assert_eq!(text(&volume, "/spec/claimRef/uid"), "u1");
    assert!(volume.pointer("/spec/nodeAffinity").is_none());
    assert!(has_finalizer(&claim, "kubernetes.io/pvc-protection"));
    assert!(reasons(&writes).contains(&"ProvisioningSucceeded"));
}

#[test]
fn a_claim_without_a_class_gets_the_default_one() {
    let mut open = claim("");
    open["spec"]
        .as_object_mut()
        .unwrap()
        .remove("storageClassName");
    let mut scene = scene(open);
    settle(&mut scene);
    assert_eq!(
        text(&scene.get(CLAIM, "a", "data"), "/spec/storageClassName"),
        "standard"
    );
    assert_eq!(phase(&scene), "Bound");
}

#[test]
fn a_claim_that_wants_no_class_takes_a_volume_that_is_there() {
    let mut scene = scene(claim(""));
    settle(&mut scene);
    assert_eq!(phase(&scene), "Pending");
    for (name, size) in [("large", "9Gi"), ("fitting", "2Gi"), ("small", "1Mi")] {
        scene.put(VOLUME, json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "persistentVolumeReclaimPolicy": "Retain"},
            "status": {"phase": "Available"},
        }));
    }
    settle(&mut scene);
    assert_eq!(
        text(&scene.get(CLAIM, "a", "data"), "/spec/volumeName"),
        "fitting"
    );
}

#[test]
fn a_local_claim_waits_for_a_node() {
    let mut scene = scene(claim("local"));
    assert_eq!(
        reasons(&settle(&mut scene)).first(),
        Some(&"WaitForFirstConsumer")
    );
    assert_eq!(phase(&scene), "Pending");
    let mut promised = Value::clone(&scene.get(CLAIM, "a", "data"));
    promised["metadata"]["annotations"] = json!({SELECTED_NODE: "n1"});
    scene.put(CLAIM, promised);
    settle(&mut scene);
    assert_eq!(phase(&scene), "Bound");
    let volume = scene.get(VOLUME, "", "pvc-u1");
    assert_eq!(
        text(
            &volume,
            "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0"
        ),
        "n1"
    );
}

#[test]
fn a_class_that_does_not_exist_is_waited_for() {
    let mut scene = scene(claim("late"));
    assert_eq!(
        reasons(&settle(&mut scene)).first(),
        Some(&"ProvisioningFailed")
    );
    scene.put(
        STORAGE_CLASS,
        json!({"metadata": {"name": "late"}, "provisioner": "p"}),
    );
    settle(&mut scene);
    assert_eq!(phase(&scene), "Bound");
}

#[test]
fn a_driver_has_a_name_that_drivers_can_have() {
    for (provisioner, driver) in [
        ("csi.example.com", "csi.example.com"),
        ("example.com/local-path", "provisioner.sandbox.vitistack.io"),
    ] {
        let mut scene = scene(claim("own"));
        scene.put(
            STORAGE_CLASS,
            json!({"metadata": {"name": "own"}, "provisioner": provisioner}),
        );
        settle(&mut scene);
        let volume = scene.get(VOLUME, "", "pvc-u1");
        assert_eq!(text(&volume, "/spec/csi/driver"), driver);
    }
}

#[test]
fn provisioning_fails_as_often_as_asked() {
    let mut asked = claim("standard");
    asked["metadata"]["annotations"] = json!({ANNOTATION: "ProvisioningFailed*2"});
    let mut scene = scene(asked);
    assert!(reasons(&settle(&mut scene)).contains(&"ProvisioningFailed"));
    assert!(created(&settle(&mut scene)).is_empty());
    scene.pass(Duration::from_secs(2));
    settle(&mut scene);
    assert_eq!(phase(&scene), "Bound");
}

fn grown(scene: &mut Scene) {
    let mut grown = Value::clone(&scene.get(CLAIM, "a", "data"));
    grown["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    scene.put(CLAIM, grown);
}

#[test]
fn a_file_system_grows_once_a_pod_uses_it() {
    let mut scene = scene(claim("standard"));
    settle(&mut scene);
    grown(&mut scene);
    settle(&mut scene);
    let waiting = scene.get(CLAIM, "a", "data");
    assert!(condition(&waiting, "FileSystemResizePending").is_some());
    assert_eq!(text(&waiting, "/status/capacity/storage"), "1Gi");
    assert_eq!(
        text(&scene.get(VOLUME, "", "pvc-u1"), "/spec/capacity/storage"),
        "2Gi"
    );
    scene.put(POD, json!({
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": "Running"},
    }));
    settle(&mut scene);
    let done = scene.get(CLAIM, "a", "data");
    assert_eq!(text(&done, "/status/capacity/storage"), "2Gi");
    assert!(condition(&done, "FileSystemResizePending").is_none());
}

#[test]
fn a_block_volume_grows_at_once_unless_it_is_to_fail() {
    for (fail, size) in [("", "2Gi"), ("ResizeFailed", "1Gi")] {
        let mut block = claim("standard");
        block["spec"]["volumeMode"] = json!("Block");
        block["metadata"]["annotations"] = json!({ANNOTATION: fail});
        let mut scene = scene(block);
        settle(&mut scene);
        grown(&mut scene);
        settle(&mut scene);
        assert_eq!(
            text(&scene.get(CLAIM, "a", "data"), "/status/capacity/storage"),
            size,
            "{fail}"
        );
    }
}

#[test]
fn a_claim_in_use_is_kept_until_its_pod_is_gone() {
    let mut scene = scene(claim("standard"));
    settle(&mut scene);
    scene.put(POD, json!({
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
    }));
    let mut ending = Value::clone(&scene.get(CLAIM, "a", "data"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.put(CLAIM, ending);
    assert!(settle(&mut scene).is_empty());
    scene.caches.forget(POD, &Key::new("a", "p"));
    settle(&mut scene);
    assert!(!has_finalizer(
        &scene.get(CLAIM, "a", "data"),
        "kubernetes.io/pvc-protection"
    ));
}

#[test]
fn a_volume_without_its_claim_is_deleted_or_kept_as_its_policy_says() {
    for (policy, gone) in [("Delete", vec!["pvc-u1"]), ("Retain", vec![])] {
        let mut scene = scene(claim("standard"));
        settle(&mut scene);
        let mut volume = Value::clone(&scene.get(VOLUME, "", "pvc-u1"));
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        scene.put(VOLUME, volume);
        scene.caches.forget(CLAIM, &Key::new("a", "data"));
        let writes = scene.settle(&Volumes, &Key::cluster("pvc-u1"));
        assert_eq!(deleted(&writes), gone, "{policy}");
        if policy == "Retain" {
            assert_eq!(
                text(&scene.get(VOLUME, "", "pvc-u1"), "/status/phase"),
                "Released"
            );
        }
    }
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    let mut scene = scene(claim("standard"));
    settle(&mut scene);
    scene.caches.forget(VOLUME, &Key::cluster("pvc-u1"));
    scene.settle(&Claims, &Key::new("a", "data"));
    assert_eq!(phase(&scene), "Lost");
}
