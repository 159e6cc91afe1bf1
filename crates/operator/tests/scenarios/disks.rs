//! Lifecycle of disks.

use sandbox::{Component, Setup, faults::Faults};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    runner::{run_scenario, run_scenario_alone},
    scenario::{Scenario, condition},
};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

fn volume<'a>(instance: &'a Value, name: &str) -> &'a Value {
    let volumes = instance["status"]["volumeStatus"].as_array();
    let mut volumes = volumes.into_iter().flatten();
    volumes
        .find(|volume| volume["name"] == name)
        .unwrap_or(&Value::Null)
}

fn has_volume(vm: &Value, name: &str) -> bool {
    let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array();
    volumes.is_some_and(|volumes| volumes.iter().any(|volume| volume["name"] == name))
}

fn storage_class(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": name, "annotations": annotations },
        "provisioner": "provisioner.sandbox.vitistack.io",
        "allowVolumeExpansion": true,
    })
}

fn failing(faults: &str) -> impl FnOnce(&mut Setup) {
    let faults = Faults::from_yaml(faults).unwrap();
    move |setup| setup.faults = faults
}

async fn running(spec: Value) -> Scenario {
    let scenario = Scenario::start().await;
    scenario.create_machine("web", spec).await;
    scenario.until_phase("web", "Running").await;
    scenario
}

/// Waits until a disk is attached to the guest, or detached.
async fn until_plugged(scenario: &Scenario, disk: &str, plugged: bool) -> Value {
    scenario
        .until("VirtualMachineInstance", "web", |instance| {
            let volume = volume(instance, disk);
            if plugged {
                volume["target"]
                    .as_str()
                    .is_some_and(|target| !target.is_empty())
            } else {
                volume.is_null()
            }
        })
        .await
}

async fn restart(scenario: &Scenario) {
    let before = scenario.get("VirtualMachineInstance", "web").await;
    let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
    scenario.patch_spec("web", requested).await;
    scenario
        .until("VirtualMachineInstance", "web", |instance| {
            instance["metadata"]["uid"] != before["metadata"]["uid"]
                && instance["status"]["phase"] == "Running"
        })
        .await;
    scenario.until_phase("web", "Running").await;
}

#[test]
fn a_new_disk_is_plugged_into_a_running_guest() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let before = scenario.get("VirtualMachineInstance", "web").await;

        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        let after = until_plugged(&scenario, "data", true).await;

        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(
            vm["spec"]["template"]["spec"]["volumes"][1],
            json!({ "name": "data", "persistentVolumeClaim": {
            "claimName": "web-data", "hotpluggable": true,
        } })
        );
        scenario.wait(10).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
    });
}

#[test]
fn a_disk_on_a_bus_without_hot_plug_waits_for_a_restart() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let disks = json!([{ "name": "data", "size": "5Gi", "bus": "sata" }]);
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        assert!(volume(&instance, "data").is_null());

        restart(&scenario).await;
        until_plugged(&scenario, "data", true).await;
        scenario
            .until_condition("web", "RestartRequired", "False")
            .await;
    });
}

#[test]
fn a_disk_grows_while_the_guest_runs() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small" })).await;
        let disks = json!([{ "name": "root", "size": "30Gi" }]);
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        scenario
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
        scenario.wait(5).await;
        let events = scenario.events("web").await;
        let grown = (
            "DiskResized".to_owned(),
            "Growing disk root from 20Gi to 30Gi".to_owned(),
        );
        assert!(events.contains(&grown), "{events:?}");
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
    });
}

#[test]
fn a_disk_that_cannot_be_expanded_is_reported_until_its_class_allows_it() {
    run_scenario_alone(&[], async {
        let disk = |size: &str| json!([{ "name": "root", "size": size, "storageClass": "fixed" }]);
        let scenario = running(json!({ "template": "small", "disks": disk("20Gi") })).await;
        let before = scenario.get("VirtualMachine", "web").await;

        scenario
            .patch_spec("web", json!({ "disks": disk("30Gi") }))
            .await;
        let storage = scenario
            .until_condition("web", "StorageReady", "False")
            .await;
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("\"fixed\" does not allow it"), "{message}");
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        let after = scenario.get("VirtualMachine", "web").await;
        assert_eq!(
            before["metadata"]["generation"],
            after["metadata"]["generation"]
        );

        let allowed = json!({ "allowVolumeExpansion": true });
        scenario.patch("StorageClass", "fixed", allowed).await;
        scenario
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
        scenario
            .until_condition("web", "StorageReady", "True")
            .await;
    });
}

#[test]
fn a_removed_disk_is_detached_and_its_claim_is_kept() {
    run_scenario(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let scenario = running(json!({ "template": "small", "disks": disks })).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;

        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until("VirtualMachine", "web", |vm| !has_volume(vm, "data"))
            .await;
        // The disk was attached when the guest started.
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        restart(&scenario).await;
        until_plugged(&scenario, "data", false).await;
        scenario.wait(10).await;
        let kept = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(claim["metadata"]["uid"], kept["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_removed_disk_can_be_attached_again_with_its_content() {
    run_scenario(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let scenario = running(json!({ "template": "small" })).await;
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        until_plugged(&scenario, "data", true).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        until_plugged(&scenario, "data", false).await;

        scenario.patch_spec("web", json!({ "disks": disks })).await;
        until_plugged(&scenario, "data", true).await;
        let again = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(claim["metadata"]["uid"], again["metadata"]["uid"]);
    });
}

#[test]
fn with_the_policy_delete_a_removed_disk_is_deleted_once_detached() {
    run_scenario(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let spec = json!({ "template": "small", "disks": disks, "deletionPolicy": "Delete" });
        let scenario = running(spec).await;

        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        scenario.wait(10).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null(), "in use");

        restart(&scenario).await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
        assert!(scenario.has_event("web", "DiskDeleted").await);
        let root = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert!(root["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn with_the_policy_delete_a_plugged_disk_is_unplugged_and_then_deleted() {
    run_scenario(async {
        let scenario = running(json!({ "template": "small", "deletionPolicy": "Delete" })).await;
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        let before = until_plugged(&scenario, "data", true).await;

        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-data")
            .await;
        let after = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert!(volume(&after, "data").is_null());
        scenario
            .until_condition("web", "RestartRequired", "False")
            .await;
    });
}

#[test]
fn with_the_policy_retain_a_removed_disk_is_kept() {
    run_scenario(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let spec = json!({ "template": "small", "disks": disks, "deletionPolicy": "Retain" });
        let scenario = running(spec).await;
        scenario.patch_spec("web", json!({ "disks": null })).await;
        scenario
            .until("VirtualMachine", "web", |vm| !has_volume(vm, "data"))
            .await;
        restart(&scenario).await;
        scenario.wait(10).await;
        scenario.get("PersistentVolumeClaim", "web-data").await;
    });
}

fn filled() -> Value {
    let source = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
    json!({ "template": "small", "disks": [{ "name": "root", "source": source }] })
}

#[test]
fn a_disk_with_a_source_is_filled_before_the_guest_starts() {
    run_scenario(async {
        let scenario = running(filled()).await;
        let volume = scenario.get("DataVolume", "web-root").await;
        assert_eq!(volume["status"]["phase"], "Succeeded");
        assert_eq!(
            volume["spec"]["source"]["http"]["url"],
            "https://images.example/debian.qcow2"
        );
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(
            vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"],
            "web-root"
        );

        let grown = json!([{ "name": "root", "size": "30Gi", "source": {
        "http": { "url": "https://images.example/debian.qcow2" },
    } }]);
        scenario.patch_spec("web", json!({ "disks": grown })).await;
        scenario
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
    });
}

#[test]
fn an_unreadable_source_is_reported_and_retried() {
    run_scenario_alone(&[], async {
        let fault = "[{ kind: DataVolume, name: web-root, fault: ImportFailed, times: 2 }]";
        let scenario = Scenario::start_with(failing(fault)).await;
        scenario.create_machine("web", filled()).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                let storage = condition(machine, "StorageReady");
                let message = storage["message"].as_str().unwrap_or_default();
                message.contains("DataVolume web-root:")
            })
            .await;
        assert_eq!(
            condition(&machine, "StorageReady")["reason"],
            "ImportFailed"
        );
        assert_eq!(condition(&machine, "Ready")["reason"], "ImportFailed");
        let words = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(words.contains("Unable to process data"), "{words}");

        scenario.until_phase("web", "Running").await;
        scenario
            .until_condition("web", "StorageReady", "True")
            .await;
        scenario.wait(1).await;
        let reasons = scenario.reasons("web").await;
        let failed = reasons.iter().filter(|reason| *reason == "ImportFailed");
        assert_eq!(failed.count(), 1, "{reasons:?}");
    });
}

#[test]
fn a_missing_clone_source_is_the_reason_until_it_is_created() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let source = json!({ "pvc": { "name": "gold" } });
        let spec = json!({
            "template": "small", "disks": [{ "name": "root", "boot": true, "source": source }],
        });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_reason("web", "SourceNotFound").await;
        assert_eq!(machine["status"]["phase"], "Creating");
        let words = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            words.contains("The source pvc gold doesn't exist"),
            "{words}"
        );
        scenario.wait(1).await;
        let reasons = scenario.reasons("web").await;
        assert!(
            reasons.contains(&"SourceNotFound".to_owned()),
            "{reasons:?}"
        );

        let claim = json!({
            "metadata": { "name": "gold" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "10Gi" } },
            },
        });
        scenario.create("PersistentVolumeClaim", claim).await;
        scenario.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_disk_with_a_source_waits_for_cdi() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start_with(|setup| {
            setup.without.insert(Component::Cdi);
        })
        .await;
        scenario.create_machine("web", filled()).await;
        let storage = scenario
            .until_condition("web", "StorageReady", "False")
            .await;
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("CDI"), "{message}");
        assert!(scenario.find("VirtualMachine", "web").await.is_none());
        // Machines without a source do not need CDI.
        scenario
            .create_machine("plain", json!({ "template": "small" }))
            .await;
        scenario.until_phase("plain", "Running").await;

        scenario.install(Component::Cdi).await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_waits_for_a_missing_storage_class() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let disks = json!([{ "name": "root", "storageClass": "fast" }]);
        let spec = json!({ "template": "small", "disks": disks });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Failed").await;
        assert_eq!(
            condition(&machine, "Ready")["reason"],
            "StorageClassNotFound"
        );
        let message = condition(&machine, "StorageReady")["message"].as_str();
        assert!(message.unwrap().contains("\"fast\""), "{message:?}");
        scenario.wait(3600).await;

        scenario
            .apply_object(storage_class("fast", &json!({})))
            .await;
        let created = Instant::now();
        scenario.until("VirtualMachine", "web", |_| true).await;
        assert!(created.elapsed() < scenario.cluster.timeout_of(2));
        scenario.until_phase("web", "Running").await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["storageClassName"], "fast");
    });
}

#[test]
fn a_new_default_storage_class_applies_to_new_disks_only() {
    run_scenario_alone(&[], async {
        let scenario = running(json!({ "template": "small" })).await;
        let before = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(before["spec"]["storageClassName"], "standard");

        let was = json!({ "metadata": { "annotations": { DEFAULT_CLASS: "false" } } });
        scenario.patch("StorageClass", "standard", was).await;
        scenario
            .apply_object(storage_class("fast", &json!({ DEFAULT_CLASS: "true" })))
            .await;
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        scenario.patch_spec("web", json!({ "disks": disks })).await;
        until_plugged(&scenario, "data", true).await;
        let data = scenario.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(data["spec"]["storageClassName"], "fast");
        let after = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(
            before["metadata"]["resourceVersion"],
            after["metadata"]["resourceVersion"]
        );
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_storage_class_can_be_deleted_once_its_disks_are_bound() {
    run_scenario_alone(&[], async {
        let scenario = running(json!({ "template": "small" })).await;
        scenario.delete("StorageClass", "standard").await;
        scenario.until_gone("StorageClass", "standard").await;
        scenario.wait(10).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "SpecValid")["status"], "True");

        scenario.patch_spec("web", json!({ "memory": "3Gi" })).await;
        scenario
            .until("Machine", "web", |machine| {
                machine["status"]["requestedMemory"] == "3Gi"
            })
            .await;
    });
}

#[test]
fn a_class_with_wait_for_first_consumer_gets_a_consumer() {
    run_scenario(async {
        let disks = json!([{ "name": "root", "storageClass": "local" }]);
        let scenario = running(json!({ "template": "small", "disks": disks })).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["status"]["phase"], "Bound");
        scenario
            .until_condition("web", "StorageReady", "True")
            .await;
    });
}

#[test]
fn an_unprovisioned_disk_is_named_until_it_is_bound() {
    run_scenario_alone(&[], async {
        let fault = "[{ kind: PersistentVolumeClaim, name: web-root, fault: ProvisioningFailed, times: 12 }]";
        let scenario = Scenario::start_with(failing(fault)).await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let storage = scenario
            .until_condition("web", "StorageReady", "False")
            .await;
        assert_eq!(storage["reason"], "PVCPending");
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("web-root"), "{message}");
        scenario.wait(10).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Creating");

        scenario.until_phase("web", "Running").await;
        scenario
            .until_condition("web", "StorageReady", "True")
            .await;
    });
}
