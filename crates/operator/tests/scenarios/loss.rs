//! Disks whose data somebody else deleted.

use serde_json::{Value, json};

use crate::{
    ground::{tell, tell_with_controllers},
    story::{Story, condition},
};

const CLAIM: &str = "PersistentVolumeClaim";

fn spec() -> Value {
    json!({ "template": "small", "disks": [{ "name": "data", "size": "5Gi" }] })
}

/// A Machine that ran and is stopped, so that nothing holds its claims.
async fn stopped(spec: Value) -> Story {
    let story = Story::begin().await;
    story.machine("web", spec).await;
    story.until_phase("web", "Running").await;
    story
        .change("web", json!({ "powerState": "Stopped" }))
        .await;
    let machine = story.until_phase("web", "Stopped").await;
    let disks = machine["status"]["disks"].as_array().unwrap();
    assert!(!disks.is_empty(), "{machine:#}");
    for disk in disks {
        let name = disk["pvcName"].as_str().unwrap();
        let claim = story.get(CLAIM, name).await;
        assert_eq!(claim["metadata"]["uid"], disk["uuid"]);
        assert!(disk["size"].as_i64().unwrap() > 0, "{disk}");
    }
    story
}

fn is_lost(machine: &Value) -> bool {
    condition(machine, "DataLost")["status"] == "True"
}

async fn until_lost(story: &Story) -> Value {
    let machine = story.until_reason("web", "DataLost").await;
    assert!(is_lost(&machine), "{machine:#}");
    assert_eq!(condition(&machine, "Ready")["status"], "False");
    assert_eq!(condition(&machine, "StorageReady")["reason"], "DataLost");
    machine
}

async fn uid(story: &Story, claim: &str) -> String {
    let claim = story.get(CLAIM, claim).await;
    claim["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn annotate(story: &Story, name: &str, value: &str) {
    let patch = json!({ "metadata": { "annotations": { name: value } } });
    story.patch("Machine", "web", patch).await;
}

async fn start(story: &Story) -> Value {
    story
        .change("web", json!({ "powerState": "Running" }))
        .await;
    story.until_phase("web", "Running").await
}

#[test]
fn a_claim_that_is_deleted_by_hand_is_created_again_only_if_that_is_confirmed() {
    tell(async {
        let story = stopped(spec()).await;
        let lost = uid(&story, "web-data").await;
        story.delete(CLAIM, "web-data").await;
        until_lost(&story).await;
        let remedy = format!("vitistack.io/recreate-disk: \"{lost}\"");
        story
            .until("Machine", "web", |machine| {
                let message = condition(machine, "Ready")["message"].as_str();
                message.is_some_and(|message| message.contains(&remedy))
            })
            .await;
        assert!(story.was_told("web", "DataLost").await);
        story.wait(60).await;
        assert!(story.find(CLAIM, "web-data").await.is_none());

        annotate(&story, "vitistack.io/recreate-disk", "true").await;
        let ignored = |machine: &Value| {
            condition(machine, "AnnotationsValid")["reason"] == "AnnotationIgnored"
        };
        story.until("Machine", "web", ignored).await;
        assert!(story.find(CLAIM, "web-data").await.is_none());

        annotate(&story, "vitistack.io/recreate-disk", &lost).await;
        story.until(CLAIM, "web-data", |_| true).await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
        let new = uid(&story, "web-data").await;
        assert_ne!(new, lost);
        let is_recorded = |machine: &Value| {
            let disks = machine["status"]["disks"].as_array();
            disks.is_some_and(|disks| disks.iter().any(|disk| disk["uuid"] == new.as_str()))
        };
        story.until("Machine", "web", is_recorded).await;
        assert!(story.was_told("web", "DiskRecreated").await);
    });
}

#[test]
fn a_disk_that_is_lost_can_be_given_up_for_one_of_another_name() {
    tell(async {
        let story = stopped(spec()).await;
        story.delete(CLAIM, "web-data").await;
        until_lost(&story).await;
        let other = json!({ "disks": [{ "name": "more", "size": "5Gi" }] });
        story.change("web", other).await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_virtual_machine_is_not_created_again_without_the_data_it_had() {
    tell_with_controllers(async {
        let mut story = stopped(spec()).await;
        story.stop_operator().await;
        story.delete("VirtualMachine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.delete(CLAIM, "web-root").await;
        story.until_gone(CLAIM, "web-root").await;
        story.start_operator();
        let lost = until_lost(&story).await;
        story.wait(60).await;
        assert!(story.find("VirtualMachine", "web").await.is_none());
        assert!(story.find(CLAIM, "web-root").await.is_none());

        let disks = lost["status"]["disks"].as_array().unwrap();
        let root = disks.iter().find(|disk| disk["pvcName"] == "web-root");
        let root = root.unwrap()["uuid"].as_str().unwrap();
        annotate(&story, "vitistack.io/recreate-disk", root).await;
        start(&story).await;
    });
}

#[test]
fn the_claim_of_a_data_volume_that_is_deleted_is_not_filled_again_in_silence() {
    tell_with_controllers(async {
        let blank = json!([{ "name": "data", "size": "1Gi", "source": { "blank": {} } }]);
        let story = stopped(json!({ "template": "small", "disks": blank })).await;
        let lost = uid(&story, "web-data").await;
        story.delete("DataVolume", "web-data").await;
        until_lost(&story).await;
        story.wait(60).await;
        assert!(story.find("DataVolume", "web-data").await.is_none());
        annotate(&story, "vitistack.io/recreate-disk", &lost).await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_that_cdi_creates_and_fills_again_does_not_pass_for_the_one_that_was_deleted() {
    tell_with_controllers(async {
        let blank = json!([{ "name": "data", "size": "1Gi", "source": { "blank": {} } }]);
        let story = stopped(json!({ "template": "small", "disks": blank })).await;
        let lost = uid(&story, "web-data").await;
        story.delete(CLAIM, "web-data").await;
        story
            .until(CLAIM, "web-data", |claim| {
                claim["metadata"]["uid"] != lost.as_str()
            })
            .await;
        until_lost(&story).await;
        annotate(&story, "vitistack.io/recreate-disk", &lost).await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_that_only_lost_its_labels_is_not_lost() {
    tell(async {
        let story = stopped(spec()).await;
        let before = uid(&story, "web-data").await;
        let none = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        story.patch(CLAIM, "web-data", none).await;
        story
            .until(CLAIM, "web-data", |claim| {
                claim["metadata"]["labels"]["vitistack.io/machine"] == "web"
                    && claim["metadata"]["labels"]["vitistack.io/managed-by"] == "kubevirt-operator"
            })
            .await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert!(!story.was_told("web", "DataLost").await);
        assert_eq!(uid(&story, "web-data").await, before);
    });
}

#[test]
fn a_claim_that_was_restored_from_a_backup_is_used_once_that_is_asked_for() {
    tell(async {
        let mut story = stopped(spec()).await;
        story.stop_operator().await;
        let mut backup = story.get(CLAIM, "web-data").await;
        story.delete(CLAIM, "web-data").await;
        story.until_gone(CLAIM, "web-data").await;
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
        story.create(CLAIM, backup).await;
        story.start_operator();
        until_lost(&story).await;
        annotate(&story, "vitistack.io/adopt-disks", "true").await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
    });
}

#[test]
fn a_claim_that_is_being_deleted_under_a_guest_is_reported_while_its_data_can_be_saved() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", spec()).await;
        story.until_phase("web", "Running").await;
        story.delete(CLAIM, "web-data").await;
        let machine = until_lost(&story).await;
        let message = condition(&machine, "DataLost")["message"].as_str().unwrap();
        assert!(message.contains("is being deleted"), "{message}");
        assert_eq!(machine["status"]["phase"], "Running");
    });
}

#[test]
fn a_disk_that_was_removed_and_deleted_is_not_lost_when_it_is_listed_again() {
    tell(async {
        let story = Story::begin().await;
        let mut spec = spec();
        spec["deletionPolicy"] = "Delete".into();
        spec["powerState"] = "Stopped".into();
        story.machine("web", spec.clone()).await;
        story.until_phase("web", "Stopped").await;
        story.until(CLAIM, "web-data", is_bound).await;
        story
            .until("Machine", "web", |machine| {
                let disks = machine["status"]["disks"].as_array();
                disks.is_some_and(|disks| disks.len() == 2)
            })
            .await;
        story.change("web", json!({ "disks": [] })).await;
        story.until_gone(CLAIM, "web-data").await;
        story.change("web", json!({ "disks": spec["disks"] })).await;
        story.until(CLAIM, "web-data", |_| true).await;
        let machine = start(&story).await;
        assert!(!is_lost(&machine), "{machine:#}");
        assert!(!story.was_told("web", "DataLost").await);
    });
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}
