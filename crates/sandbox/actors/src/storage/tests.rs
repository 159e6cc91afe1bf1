use std::time::Duration;

use super::*;
use crate::{
    Kind,
    actor::SELECTED_NODE,
    faults::ANNOTATION,
    kind::{CLAIM, POD, VOLUME},
    object::{condition, has_finalizer},
    testing::{Fixture, created, deleted, reasons},
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

fn fixture(claim: Value) -> Fixture {
    let classes = classes().into_iter().map(|class| (STORAGE_CLASS, class));
    let mut fixture = Fixture::of(classes.collect::<Vec<(Kind, Value)>>());
    fixture.put(CLAIM, claim);
    fixture
}

fn settle(fixture: &mut Fixture) -> Vec<crate::Write> {
    let mut writes = Vec::new();
    for _ in 0..3 {
        writes.extend(fixture.settle(&Claims, &Key::new("a", "data")));
        writes.extend(fixture.settle(&Volumes, &Key::cluster("pvc-u1")));
    }
    writes
}

fn phase(fixture: &Fixture) -> String {
    text(&fixture.get(CLAIM, "a", "data"), "/status/phase").to_owned()
}

#[test]
fn a_claim_is_bound_to_a_volume_made_for_it() {
    let mut fixture = fixture(claim("standard"));
    let writes = settle(&mut fixture);
    let claim = fixture.get(CLAIM, "a", "data");
    let volume = fixture.get(VOLUME, "", "pvc-u1");
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
    let mut fixture = fixture(open);
    settle(&mut fixture);
    assert_eq!(
        text(&fixture.get(CLAIM, "a", "data"), "/spec/storageClassName"),
        "standard"
    );
    assert_eq!(phase(&fixture), "Bound");
}

#[test]
fn a_claim_without_a_class_binds_to_an_existing_volume() {
    let mut fixture = fixture(claim(""));
    settle(&mut fixture);
    assert_eq!(phase(&fixture), "Pending");
    for (name, size) in [("large", "9Gi"), ("fitting", "2Gi"), ("small", "1Mi")] {
        fixture.put(VOLUME, json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "persistentVolumeReclaimPolicy": "Retain"},
            "status": {"phase": "Available"},
        }));
    }
    settle(&mut fixture);
    assert_eq!(
        text(&fixture.get(CLAIM, "a", "data"), "/spec/volumeName"),
        "fitting"
    );
}

#[test]
fn a_local_claim_waits_for_a_node() {
    let mut fixture = fixture(claim("local"));
    assert_eq!(
        reasons(&settle(&mut fixture)).first(),
        Some(&"WaitForFirstConsumer")
    );
    assert_eq!(phase(&fixture), "Pending");
    let mut promised = Value::clone(&fixture.get(CLAIM, "a", "data"));
    promised["metadata"]["annotations"] = json!({SELECTED_NODE: "n1"});
    fixture.put(CLAIM, promised);
    settle(&mut fixture);
    assert_eq!(phase(&fixture), "Bound");
    let volume = fixture.get(VOLUME, "", "pvc-u1");
    assert_eq!(
        text(
            &volume,
            "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0"
        ),
        "n1"
    );
}

#[test]
fn a_claim_waits_for_its_missing_class() {
    let mut fixture = fixture(claim("late"));
    assert_eq!(
        reasons(&settle(&mut fixture)).first(),
        Some(&"ProvisioningFailed")
    );
    fixture.put(
        STORAGE_CLASS,
        json!({"metadata": {"name": "late"}, "provisioner": "p"}),
    );
    settle(&mut fixture);
    assert_eq!(phase(&fixture), "Bound");
}

#[test]
fn the_driver_of_a_volume_has_a_valid_name() {
    for (provisioner, driver) in [
        ("csi.example.com", "csi.example.com"),
        ("example.com/local-path", "provisioner.sandbox.vitistack.io"),
    ] {
        let mut fixture = fixture(claim("own"));
        fixture.put(
            STORAGE_CLASS,
            json!({"metadata": {"name": "own"}, "provisioner": provisioner}),
        );
        settle(&mut fixture);
        let volume = fixture.get(VOLUME, "", "pvc-u1");
        assert_eq!(text(&volume, "/spec/csi/driver"), driver);
    }
}

#[test]
fn provisioning_fails_as_often_as_the_fault_says() {
    let mut failing = claim("standard");
    failing["metadata"]["annotations"] = json!({ANNOTATION: "ProvisioningFailed*2"});
    let mut fixture = fixture(failing);
    assert!(reasons(&settle(&mut fixture)).contains(&"ProvisioningFailed"));
    assert!(created(&settle(&mut fixture)).is_empty());
    fixture.advance(Duration::from_secs(2));
    settle(&mut fixture);
    assert_eq!(phase(&fixture), "Bound");
}

fn grown(fixture: &mut Fixture) {
    let mut grown = Value::clone(&fixture.get(CLAIM, "a", "data"));
    grown["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    fixture.put(CLAIM, grown);
}

#[test]
fn a_file_system_grows_once_a_pod_uses_it() {
    let mut fixture = fixture(claim("standard"));
    settle(&mut fixture);
    grown(&mut fixture);
    settle(&mut fixture);
    let waiting = fixture.get(CLAIM, "a", "data");
    assert!(condition(&waiting, "FileSystemResizePending").is_some());
    assert_eq!(text(&waiting, "/status/capacity/storage"), "1Gi");
    assert_eq!(
        text(&fixture.get(VOLUME, "", "pvc-u1"), "/spec/capacity/storage"),
        "2Gi"
    );
    fixture.put(POD, json!({
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": "Running"},
    }));
    settle(&mut fixture);
    let done = fixture.get(CLAIM, "a", "data");
    assert_eq!(text(&done, "/status/capacity/storage"), "2Gi");
    assert!(condition(&done, "FileSystemResizePending").is_none());
}

#[test]
fn a_block_volume_is_resized_at_once_unless_a_fault_prevents_it() {
    for (fail, size) in [("", "2Gi"), ("ResizeFailed", "1Gi")] {
        let mut block = claim("standard");
        block["spec"]["volumeMode"] = json!("Block");
        block["metadata"]["annotations"] = json!({ANNOTATION: fail});
        let mut fixture = fixture(block);
        settle(&mut fixture);
        grown(&mut fixture);
        settle(&mut fixture);
        assert_eq!(
            text(&fixture.get(CLAIM, "a", "data"), "/status/capacity/storage"),
            size,
            "{fail}"
        );
    }
}

#[test]
fn a_claim_in_use_is_kept_until_its_pod_is_deleted() {
    let mut fixture = fixture(claim("standard"));
    settle(&mut fixture);
    fixture.put(POD, json!({
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
    }));
    let mut ending = Value::clone(&fixture.get(CLAIM, "a", "data"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    fixture.put(CLAIM, ending);
    assert!(settle(&mut fixture).is_empty());
    fixture.caches.forget(POD, &Key::new("a", "p"));
    settle(&mut fixture);
    assert!(!has_finalizer(
        &fixture.get(CLAIM, "a", "data"),
        "kubernetes.io/pvc-protection"
    ));
}

#[test]
fn a_released_volume_is_deleted_or_kept_by_its_reclaim_policy() {
    for (policy, expected) in [("Delete", vec!["pvc-u1"]), ("Retain", vec![])] {
        let mut fixture = fixture(claim("standard"));
        settle(&mut fixture);
        let mut volume = Value::clone(&fixture.get(VOLUME, "", "pvc-u1"));
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        fixture.put(VOLUME, volume);
        fixture.caches.forget(CLAIM, &Key::new("a", "data"));
        let writes = fixture.settle(&Volumes, &Key::cluster("pvc-u1"));
        assert_eq!(deleted(&writes), expected, "{policy}");
        if policy == "Retain" {
            assert_eq!(
                text(&fixture.get(VOLUME, "", "pvc-u1"), "/status/phase"),
                "Released"
            );
        }
    }
}

#[test]
fn a_claim_without_its_volume_is_lost() {
    let mut fixture = fixture(claim("standard"));
    settle(&mut fixture);
    fixture.caches.forget(VOLUME, &Key::cluster("pvc-u1"));
    fixture.settle(&Claims, &Key::new("a", "data"));
    assert_eq!(phase(&fixture), "Lost");
}
