//! Ownership of disks and VirtualMachines, and who may delete them.

use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_with_controllers},
    scenario::{Scenario, condition},
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

async fn running(spec: Value) -> Scenario {
    let scenario = Scenario::start().await;
    scenario.create_machine("web", spec).await;
    scenario.until_phase("web", "Running").await;
    scenario
}

/// Waits until the operator has reconciled the current spec.
async fn until_observed(scenario: &Scenario) {
    scenario
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

/// Foreign VirtualMachine that uses a claim.
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

/// Asserts that the Machine is deleted and its children stay and run.
async fn assert_children_kept(scenario: &Scenario, vm: &Value) {
    scenario.until_gone("Machine", "web").await;
    let left = scenario
        .until("VirtualMachine", "web", |vm| !is_owned_by_machine(vm))
        .await;
    scenario.wait(5).await;
    let left_later = scenario.get("VirtualMachine", "web").await;
    for found in [&left, &left_later] {
        assert_eq!(found["metadata"]["uid"], vm["metadata"]["uid"]);
        assert!(found["metadata"]["deletionTimestamp"].is_null());
    }
    let instance = scenario.get("VirtualMachineInstance", "web").await;
    assert!(instance["metadata"]["deletionTimestamp"].is_null());
    for (kind, name) in DISKS {
        let disk = scenario.get(kind, name).await;
        assert!(disk["metadata"]["deletionTimestamp"].is_null(), "{name}");
        assert_eq!(disk["metadata"]["labels"]["vitistack.io/retained"], "true");
    }
    assert!(scenario.has_event("web", "Orphaned").await);
}

#[test]
fn disks_are_never_owned_by_the_machine_whatever_the_policy() {
    run_scenario(async {
        for policy in [json!(null), json!("Delete"), json!("Retain")] {
            let mut spec = with_both_kinds_of_disks();
            if !policy.is_null() {
                spec["deletionPolicy"] = policy;
            }
            let scenario = running(spec).await;
            let machine = scenario.get("Machine", "web").await;
            for (kind, name) in DISKS {
                let disk = scenario.get(kind, name).await;
                assert!(!is_owned_by_machine(&disk), "{kind} {name}");
                let recorded = &disk["metadata"]["annotations"]["vitistack.io/machine-uid"];
                assert_eq!(*recorded, machine["metadata"]["uid"]);
            }
        }
    });
}

#[test]
fn disks_of_earlier_versions_lose_their_owner_reference_without_a_restart() {
    run_scenario(async {
        let mut scenario = running(with_both_kinds_of_disks()).await;
        let machine = scenario.get("Machine", "web").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        scenario.stop_operator().await;
        let owner = json!([{ "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
            "uid": machine["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }]);
        let patch = json!({ "metadata": { "ownerReferences": owner } });
        let earlier = [
            ("PersistentVolumeClaim", "web-root"),
            ("DataVolume", "web-data"),
        ];
        for (kind, name) in earlier {
            scenario.patch(kind, name, patch.clone()).await;
        }
        // The Machine need not resolve.
        scenario
            .patch_spec("web", json!({ "template": "gigantic" }))
            .await;
        scenario.start_operator();
        for (kind, name) in earlier {
            scenario
                .until(kind, name, |disk| !is_owned_by_machine(disk))
                .await;
        }
        scenario
            .patch_spec("web", json!({ "template": "small" }))
            .await;
        scenario.until_condition("web", "Ready", "True").await;
        let same = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
    });
}

#[test]
fn a_policy_set_while_the_operator_is_down_is_honoured() {
    run_scenario_with_controllers(async {
        let mut scenario = running(with_both_kinds_of_disks()).await;
        scenario.stop_operator().await;
        scenario
            .patch_spec("web", json!({ "deletionPolicy": "Retain" }))
            .await;
        scenario
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        scenario.wait(5).await;
        scenario.start_operator();
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario.wait(5).await;
        for (kind, name) in DISKS {
            let disk = scenario.get(kind, name).await;
            assert!(disk["metadata"]["deletionTimestamp"].is_null(), "{name}");
            assert_eq!(disk["metadata"]["labels"]["vitistack.io/retained"], "true");
        }
    });
}

#[test]
fn a_disk_in_use_by_others_is_not_deleted_with_its_machine() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        scenario
            .create("VirtualMachine", user_of("other", "web-root"))
            .await;
        scenario.delete("Machine", "web").await;
        let machine = scenario
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
        scenario.wait(3).await;
        assert!(scenario.has_event("web", "DiskInUse").await);
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());

        scenario.delete("VirtualMachine", "other").await;
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
    });
}

#[test]
fn a_removed_disk_in_use_by_others_is_not_deleted() {
    run_scenario(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let scenario = running(json!({ "template": "small", "deletionPolicy": "Delete" })).await;
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        scenario
            .until("PersistentVolumeClaim", "web-data", |_| true)
            .await;
        until_observed(&scenario).await;
        scenario
            .create("VirtualMachine", user_of("other", "web-data"))
            .await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                condition(machine, "StorageReady")["reason"] == "DiskInUse"
            })
            .await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        scenario.wait(3).await;
        assert!(scenario.has_event("web", "DiskInUse").await);
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());

        scenario.delete("VirtualMachine", "other").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
        scenario
            .until_condition("web", "StorageReady", "True")
            .await;
    });
}

#[test]
fn a_removed_owner_reference_of_the_virtual_machine_is_restored() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        let off = json!({ "metadata": { "ownerReferences": [] } });
        scenario.patch("VirtualMachine", "web", off).await;
        let back = scenario
            .until("VirtualMachine", "web", is_owned_by_machine)
            .await;
        assert_eq!(back["metadata"]["uid"], vm["metadata"]["uid"]);
        let same = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        scenario.wait(2).await;
        let events = scenario.events("web").await;
        let repair = events.iter().find(|(reason, _)| reason == "DriftCorrected");
        let (_, message) = repair.unwrap();
        assert!(message.contains("metadata.ownerReferences"), "{message}");
        assert!(!scenario.has_event("web", "ForeignObject").await);

        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
    });
}

#[test]
fn a_virtual_machine_without_its_labels_stops_before_its_disks_are_deleted() {
    run_scenario_with_controllers(async {
        let mut scenario = running(with_both_kinds_of_disks()).await;
        scenario.stop_operator().await;
        let kinds = ["VirtualMachine", "PersistentVolumeClaim", "DataVolume"];
        let recording = scenario.record(&kinds).await;
        let off = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        scenario.patch("VirtualMachine", "web", off).await;
        scenario.delete("Machine", "web").await;
        scenario.start_operator();
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
        let stopped = recording.deletion_of("VirtualMachine", "web");
        let changes = recording.changes();
        let first = changes.iter().position(|change| {
            change.kind != "VirtualMachine"
                && (change.is_deletion
                    || change.object["metadata"]["deletionTimestamp"].is_string())
        });
        assert!(stopped < first.unwrap());
    });
}

#[test]
fn an_orphaning_deletion_keeps_all_children() {
    run_scenario_with_controllers(async {
        let scenario = running(with_both_kinds_of_disks()).await;
        let vm = scenario.get("VirtualMachine", "web").await;
        scenario.delete_with("Machine", "web", orphan()).await;
        assert_children_kept(&scenario, &vm).await;
    });
}

#[test]
fn an_orphaning_deletion_while_the_operator_is_down_keeps_all_children() {
    run_scenario_with_controllers(async {
        let mut scenario = running(with_both_kinds_of_disks()).await;
        let vm = scenario.get("VirtualMachine", "web").await;
        scenario.stop_operator().await;
        scenario.delete_with("Machine", "web", orphan()).await;
        scenario
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["machine.vitistack.io/cleanup"])
            })
            .await;
        scenario.start_operator();
        assert_children_kept(&scenario, &vm).await;
    });
}

#[test]
fn a_removed_disk_is_released_immediately_and_outlives_its_machine() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small", "disks": data() })).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        scenario.wait(2).await;
        let events = scenario.events("web").await;
        let released = events.iter().find(|(reason, _)| reason == "DiskReleased");
        let (_, message) = released.unwrap();
        let namespace = &scenario.namespace;
        let delete = format!("kubectl -n {namespace} delete persistentvolumeclaim web-data");
        assert!(message.contains(&delete), "{message}");
        assert!(message.contains("spec.disks"), "{message}");

        // A policy does not apply to earlier removals.
        scenario
            .patch_spec("web", json!({ "deletionPolicy": "Delete" }))
            .await;
        until_observed(&scenario).await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
        let kept = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(kept["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_disk_removed_under_the_policy_delete_is_deleted_although_the_policy_changes() {
    run_scenario(async {
        let spec = json!({ "template": "small", "disks": data(), "deletionPolicy": "Delete" });
        let scenario = running(spec).await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        let decided = |claim: &Value| {
            claim["metadata"]["annotations"]["vitistack.io/delete-when-detached"] == "true"
        };
        scenario
            .until("PersistentVolumeClaim", "web-data", decided)
            .await;
        until_observed(&scenario).await;
        scenario
            .patch_spec("web", json!({ "deletionPolicy": "Retain" }))
            .await;
        until_observed(&scenario).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert!(decided(&claim) && claim["metadata"]["deletionTimestamp"].is_null());
        scenario
            .patch_spec("web", json!({ "powerState": "Stopped" }))
            .await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
    });
}

#[test]
fn a_removed_disk_is_kept_if_its_policy_is_unknown() {
    run_scenario(async {
        let mut scenario = running(json!({ "template": "small", "disks": data() })).await;
        until_observed(&scenario).await;
        scenario.stop_operator().await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .patch_spec("web", json!({ "deletionPolicy": "Delete" }))
            .await;
        scenario.start_operator();
        scenario
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        scenario
            .patch_spec("web", json!({ "powerState": "Stopped" }))
            .await;
        scenario.until_phase("web", "Stopped").await;
        scenario.wait(3).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_disk_removed_right_before_the_deletion_is_kept() {
    run_scenario(async {
        let mut scenario = running(json!({ "template": "small", "disks": data() })).await;
        until_observed(&scenario).await;
        scenario.stop_operator().await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario.delete("Machine", "web").await;
        scenario.start_operator();
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
        let kept = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
        assert!(is_retained(&kept));
    });
}

#[test]
fn a_released_disk_that_is_listed_again_is_owned_again() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small", "disks": data() })).await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until("PersistentVolumeClaim", "web-data", is_retained)
            .await;
        scenario.patch_spec("web", json!({ "disks": data() })).await;
        scenario
            .until("PersistentVolumeClaim", "web-data", |claim| {
                !is_retained(claim)
            })
            .await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
    });
}

#[test]
fn a_claim_without_its_data_volume_is_still_owned() {
    run_scenario_with_controllers(async {
        let scenario = running(with_both_kinds_of_disks()).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        scenario
            .delete_with("DataVolume", "web-data", orphan())
            .await;
        scenario.until_gone("DataVolume", "web-data").await;
        scenario.wait(3).await;
        assert!(!scenario.has_event("web", "ForeignObject").await);
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        let same = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(same["metadata"]["uid"], claim["metadata"]["uid"]);
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
    });
}

#[test]
fn a_disk_imported_by_cdi_that_becomes_inherited_is_used() {
    run_scenario(async {
        let filled = json!([{ "name": "root", "source": { "blank": {} } }]);
        let scenario = running(json!({ "template": "small", "disks": filled })).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        until_observed(&scenario).await;
        scenario.wait(3).await;
        assert!(!scenario.has_event("web", "ForeignObject").await);
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
        let same = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(!is_retained(&same));
    });
}
