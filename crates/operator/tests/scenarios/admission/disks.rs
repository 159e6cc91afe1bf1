//! Admission of disk sizes and quotas.

use serde_json::{Value, json};

use crate::{
    quota::{enforce_storage, quota},
    runner::{Need, run_scenario_alone},
    scenario::Scenario,
};

#[test]
fn a_disk_beyond_the_quota_is_warned_about() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let hard = json!({
            "requests.storage": "10Gi", "requests.memory": "1Gi",
            "standard.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
            "count/virtualmachines.kubevirt.io": "5",
        });
        scenario.apply_object(quota(&hard)).await;
        scenario
            .until("ResourceQuota", "budget", |quota| {
                quota["status"]["used"].is_object()
            })
            .await;
        let answer = scenario.try_create("Machine", "web", json!({})).await;
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
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let answer = scenario.try_create("Machine", "web", json!({})).await;
        answer.succeeds();
        let warning = answer.boot_warnings.join("\n");
        assert!(
            warning.starts_with("spec.disks: disk \"root\" starts empty"),
            "{warning:?}"
        );
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let spec = json!({ "disks": [{ "name": "root", "source": image }] });
        let answer = scenario.try_create("Machine", "debian", spec).await;
        assert!(
            answer.boot_warnings.is_empty(),
            "{:?}",
            answer.boot_warnings
        );
    });
}

#[test]
fn shrinking_a_disk_is_refused_and_a_smaller_template_warns() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let spec = json!({ "template": "large" });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_phase("web", "Running").await;
        let shrunk = json!({ "spec": { "disks": [{ "name": "root", "size": "10Gi" }] } });
        let answer = scenario.try_patch("Machine", "web", shrunk).await;
        answer
            .is_refused(&["spec.disks[0].size: disk \"root\" has 80Gi and cannot shrink to 10Gi"]);
        let smaller = json!({ "spec": { "template": "small" } });
        let answer = scenario.try_patch("Machine", "web", smaller).await;
        answer.warns(&["disk \"root\" keeps its 80Gi"]);
    });
}

#[test]
fn a_disk_from_an_image_has_the_requested_size() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let root = json!({ "name": "root", "source": image });
        let sized = |size: &str| json!({ "name": "root", "source": image, "size": size });
        let data = json!({ "name": "data", "source": { "blank": {} }, "size": "10Gi" });
        let disks = |disks: Value| json!({ "spec": { "disks": disks } });
        let spec = json!({ "disks": [root, data] });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_phase("web", "Running").await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        let requested = &claim["spec"]["resources"]["requests"]["storage"];
        assert_ne!(requested, "20Gi", "CDI adds what a file system needs");

        for change in [
            json!({ "spec": { "powerState": "Stopped" } }),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("20Gi")])),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("21Gi"), data])),
        ] {
            scenario
                .try_patch("Machine", "web", change)
                .await
                .succeeds();
            scenario.wait(60).await;
        }
        let mut less = data.clone();
        less["size"] = "9Gi".into();
        let detached = disks(json!([sized("21Gi")]));
        scenario
            .try_patch("Machine", "web", detached)
            .await
            .succeeds();
        let smaller = disks(json!([sized("21Gi"), less]));
        let answer = scenario.try_patch("Machine", "web", smaller).await;
        answer.is_refused(&["spec.disks[1].size: disk \"data\" has 10Gi and cannot shrink to 9Gi"]);
    });
}

#[test]
fn a_disk_beyond_the_quota_can_be_made_smaller() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        enforce_storage(&scenario, "50Gi").await;
        let spec = json!({ "template": "large" });
        let answer = scenario.try_create("Machine", "web", spec).await;
        answer.warns(&["has 50Gi of requests.storage left, and this needs 80Gi"]);
        scenario.until_reason("web", "InsufficientResources").await;
        let less = json!({ "spec": { "disks": [{ "name": "root", "size": "40Gi" }] } });
        scenario.try_patch("Machine", "web", less).await.succeeds();
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn growing_a_disk_of_a_class_without_expansion_is_refused() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let sized = |size: &str| json!({ "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }] });
        let answer = scenario.try_create("Machine", "web", sized("20Gi")).await;
        answer.succeeds();
        scenario.until_phase("web", "Running").await;
        let grown = json!({ "spec": sized("2000Gi") });
        let answer = scenario.try_patch("Machine", "web", grown.clone()).await;
        answer.is_refused(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // Another missing reference does not hide it.
        let mut hidden = grown.clone();
        hidden["spec"]["networks"] = json!([{ "name": "lan", "networkName": "later" }]);
        let answer = scenario.try_patch("Machine", "web", hidden).await;
        answer.is_refused(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // The remedy of the message works.
        let allowed = json!({ "allowVolumeExpansion": true });
        scenario.patch("StorageClass", "fixed", allowed).await;
        scenario.wait(1).await;
        scenario.try_patch("Machine", "web", grown).await.succeeds();
    });
}
