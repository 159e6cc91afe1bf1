//! Sizes that a disk or a quota cannot have.

use serde_json::{Value, json};

use crate::{
    ground::{Need, tell_alone},
    quota::{enforce_storage, quota},
    story::Story,
};

#[test]
fn what_a_quota_has_no_room_for_is_told() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let hard = json!({
            "requests.storage": "10Gi", "requests.memory": "1Gi",
            "standard.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
            "count/virtualmachines.kubevirt.io": "5",
        });
        story.give(quota(&hard)).await;
        story
            .until("ResourceQuota", "budget", |quota| {
                quota["status"]["used"].is_object()
            })
            .await;
        let answer = story.try_create("Machine", "web", json!({})).await;
        answer.warns(&[
            "ResourceQuota \"budget\" has 10Gi of requests.storage left, and this needs 20Gi",
            "ResourceQuota \"budget\" has 1Gi of requests.memory left, and this needs 2Gi",
            "has 0 of standard.storageclass.storage.k8s.io/persistentvolumeclaims left",
        ]);
        assert_eq!(answer.warnings.len(), 3, "{:?}", answer.warnings);
    });
}

#[test]
fn a_new_machine_with_nothing_to_boot_is_admitted_with_a_warning() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let answer = story.try_create("Machine", "web", json!({})).await;
        answer.is_silent();
        let warning = answer.boot_warnings.join("\n");
        assert!(
            warning.starts_with("spec.disks: disk \"root\" starts empty"),
            "{warning:?}"
        );
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let spec = json!({ "disks": [{ "name": "root", "source": image }] });
        let answer = story.try_create("Machine", "debian", spec).await;
        assert!(
            answer.boot_warnings.is_empty(),
            "{:?}",
            answer.boot_warnings
        );
    });
}

#[test]
fn a_disk_does_not_shrink_and_a_smaller_template_says_so() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let spec = json!({ "template": "large" });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let shrunk = json!({ "spec": { "disks": [{ "name": "root", "size": "10Gi" }] } });
        let answer = story.try_patch("Machine", "web", shrunk).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" has 80Gi and cannot shrink to 10Gi"]);
        let smaller = json!({ "spec": { "template": "small" } });
        let answer = story.try_patch("Machine", "web", smaller).await;
        answer.warns(&["disk \"root\" keeps its 80Gi"]);
    });
}

#[test]
fn a_disk_from_an_image_has_the_size_that_was_asked_for() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let root = json!({ "name": "root", "source": image });
        let sized = |size: &str| json!({ "name": "root", "source": image, "size": size });
        let data = json!({ "name": "data", "source": { "blank": {} }, "size": "10Gi" });
        let disks = |disks: Value| json!({ "spec": { "disks": disks } });
        let spec = json!({ "disks": [root, data] });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        let asked = &claim["spec"]["resources"]["requests"]["storage"];
        assert_ne!(asked, "20Gi", "CDI adds what a file system needs");

        for change in [
            json!({ "spec": { "powerState": "Stopped" } }),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("20Gi")])),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("21Gi"), data])),
        ] {
            story.try_patch("Machine", "web", change).await.is_silent();
            story.wait(60).await;
        }
        let mut less = data.clone();
        less["size"] = "9Gi".into();
        let detached = disks(json!([sized("21Gi")]));
        story
            .try_patch("Machine", "web", detached)
            .await
            .is_silent();
        let smaller = disks(json!([sized("21Gi"), less]));
        let answer = story.try_patch("Machine", "web", smaller).await;
        answer.refuses(&["spec.disks[1].size: disk \"data\" has 10Gi and cannot shrink to 9Gi"]);
    });
}

#[test]
fn a_disk_that_a_quota_keeps_from_being_made_can_be_asked_smaller() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        enforce_storage(&story, "50Gi").await;
        let spec = json!({ "template": "large" });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.warns(&["has 50Gi of requests.storage left, and this needs 80Gi"]);
        story.until_reason("web", "InsufficientResources").await;
        let less = json!({ "spec": { "disks": [{ "name": "root", "size": "40Gi" }] } });
        story.try_patch("Machine", "web", less).await.is_silent();
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_disk_that_cannot_grow_is_not_asked_to() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let sized = |size: &str| json!({ "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }] });
        let answer = story.try_create("Machine", "web", sized("20Gi")).await;
        answer.is_silent();
        story.until_phase("web", "Running").await;
        let grown = json!({ "spec": sized("2000Gi") });
        let answer = story.try_patch("Machine", "web", grown.clone()).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // Something else that is missing does not hide it.
        let mut hidden = grown.clone();
        hidden["spec"]["networks"] = json!([{ "name": "lan", "networkName": "later" }]);
        let answer = story.try_patch("Machine", "web", hidden).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // What it says helps.
        let allowed = json!({ "allowVolumeExpansion": true });
        story.patch("StorageClass", "fixed", allowed).await;
        story.wait(1).await;
        story.try_patch("Machine", "web", grown).await.is_silent();
    });
}
