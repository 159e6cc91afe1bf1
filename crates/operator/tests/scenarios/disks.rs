//! How disks come, grow and go.

use sandbox::{Component, Setup, faults::Faults};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::{tell, tell_alone},
    story::{Story, condition},
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

async fn running(spec: Value) -> Story {
    let story = Story::begin().await;
    story.machine("web", spec).await;
    story.until_phase("web", "Running").await;
    story
}

/// Waits until the guest has a disk, or has it no more.
async fn until_plugged(story: &Story, disk: &str, plugged: bool) -> Value {
    story
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

async fn restart(story: &Story) {
    let before = story.get("VirtualMachineInstance", "web").await;
    let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
    story.change("web", asked).await;
    story
        .until("VirtualMachineInstance", "web", |instance| {
            instance["metadata"]["uid"] != before["metadata"]["uid"]
                && instance["status"]["phase"] == "Running"
        })
        .await;
    story.until_phase("web", "Running").await;
}

#[test]
fn a_new_disk_is_plugged_into_a_running_guest() {
    tell(async {
        let story = running(json!({ "template": "small" })).await;
        let before = story.get("VirtualMachineInstance", "web").await;

        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        story.change("web", json!({ "disks": disks })).await;
        let after = until_plugged(&story, "data", true).await;

        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(
            vm["spec"]["template"]["spec"]["volumes"][1],
            json!({ "name": "data", "persistentVolumeClaim": {
            "claimName": "web-data", "hotpluggable": true,
        } })
        );
        story.wait(10).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
    });
}

#[test]
fn a_disk_on_a_bus_without_hot_plug_waits_for_a_restart() {
    tell(async {
        let story = running(json!({ "template": "small" })).await;
        let disks = json!([{ "name": "data", "size": "5Gi", "bus": "sata" }]);
        story.change("web", json!({ "disks": disks })).await;
        story
            .until_condition("web", "RestartRequired", "True")
            .await;
        let instance = story.get("VirtualMachineInstance", "web").await;
        assert!(volume(&instance, "data").is_null());

        restart(&story).await;
        until_plugged(&story, "data", true).await;
        story
            .until_condition("web", "RestartRequired", "False")
            .await;
    });
}

#[test]
fn a_disk_grows_while_the_guest_runs() {
    tell(async {
        let story = running(json!({ "template": "small" })).await;
        let disks = json!([{ "name": "root", "size": "30Gi" }]);
        story.change("web", json!({ "disks": disks })).await;
        story
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
        story.wait(5).await;
        let events = story.events("web").await;
        let grown = (
            "DiskResized".to_owned(),
            "Growing disk root from 20Gi to 30Gi".to_owned(),
        );
        assert!(events.contains(&grown), "{events:?}");
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
    });
}

#[test]
fn a_disk_that_may_not_grow_says_so_until_its_class_lets_it() {
    tell_alone(&[], async {
        let disk = |size: &str| json!([{ "name": "root", "size": size, "storageClass": "fixed" }]);
        let story = running(json!({ "template": "small", "disks": disk("20Gi") })).await;
        let before = story.get("VirtualMachine", "web").await;

        story.change("web", json!({ "disks": disk("30Gi") })).await;
        let storage = story.until_condition("web", "StorageReady", "False").await;
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("\"fixed\" does not allow it"), "{message}");
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        let after = story.get("VirtualMachine", "web").await;
        assert_eq!(
            before["metadata"]["generation"],
            after["metadata"]["generation"]
        );

        let allowed = json!({ "allowVolumeExpansion": true });
        story.patch("StorageClass", "fixed", allowed).await;
        story
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
        story.until_condition("web", "StorageReady", "True").await;
    });
}

#[test]
fn a_disk_that_is_removed_is_detached_and_its_claim_kept() {
    tell(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let story = running(json!({ "template": "small", "disks": disks })).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;

        story.change("web", json!({ "disks": null })).await;
        story
            .until("VirtualMachine", "web", |vm| !has_volume(vm, "data"))
            .await;
        // The guest was started with it.
        story
            .until_condition("web", "RestartRequired", "True")
            .await;
        restart(&story).await;
        until_plugged(&story, "data", false).await;
        story.wait(10).await;
        let kept = story.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(claim["metadata"]["uid"], kept["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_disk_that_was_removed_is_found_again_with_its_content() {
    tell(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let story = running(json!({ "template": "small" })).await;
        story.change("web", json!({ "disks": disks })).await;
        until_plugged(&story, "data", true).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        story.change("web", json!({ "disks": null })).await;
        until_plugged(&story, "data", false).await;

        story.change("web", json!({ "disks": disks })).await;
        until_plugged(&story, "data", true).await;
        let again = story.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(claim["metadata"]["uid"], again["metadata"]["uid"]);
    });
}

#[test]
fn with_the_policy_delete_a_removed_disk_goes_once_the_guest_has_let_go_of_it() {
    tell(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let spec = json!({ "template": "small", "disks": disks, "deletionPolicy": "Delete" });
        let story = running(spec).await;

        story.change("web", json!({ "disks": null })).await;
        story
            .until_condition("web", "RestartRequired", "True")
            .await;
        story.wait(10).await;
        let claim = story.get("PersistentVolumeClaim", "web-data").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null(), "in use");

        restart(&story).await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
        assert!(story.was_told("web", "DiskDeleted").await);
        let root = story.get("PersistentVolumeClaim", "web-root").await;
        assert!(root["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn with_the_policy_delete_a_plugged_disk_is_unplugged_and_then_deleted() {
    tell(async {
        let story = running(json!({ "template": "small", "deletionPolicy": "Delete" })).await;
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        story.change("web", json!({ "disks": disks })).await;
        let before = until_plugged(&story, "data", true).await;

        story.change("web", json!({ "disks": null })).await;
        story.until_gone("PersistentVolumeClaim", "web-data").await;
        let after = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert!(volume(&after, "data").is_null());
        story
            .until_condition("web", "RestartRequired", "False")
            .await;
    });
}

#[test]
fn with_the_policy_retain_a_removed_disk_is_kept() {
    tell(async {
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        let spec = json!({ "template": "small", "disks": disks, "deletionPolicy": "Retain" });
        let story = running(spec).await;
        story.change("web", json!({ "disks": null })).await;
        story
            .until("VirtualMachine", "web", |vm| !has_volume(vm, "data"))
            .await;
        restart(&story).await;
        story.wait(10).await;
        story.get("PersistentVolumeClaim", "web-data").await;
    });
}

fn filled() -> Value {
    let source = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
    json!({ "template": "small", "disks": [{ "name": "root", "source": source }] })
}

#[test]
fn a_disk_with_a_source_is_filled_before_the_guest_starts() {
    tell(async {
        let story = running(filled()).await;
        let volume = story.get("DataVolume", "web-root").await;
        assert_eq!(volume["status"]["phase"], "Succeeded");
        assert_eq!(
            volume["spec"]["source"]["http"]["url"],
            "https://images.example/debian.qcow2"
        );
        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(
            vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"],
            "web-root"
        );

        let grown = json!([{ "name": "root", "size": "30Gi", "source": {
        "http": { "url": "https://images.example/debian.qcow2" },
    } }]);
        story.change("web", json!({ "disks": grown })).await;
        story
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "30Gi"
            })
            .await;
    });
}

#[test]
fn a_source_that_cannot_be_read_is_told_and_tried_again() {
    tell_alone(&[], async {
        let fault = "[{ kind: DataVolume, name: web-root, fault: ImportFailed, times: 2 }]";
        let story = Story::begin_with(failing(fault)).await;
        story.machine("web", filled()).await;
        let machine = story
            .until("Machine", "web", |machine| {
                let storage = condition(machine, "StorageReady");
                let message = storage["message"].as_str().unwrap_or_default();
                message.contains("DataVolume web-root:")
            })
            .await;
        assert_eq!(condition(&machine, "StorageReady")["reason"], "PVCPending");
        assert_eq!(condition(&machine, "Ready")["reason"], "ImportFailed");
        let words = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(words.contains("Unable to process data"), "{words}");

        story.until_phase("web", "Running").await;
        story.until_condition("web", "StorageReady", "True").await;
        story.wait(1).await;
        let reasons = story.reasons("web").await;
        let failed = reasons.iter().filter(|reason| *reason == "ImportFailed");
        assert_eq!(failed.count(), 1, "{reasons:?}");
    });
}

#[test]
fn a_clone_source_that_does_not_exist_is_the_reason_until_it_is_created() {
    tell(async {
        let story = Story::begin().await;
        let source = json!({ "pvc": { "name": "gold" } });
        let spec = json!({
            "template": "small", "disks": [{ "name": "root", "boot": true, "source": source }],
        });
        story.machine("web", spec).await;
        let machine = story.until_reason("web", "SourceNotFound").await;
        assert_eq!(machine["status"]["phase"], "Creating");
        let words = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            words.contains("The source pvc gold doesn't exist"),
            "{words}"
        );
        story.wait(1).await;
        let reasons = story.reasons("web").await;
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
        story.create("PersistentVolumeClaim", claim).await;
        story.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_disk_with_a_source_waits_for_cdi() {
    tell_alone(&[], async {
        let story = Story::begin_with(|setup| {
            setup.without.insert(Component::Cdi);
        })
        .await;
        story.machine("web", filled()).await;
        let storage = story.until_condition("web", "StorageReady", "False").await;
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("CDI"), "{message}");
        assert!(story.find("VirtualMachine", "web").await.is_none());
        // Others do not need it.
        story.machine("plain", json!({ "template": "small" })).await;
        story.until_phase("plain", "Running").await;

        story.install(Component::Cdi).await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_missing_storage_class_holds_a_machine_until_it_is_there() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let disks = json!([{ "name": "root", "storageClass": "fast" }]);
        let spec = json!({ "template": "small", "disks": disks });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Failed").await;
        assert_eq!(
            condition(&machine, "Ready")["reason"],
            "StorageClassNotFound"
        );
        let message = condition(&machine, "StorageReady")["message"].as_str();
        assert!(message.unwrap().contains("\"fast\""), "{message:?}");
        story.wait(3600).await;

        story.give(storage_class("fast", &json!({}))).await;
        let created = Instant::now();
        story.until("VirtualMachine", "web", |_| true).await;
        assert!(created.elapsed() < story.ground.patience_of(2));
        story.until_phase("web", "Running").await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["storageClassName"], "fast");
    });
}

#[test]
fn another_default_class_is_for_new_disks_only() {
    tell_alone(&[], async {
        let story = running(json!({ "template": "small" })).await;
        let before = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(before["spec"]["storageClassName"], "standard");

        let was = json!({ "metadata": { "annotations": { DEFAULT_CLASS: "false" } } });
        story.patch("StorageClass", "standard", was).await;
        story
            .give(storage_class("fast", &json!({ DEFAULT_CLASS: "true" })))
            .await;
        let disks = json!([{ "name": "data", "size": "5Gi" }]);
        story.change("web", json!({ "disks": disks })).await;
        until_plugged(&story, "data", true).await;
        let data = story.get("PersistentVolumeClaim", "web-data").await;
        assert_eq!(data["spec"]["storageClassName"], "fast");
        let after = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(
            before["metadata"]["resourceVersion"],
            after["metadata"]["resourceVersion"]
        );
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_class_may_go_once_its_disks_are_bound() {
    tell_alone(&[], async {
        let story = running(json!({ "template": "small" })).await;
        story.delete("StorageClass", "standard").await;
        story.until_gone("StorageClass", "standard").await;
        story.wait(10).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "SpecValid")["status"], "True");

        story.change("web", json!({ "memory": "3Gi" })).await;
        story
            .until("Machine", "web", |machine| {
                machine["status"]["requestedMemory"] == "3Gi"
            })
            .await;
    });
}

#[test]
fn a_class_that_waits_for_its_first_consumer_gets_one() {
    tell(async {
        let disks = json!([{ "name": "root", "storageClass": "local" }]);
        let story = running(json!({ "template": "small", "disks": disks })).await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["status"]["phase"], "Bound");
        story.until_condition("web", "StorageReady", "True").await;
    });
}

#[test]
fn a_disk_that_is_not_provided_is_named_until_it_is() {
    tell_alone(&[], async {
        let fault = "[{ kind: PersistentVolumeClaim, name: web-root, fault: ProvisioningFailed, times: 12 }]";
        let story = Story::begin_with(failing(fault)).await;
        story.machine("web", json!({ "template": "small" })).await;
        let storage = story.until_condition("web", "StorageReady", "False").await;
        assert_eq!(storage["reason"], "PVCPending");
        let message = storage["message"].as_str().unwrap();
        assert!(message.contains("web-root"), "{message}");
        story.wait(10).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Creating");

        story.until_phase("web", "Running").await;
        story.until_condition("web", "StorageReady", "True").await;
    });
}
