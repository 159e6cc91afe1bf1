//! Whose disks and VirtualMachines are, and who may delete them.

use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::{
    ground::{tell, tell_with_controllers},
    story::{Story, condition},
};

const DISKS: [(&str, &str); 3] = [
    ("PersistentVolumeClaim", "web-root"),
    ("PersistentVolumeClaim", "web-data"),
    ("DataVolume", "web-data"),
];

fn with_both_kinds_of_disks() -> Value {
    json!({
        "template": "small",
        "disks": [{ "name": "data", "size": "1Gi", "source": { "blank": {} } }],
    })
}

async fn running(spec: Value) -> Story {
    let story = Story::begin().await;
    story.machine("web", spec).await;
    story.until_phase("web", "Running").await;
    story
}

/// Waits until the operator has acted on the spec as it is.
async fn until_observed(story: &Story) {
    story
        .until("Machine", "web", |machine| {
            machine["status"]["observedGeneration"] == machine["metadata"]["generation"]
        })
        .await;
}

fn is_retained(object: &Value) -> bool {
    object["metadata"]["labels"]["vitistack.io/retained"] == "true"
}

fn data() -> Value {
    json!([{ "name": "data", "size": "5Gi" }])
}

fn orphan() -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    }
}

fn is_owned_by_machine(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["kind"] == "Machine")
}

/// A VirtualMachine of somebody who uses a claim.
fn user_of(name: &str, claim: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "runStrategy": "Halted",
        "template": { "spec": {
            "domain": { "devices": { "disks": [{ "name": "disk", "disk": {} }] },
                "memory": { "guest": "1Gi" } },
            "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }],
        } },
    } })
}

/// The Machine goes, and what was made for it stays and goes on.
async fn everything_was_left(story: &Story, vm: &Value) {
    story.until_gone("Machine", "web").await;
    let left = story
        .until("VirtualMachine", "web", |vm| !is_owned_by_machine(vm))
        .await;
    story.wait(5).await;
    let left_later = story.get("VirtualMachine", "web").await;
    for found in [&left, &left_later] {
        assert_eq!(found["metadata"]["uid"], vm["metadata"]["uid"]);
        assert!(found["metadata"]["deletionTimestamp"].is_null());
    }
    let instance = story.get("VirtualMachineInstance", "web").await;
    assert!(instance["metadata"]["deletionTimestamp"].is_null());
    for (kind, name) in DISKS {
        let disk = story.get(kind, name).await;
        assert!(disk["metadata"]["deletionTimestamp"].is_null(), "{name}");
        assert_eq!(disk["metadata"]["labels"]["vitistack.io/retained"], "true");
    }
    assert!(story.was_told("web", "Orphaned").await);
}

#[test]
fn disks_have_no_owner_but_those_of_cdi_whatever_the_policy() {
    tell(async {
        for policy in [json!(null), json!("Delete"), json!("Retain")] {
            let mut spec = with_both_kinds_of_disks();
            if !policy.is_null() {
                spec["deletionPolicy"] = policy;
            }
            let story = running(spec).await;
            let machine = story.get("Machine", "web").await;
            for (kind, name) in DISKS {
                let disk = story.get(kind, name).await;
                assert!(!is_owned_by_machine(&disk), "{kind} {name}");
                let recorded = &disk["metadata"]["annotations"]["vitistack.io/machine-uid"];
                assert_eq!(*recorded, machine["metadata"]["uid"]);
            }
        }
    });
}

#[test]
fn disks_of_earlier_versions_lose_their_owner_without_a_restart() {
    tell(async {
        let mut story = running(with_both_kinds_of_disks()).await;
        let machine = story.get("Machine", "web").await;
        let instance = story.get("VirtualMachineInstance", "web").await;
        story.stop_operator().await;
        let owner = json!([{ "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
            "uid": machine["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }]);
        let patch = json!({ "metadata": { "ownerReferences": owner } });
        let earlier = [
            ("PersistentVolumeClaim", "web-root"),
            ("DataVolume", "web-data"),
        ];
        for (kind, name) in earlier {
            story.patch(kind, name, patch.clone()).await;
        }
        // It does not matter whether the Machine resolves.
        story.change("web", json!({ "template": "gigantic" })).await;
        story.start_operator();
        for (kind, name) in earlier {
            story
                .until(kind, name, |disk| !is_owned_by_machine(disk))
                .await;
        }
        story.change("web", json!({ "template": "small" })).await;
        story.until_condition("web", "Ready", "True").await;
        let same = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
    });
}

#[test]
fn a_policy_that_was_set_while_the_operator_was_down_is_honoured() {
    tell_with_controllers(async {
        let mut story = running(with_both_kinds_of_disks()).await;
        story.stop_operator().await;
        story
            .change("web", json!({ "deletionPolicy": "Retain" }))
            .await;
        story
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        story.wait(5).await;
        story.start_operator();
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.wait(5).await;
        for (kind, name) in DISKS {
            let disk = story.get(kind, name).await;
            assert!(disk["metadata"]["deletionTimestamp"].is_null(), "{name}");
            assert_eq!(disk["metadata"]["labels"]["vitistack.io/retained"], "true");
        }
    });
}

#[test]
fn a_disk_that_somebody_else_uses_is_not_deleted_with_its_machine() {
    tell(async {
        let story = running(json!({ "template": "small" })).await;
        story
            .create("VirtualMachine", user_of("other", "web-root"))
            .await;
        story.delete("Machine", "web").await;
        let machine = story
            .until("Machine", "web", |machine| {
                condition(machine, "StorageReady")["reason"] == "DiskInUse"
            })
            .await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "Deleting");
        for message in [ready, condition(&machine, "StorageReady")] {
            let message = message["message"].as_str().unwrap();
            assert!(message.contains("VirtualMachine other"), "{message}");
            assert!(message.contains("web-root"), "{message}");
        }
        story.wait(3).await;
        assert!(story.was_told("web", "DiskInUse").await);
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());

        story.delete("VirtualMachine", "other").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
    });
}

#[test]
fn a_removed_disk_that_somebody_else_uses_is_not_deleted() {
    tell(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let story = running(json!({ "template": "small", "deletionPolicy": "Delete" })).await;
        story.change("web", json!({ "disks": disks })).await;
        story
            .until("PersistentVolumeClaim", "web-data", |_| true)
            .await;
        until_observed(&story).await;
        story
            .create("VirtualMachine", user_of("other", "web-data"))
            .await;
        story.change("web", json!({ "disks": null })).await;
        let machine = story
            .until("Machine", "web", |machine| {
                condition(machine, "StorageReady")["reason"] == "DiskInUse"
            })
            .await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        story.wait(3).await;
        assert!(story.was_told("web", "DiskInUse").await);
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());

        story.delete("VirtualMachine", "other").await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
        story.until_condition("web", "StorageReady", "True").await;
    });
}

#[test]
fn an_owner_reference_that_somebody_removes_from_the_virtual_machine_is_put_back() {
    tell(async {
        let story = running(json!({ "template": "small" })).await;
        let vm = story.get("VirtualMachine", "web").await;
        let instance = story.get("VirtualMachineInstance", "web").await;
        let off = json!({ "metadata": { "ownerReferences": [] } });
        story.patch("VirtualMachine", "web", off).await;
        let back = story
            .until("VirtualMachine", "web", is_owned_by_machine)
            .await;
        assert_eq!(back["metadata"]["uid"], vm["metadata"]["uid"]);
        let same = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        story.wait(2).await;
        let events = story.events("web").await;
        let put_back = events.iter().find(|(reason, _)| reason == "PutBack");
        let (_, message) = put_back.unwrap();
        assert!(message.contains("metadata.ownerReferences"), "{message}");
        assert!(!story.was_told("web", "ForeignObject").await);

        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
    });
}

#[test]
fn a_virtual_machine_without_its_labels_stops_before_its_disks_go() {
    tell_with_controllers(async {
        let mut story = running(with_both_kinds_of_disks()).await;
        story.stop_operator().await;
        let kinds = ["VirtualMachine", "PersistentVolumeClaim", "DataVolume"];
        let record = story.record(&kinds).await;
        let off = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        story.patch("VirtualMachine", "web", off).await;
        story.delete("Machine", "web").await;
        story.start_operator();
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
        let stopped = record.end_of("VirtualMachine", "web");
        let changes = record.changes();
        let first = changes.iter().position(|change| {
            change.kind != "VirtualMachine"
                && (change.is_deletion
                    || change.object["metadata"]["deletionTimestamp"].is_string())
        });
        assert!(stopped < first.unwrap());
    });
}

#[test]
fn a_deletion_that_orphans_leaves_everything() {
    tell_with_controllers(async {
        let story = running(with_both_kinds_of_disks()).await;
        let vm = story.get("VirtualMachine", "web").await;
        story.delete_with("Machine", "web", orphan()).await;
        everything_was_left(&story, &vm).await;
    });
}

#[test]
fn a_deletion_that_orphans_leaves_everything_while_the_operator_is_down() {
    tell_with_controllers(async {
        let mut story = running(with_both_kinds_of_disks()).await;
        let vm = story.get("VirtualMachine", "web").await;
        story.stop_operator().await;
        story.delete_with("Machine", "web", orphan()).await;
        story
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["machine.vitistack.io/cleanup"])
            })
            .await;
        story.start_operator();
        everything_was_left(&story, &vm).await;
    });
}

#[test]
fn a_removed_disk_is_released_at_once_and_outlives_its_machine() {
    tell(async {
        let story = running(json!({ "template": "small", "disks": data() })).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        story.change("web", json!({ "disks": null })).await;
        story
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        story.wait(2).await;
        let events = story.events("web").await;
        let released = events.iter().find(|(reason, _)| reason == "DiskReleased");
        let (_, message) = released.unwrap();
        let namespace = &story.namespace;
        let delete = format!("kubectl -n {namespace} delete persistentvolumeclaim web-data");
        assert!(message.contains(&delete), "{message}");
        assert!(message.contains("spec.disks"), "{message}");

        // A policy does not act backwards in time.
        story
            .change("web", json!({ "deletionPolicy": "Delete" }))
            .await;
        until_observed(&story).await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
        let kept = story.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(kept["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_disk_that_was_removed_under_delete_goes_although_the_policy_changes() {
    tell(async {
        let spec = json!({ "template": "small", "disks": data(), "deletionPolicy": "Delete" });
        let story = running(spec).await;
        story.change("web", json!({ "disks": null })).await;
        let decided = |claim: &Value| {
            claim["metadata"]["annotations"]["vitistack.io/delete-when-detached"] == "true"
        };
        story
            .until("PersistentVolumeClaim", "web-data", decided)
            .await;
        until_observed(&story).await;
        story
            .change("web", json!({ "deletionPolicy": "Retain" }))
            .await;
        until_observed(&story).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        assert!(decided(&claim) && claim["metadata"]["deletionTimestamp"].is_null());
        story
            .change("web", json!({ "powerState": "Stopped" }))
            .await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_removed_disk_is_kept_if_it_is_not_known_what_the_policy_was() {
    tell(async {
        let mut story = running(json!({ "template": "small", "disks": data() })).await;
        until_observed(&story).await;
        story.stop_operator().await;
        story.change("web", json!({ "disks": null })).await;
        story
            .change("web", json!({ "deletionPolicy": "Delete" }))
            .await;
        story.start_operator();
        story
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        story
            .change("web", json!({ "powerState": "Stopped" }))
            .await;
        story.until_phase("web", "Stopped").await;
        story.wait(3).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_disk_that_was_removed_right_before_the_machine_is_deleted_is_kept() {
    tell(async {
        let mut story = running(json!({ "template": "small", "disks": data() })).await;
        until_observed(&story).await;
        story.stop_operator().await;
        story.change("web", json!({ "disks": null })).await;
        story.delete("Machine", "web").await;
        story.start_operator();
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
        let kept = story.get("PersistentVolumeClaim", "web-data").await;
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
        assert!(is_retained(&kept));
    });
}

#[test]
fn a_released_disk_that_is_listed_again_is_the_machines_again() {
    tell(async {
        let story = running(json!({ "template": "small", "disks": data() })).await;
        story.change("web", json!({ "disks": null })).await;
        story
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        story.change("web", json!({ "disks": data() })).await;
        story
            .until("PersistentVolumeClaim", "web-data", |claim| {
                !is_retained(claim)
            })
            .await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_claim_whose_data_volume_is_gone_is_still_the_machines() {
    tell_with_controllers(async {
        let story = running(with_both_kinds_of_disks()).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        story.delete_with("DataVolume", "web-data", orphan()).await;
        story.until_gone("DataVolume", "web-data").await;
        story.wait(3).await;
        assert!(!story.was_told("web", "ForeignObject").await);
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        let same = story.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(same["metadata"]["uid"], claim["metadata"]["uid"]);
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_disk_that_cdi_filled_and_that_becomes_inherited_is_used() {
    tell(async {
        let filled = json!([{ "name": "root", "source": { "blank": {} } }]);
        let story = running(json!({ "template": "small", "disks": filled })).await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        story.change("web", json!({ "disks": null })).await;
        until_observed(&story).await;
        story.wait(3).await;
        assert!(!story.was_told("web", "ForeignObject").await);
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
        let same = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(!is_retained(&same));
    });
}
