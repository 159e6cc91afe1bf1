//! Disks whose data another user deleted.

use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_with_controllers},
    scenario::{Scenario, condition},
};

const CLAIM: &str = "PersistentVolumeClaim";

fn spec() -> Value {
    json!({ "template": "small", "disks": [{ "name": "data", "size": "5Gi" }] })
}

/// Stopped Machine that has run, so that its claims are not in use.
async fn stopped(spec: Value) -> Scenario {
    let scenario = Scenario::start().await;
    scenario.create_machine("web", spec).await;
    scenario.until_phase("web", "Running").await;
    scenario
        .patch_spec("web", json!({ "powerState": "Stopped" }))
        .await;
    let machine = scenario.until_phase("web", "Stopped").await;
    let disks = machine["status"]["disks"].as_array().unwrap();
    assert!(!disks.is_empty(), "{machine:#}");
    for disk in disks {
        let name = disk["pvcName"].as_str().unwrap();
        let claim = scenario.get(CLAIM, name).await;
        assert_eq!(claim["metadata"]["uid"], disk["uuid"]);
        assert!(disk["size"].as_i64().unwrap() > 0, "{disk}");
    }
    scenario
}

fn is_lost(machine: &Value) -> bool {
    condition(machine, "DataLost")["status"] == "True"
}

async fn until_lost(scenario: &Scenario) -> Value {
    let machine = scenario.until_reason("web", "DataLost").await;
    assert!(is_lost(&machine), "{machine:#}");
    assert_eq!(condition(&machine, "Ready")["status"], "False");
    assert_eq!(condition(&machine, "StorageReady")["reason"], "DataLost");
    machine
}

async fn uid(scenario: &Scenario, claim: &str) -> String {
    let claim = scenario.get(CLAIM, claim).await;
    claim["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn annotate(scenario: &Scenario, name: &str, value: &str) {
    let patch = json!({ "metadata": { "annotations": { name: value } } });
    scenario.patch("Machine", "web", patch).await;
}

async fn start(scenario: &Scenario) -> Value {
    scenario
        .patch_spec("web", json!({ "powerState": "Running" }))
        .await;
    scenario.until_phase("web", "Running").await
}

#[test]
fn a_manually_deleted_claim_is_recreated_only_on_confirmation() {
    run_scenario(async {
        let scenario = stopped(spec()).await;
        let lost = uid(&scenario, "web-data").await;
        scenario.delete(CLAIM, "web-data").await;
        until_lost(&scenario).await;
        let remedy = format!("vitistack.io/recreate-disk: \"{lost}\"");
        scenario
            .until("Machine", "web", |machine| {
                let message = condition(machine, "Ready")["message"].as_str();
                message.is_some_and(|message| message.contains(&remedy))
            })
            .await;
        assert!(scenario.has_event("web", "DataLost").await);
        scenario.wait(60).await;
        assert!(scenario.find(CLAIM, "web-data").await.is_none());

        annotate(&scenario, "vitistack.io/recreate-disk", "true").await;
        let ignored = |machine: &Value| {
            condition(machine, "AnnotationsValid")["reason"] == "AnnotationIgnored"
        };
        scenario.until("Machine", "web", ignored).await;
        assert!(scenario.find(CLAIM, "web-data").await.is_none());

        annotate(&scenario, "vitistack.io/recreate-disk", &lost).await;
        scenario.until(CLAIM, "web-data", |_| true).await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
        let new = uid(&scenario, "web-data").await;
        assert_ne!(new, lost);
        let is_recorded = |machine: &Value| {
            let disks = machine["status"]["disks"].as_array();
            disks.is_some_and(|disks| disks.iter().any(|disk| disk["uuid"] == new.as_str()))
        };
        scenario.until("Machine", "web", is_recorded).await;
        assert!(scenario.has_event("web", "DiskRecreated").await);
    });
}

#[test]
fn a_lost_disk_can_be_replaced_by_a_disk_of_another_name() {
    run_scenario(async {
        let scenario = stopped(spec()).await;
        scenario.delete(CLAIM, "web-data").await;
        until_lost(&scenario).await;
        let other = json!({ "disks": [{ "name": "more", "size": "5Gi" }] });
        scenario.patch_spec("web", other).await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_virtual_machine_is_not_recreated_without_its_data() {
    run_scenario_with_controllers(async {
        let mut scenario = stopped(spec()).await;
        scenario.stop_operator().await;
        scenario.delete("VirtualMachine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario.delete(CLAIM, "web-root").await;
        scenario.until_gone(CLAIM, "web-root").await;
        scenario.start_operator();
        let lost = until_lost(&scenario).await;
        scenario.wait(60).await;
        assert!(scenario.find("VirtualMachine", "web").await.is_none());
        assert!(scenario.find(CLAIM, "web-root").await.is_none());

        let disks = lost["status"]["disks"].as_array().unwrap();
        let root = disks.iter().find(|disk| disk["pvcName"] == "web-root");
        let root = root.unwrap()["uuid"].as_str().unwrap();
        annotate(&scenario, "vitistack.io/recreate-disk", root).await;
        start(&scenario).await;
    });
}

#[test]
fn a_deleted_claim_of_a_data_volume_is_not_silently_imported_again() {
    run_scenario_with_controllers(async {
        let blank = json!([{ "name": "data", "size": "1Gi", "source": { "blank": {} } }]);
        let scenario = stopped(json!({ "template": "small", "disks": blank })).await;
        let lost = uid(&scenario, "web-data").await;
        scenario.delete("DataVolume", "web-data").await;
        until_lost(&scenario).await;
        scenario.wait(60).await;
        assert!(scenario.find("DataVolume", "web-data").await.is_none());
        annotate(&scenario, "vitistack.io/recreate-disk", &lost).await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_recreated_by_cdi_is_not_mistaken_for_the_deleted_one() {
    run_scenario_with_controllers(async {
        let blank = json!([{ "name": "data", "size": "1Gi", "source": { "blank": {} } }]);
        let scenario = stopped(json!({ "template": "small", "disks": blank })).await;
        let lost = uid(&scenario, "web-data").await;
        scenario.delete(CLAIM, "web-data").await;
        scenario
            .until(CLAIM, "web-data", |claim| {
                claim["metadata"]["uid"] != lost.as_str()
            })
            .await;
        until_lost(&scenario).await;
        annotate(&scenario, "vitistack.io/recreate-disk", &lost).await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_without_its_labels_is_not_reported_as_lost() {
    run_scenario(async {
        let scenario = stopped(spec()).await;
        let before = uid(&scenario, "web-data").await;
        let none = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        scenario.patch(CLAIM, "web-data", none).await;
        scenario
            .until(CLAIM, "web-data", |claim| {
                claim["metadata"]["labels"]["vitistack.io/machine"] == "web"
                    && claim["metadata"]["labels"]["vitistack.io/managed-by"] == "kubevirt-operator"
            })
            .await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert!(!scenario.has_event("web", "DataLost").await);
        assert_eq!(uid(&scenario, "web-data").await, before);
    });
}

#[test]
fn a_claim_restored_from_a_backup_is_used_on_request() {
    run_scenario(async {
        let mut scenario = stopped(spec()).await;
        scenario.stop_operator().await;
        let mut backup = scenario.get(CLAIM, "web-data").await;
        scenario.delete(CLAIM, "web-data").await;
        scenario.until_gone(CLAIM, "web-data").await;
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            backup["metadata"].as_object_mut().unwrap().remove(field);
        }
        let annotations = backup["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.retain(|name, _| name.starts_with("vitistack.io/"));
        let fields = backup.as_object_mut().unwrap();
        fields.remove("status");
        let spec = fields["spec"].as_object_mut().unwrap();
        spec.remove("volumeName");
        scenario.create(CLAIM, backup).await;
        scenario.start_operator();
        until_lost(&scenario).await;
        annotate(&scenario, "vitistack.io/adopt-disks", "true").await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_being_deleted_is_reported_while_its_guest_runs() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", spec()).await;
        scenario.until_phase("web", "Running").await;
        scenario.delete(CLAIM, "web-data").await;
        let machine = until_lost(&scenario).await;
        let message = condition(&machine, "DataLost")["message"].as_str().unwrap();
        assert!(
            message.contains("is deleting PersistentVolumeClaim web-data"),
            "{message}"
        );
        assert_eq!(machine["status"]["phase"], "Running");
    });
}

#[test]
fn a_removed_and_deleted_disk_is_not_lost_when_listed_again() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let mut spec = spec();
        spec["deletionPolicy"] = "Delete".into();
        spec["powerState"] = "Stopped".into();
        scenario.create_machine("web", spec.clone()).await;
        scenario.until_phase("web", "Stopped").await;
        scenario.until(CLAIM, "web-data", is_bound).await;
        scenario
            .until("Machine", "web", |machine| {
                let disks = machine["status"]["disks"].as_array();
                disks.is_some_and(|disks| disks.len() == 2)
            })
            .await;
        scenario.patch_spec("web", json!({ "disks": [] })).await;
        scenario.until_gone(CLAIM, "web-data").await;
        scenario
            .patch_spec("web", json!({ "disks": spec["disks"] }))
            .await;
        scenario.until(CLAIM, "web-data", |_| true).await;
        let machine = start(&scenario).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert!(!scenario.has_event("web", "DataLost").await);
    });
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}
