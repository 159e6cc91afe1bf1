//! Deletion of Machines.

use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    fault_injection::Fault,
    runner::{Need, run_scenario, run_scenario_alone, run_scenario_with_controllers},
    scenario::{Scenario, condition},
};

const CLAIM: &str = "PersistentVolumeClaim";

fn with_everything() -> Value {
    json!({
        "template": "small",
        "disks": [{ "name": "data", "size": "1Gi", "source": { "blank": {} } }],
        "cloudInit": { "userData": "#!/bin/sh" },
    })
}

async fn assert_nothing_is_left(scenario: &Scenario) {
    for kind in [
        "Machine",
        "VirtualMachine",
        "VirtualMachineInstance",
        "PersistentVolumeClaim",
        "DataVolume",
    ] {
        for object in scenario.list(kind).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            // The garbage collector deletes owned objects later.
            scenario.until_gone(kind, name).await;
        }
    }
    let secrets = scenario.list("Secret").await;
    let is_owned =
        |secret: &&Value| !secret["metadata"]["labels"]["vitistack.io/machine"].is_null();
    assert_eq!(secrets.iter().filter(is_owned).count(), 0);
}

#[test]
fn a_deleted_machine_stops_before_its_disks_are_deleted_and_leaves_nothing() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        let kinds = [
            "Machine",
            "VirtualMachine",
            "VirtualMachineInstance",
            "PersistentVolumeClaim",
            "DataVolume",
        ];
        let recording = scenario.record(&kinds).await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
        scenario.wait(1).await;

        let stopped = recording
            .deletion_of("VirtualMachine", "web")
            .max(recording.deletion_of("VirtualMachineInstance", "web"));
        let changes = recording.changes();
        let first = changes.iter().position(|change| {
            matches!(change.kind, "PersistentVolumeClaim" | "DataVolume")
                && (change.is_deletion
                    || change.object["metadata"]["deletionTimestamp"].is_string())
        });
        assert!(stopped < first.unwrap());
        assert_eq!(scenario.find("VirtualMachineInstance", "web").await, None);
    });
}

#[test]
fn a_machine_being_deleted_reports_what_it_waits_for() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("Machine", "web").await;
        let machine = scenario.until_reason("web", "Deleting").await;
        assert_eq!(machine["status"]["phase"], "Running");
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("waiting for"), "{message}");
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn retained_disks_stay_without_an_owner() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let mut spec = with_everything();
        spec["deletionPolicy"] = "Retain".into();
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario.wait(5).await;
        for (kind, name) in [
            ("PersistentVolumeClaim", "web-root"),
            ("PersistentVolumeClaim", "web-data"),
            ("DataVolume", "web-data"),
        ] {
            let disk = scenario.get(kind, name).await;
            let owners = disk["metadata"]["ownerReferences"].as_array();
            let by_machines = owners
                .into_iter()
                .flatten()
                .filter(|owner| owner["kind"] == "Machine");
            assert_eq!(by_machines.count(), 0, "{kind} {name}");
            assert!(disk["metadata"]["deletionTimestamp"].is_null());
        }
        let secrets = scenario.list("Secret").await;
        let is_owned =
            |secret: &&Value| !secret["metadata"]["labels"]["vitistack.io/machine"].is_null();
        assert_eq!(secrets.iter().filter(is_owned).count(), 0);
    });
}

#[test]
fn disks_are_retained_when_the_policy_changes_before_the_deletion() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        let retain = json!({ "spec": { "deletionPolicy": "Retain" } });
        scenario.patch("Machine", "web", retain).await;
        for (kind, name) in [
            ("PersistentVolumeClaim", "web-root"),
            ("DataVolume", "web-data"),
        ] {
            scenario
                .until(kind, name, |disk| {
                    disk["metadata"]["ownerReferences"].is_null()
                })
                .await;
        }
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(5).await;
        scenario.get("PersistentVolumeClaim", "web-root").await;
        scenario.get("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_foreground_deletion_keeps_retained_disks() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        let mut spec = with_everything();
        spec["deletionPolicy"] = "Retain".into();
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        scenario
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario.wait(5).await;
        scenario.get("PersistentVolumeClaim", "web-root").await;
        scenario.get("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_foreground_deletion_completes_and_leaves_nothing() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        scenario
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
    });
}

#[test]
fn a_manually_deleted_virtual_machine_is_recreated_with_the_same_disks() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let disk = scenario.get("PersistentVolumeClaim", "web-root").await;
        scenario.delete("VirtualMachine", "web").await;
        scenario
            .until("VirtualMachine", "web", |found| {
                found["metadata"]["uid"] != vm["metadata"]["uid"]
                    && found["status"]["printableStatus"] == "Running"
            })
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        let same = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_manually_deleted_virtual_machine_does_not_block_the_deletion() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("VirtualMachine", "web").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
    });
}

#[test]
fn a_machine_that_never_resolved_can_be_deleted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "gigantic" }))
            .await;
        scenario.until_reason("web", "TemplateNotFound").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn a_machine_whose_spec_became_invalid_can_be_deleted() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let invalid = json!({ "spec": { "template": "gigantic" } });
        scenario.patch("Machine", "web", invalid).await;
        let machine = scenario.until_reason("web", "TemplateNotFound").await;
        assert_eq!(machine["status"]["phase"], "Running");
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
    });
}

#[test]
fn a_machine_deleted_during_its_creation_leaves_nothing() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Creating").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
    });
}

#[test]
fn a_disk_whose_create_got_no_response_is_deleted_with_its_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.faults.inject(|method, path| {
            let is_claim = method == Method::POST && path.ends_with("/persistentvolumeclaims");
            is_claim.then_some(Fault::ResponseLost)
        });
        scenario.faults.block_watches_of("persistentvolumeclaims");
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let claim = "PersistentVolumeClaim";
        scenario.until(claim, "web-root", |_| true).await;
        scenario.delete("Machine", "web").await;
        scenario
            .until_request("get", "persistentvolumeclaims")
            .await;
        // Only a watch shows later changes by others.
        scenario.faults.clear();
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone(claim, "web-root").await;
    });
}

/// Deletes a Machine whose claim lost its labels while the operator was down.
async fn delete_without_labels(spec: Value) -> Scenario {
    let mut scenario = Scenario::start().await;
    scenario.create_machine("web", spec).await;
    scenario.until_phase("web", "Running").await;
    scenario
        .until("Machine", "web", |machine| {
            machine["status"]["disks"][0]["uuid"].is_string()
        })
        .await;
    scenario.stop_operator().await;
    let claim = scenario.get(CLAIM, "web-root").await;
    let labels = claim["metadata"]["labels"].as_object().unwrap();
    let none: serde_json::Map<String, Value> = labels
        .keys()
        .map(|label| (label.clone(), Value::Null))
        .collect();
    scenario
        .patch(CLAIM, "web-root", json!({ "metadata": { "labels": none } }))
        .await;
    scenario.delete("Machine", "web").await;
    scenario.start_operator();
    scenario.until_gone("Machine", "web").await;
    scenario
}

#[test]
fn a_claim_without_its_labels_is_deleted_with_its_machine() {
    run_scenario(async {
        let scenario = delete_without_labels(json!({ "template": "small" })).await;
        scenario.until_gone(CLAIM, "web-root").await;
    });
}

#[test]
fn a_claim_without_its_labels_is_kept_if_disks_are_retained() {
    run_scenario(async {
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        let scenario = delete_without_labels(spec).await;
        scenario.wait(5).await;
        let claim = scenario.get(CLAIM, "web-root").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(
            claim["metadata"]["labels"]["vitistack.io/retained"], "true",
            "{claim:#}"
        );
    });
}

#[test]
fn a_machine_is_deleted_with_its_namespace() {
    run_scenario_with_controllers(async {
        let mut scenario = Scenario::without_operator().await;
        if scenario.namespace == "default" {
            scenario.namespace = "short-lived".to_owned();
            let namespace = json!({ "metadata": { "name": "short-lived" } });
            scenario.create("Namespace", namespace).await;
        }
        scenario.start_operator();
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        let namespace = scenario.namespace.clone();
        scenario.delete("Namespace", &namespace).await;
        scenario.until_gone("Namespace", &namespace).await;
    });
}

#[test]
fn machines_are_deleted_with_all_definitions_at_once() {
    run_scenario_alone(&[Need::Controllers], async {
        let scenario = Scenario::start().await;
        let network = json!({ "metadata": { "name": "lan" }, "spec": { "bridge": "br0" } });
        scenario.create("NetworkConfiguration", network).await;
        let mut spec = with_everything();
        spec["networks"] = json!([{ "name": "lan", "networkName": "lan" }]);
        scenario.create_machine("web", spec).await;
        scenario
            .create_machine("db", json!({ "template": "small" }))
            .await;
        for name in ["web", "db"] {
            scenario.until_phase(name, "Running").await;
        }
        let definitions = [
            "machineclasses.vitistack.io",
            "networkconfigurations.vitistack.io",
            "machines.vitistack.io",
        ];
        for name in definitions {
            scenario.delete("CustomResourceDefinition", name).await;
        }
        for name in definitions {
            scenario.until_gone("CustomResourceDefinition", name).await;
        }
        for kind in [
            "VirtualMachine",
            "PersistentVolumeClaim",
            "DataVolume",
            "NetworkAttachmentDefinition",
        ] {
            for object in scenario.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap();
                scenario.until_gone(kind, name).await;
            }
        }
    });
}

#[test]
fn a_machine_can_be_deleted_without_kubevirt() {
    run_scenario_alone(&[Need::Controllers, Need::CurrentApis], async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        for name in [
            "virtualmachines.kubevirt.io",
            "virtualmachineinstances.kubevirt.io",
        ] {
            // Objects with finalizers of KubeVirt would never be deleted.
            let kind = if name.contains("instances") {
                "VirtualMachineInstance"
            } else {
                "VirtualMachine"
            };
            scenario.delete("CustomResourceDefinition", name).await;
            let free = json!({ "metadata": { "finalizers": null } });
            if scenario.find(kind, "web").await.is_some() {
                scenario.patch(kind, "web", free).await;
            }
            scenario.until_gone("CustomResourceDefinition", name).await;
        }
        let machine = scenario.until_reason("web", "KubeVirtApiError").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("not installed"), "{message}");
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
    });
}

#[test]
fn a_machine_deleted_while_the_operator_is_down_is_cleaned_up_later() {
    run_scenario_with_controllers(async {
        let mut scenario = Scenario::start().await;
        scenario.create_machine("web", with_everything()).await;
        scenario.until_phase("web", "Running").await;
        scenario.stop_operator().await;
        scenario.delete("Machine", "web").await;
        scenario.wait(5).await;
        scenario.get("VirtualMachine", "web").await;
        scenario.start_operator();
        scenario.until_gone("Machine", "web").await;
        assert_nothing_is_left(&scenario).await;
    });
}

#[test]
fn a_crash_after_any_write_of_a_deletion_is_recovered_from() {
    for writes in 1..=6 {
        run_scenario_with_controllers(async move {
            let mut scenario = Scenario::start().await;
            scenario.create_machine("web", with_everything()).await;
            scenario.until_phase("web", "Running").await;
            scenario.wait(2).await;
            scenario.faults.hang_after_writes(writes);
            scenario.delete("Machine", "web").await;
            scenario.until_writes(writes).await;
            scenario.kill_operator().await;
            scenario.faults.clear();
            scenario.start_operator();
            scenario.until_gone("Machine", "web").await;
            assert_nothing_is_left(&scenario).await;
        });
    }
}

#[test]
fn retained_disks_are_adopted_by_a_new_machine_only_on_request() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        scenario.create_machine("web", spec.clone()).await;
        scenario.until_phase("web", "Running").await;
        let disk = scenario.get("PersistentVolumeClaim", "web-root").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;

        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "ForeignObject");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains("web-root"), "{message}");
        assert!(message.contains("vitistack.io/adopt-disks"), "{message}");
        assert_eq!(scenario.find("VirtualMachine", "web").await, None);

        let adopt =
            json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        scenario.patch("Machine", "web", adopt).await;
        scenario.until_phase("web", "Running").await;
        let same = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
    });
}

/// As after a restore that misses a label.
#[test]
fn a_restored_disk_without_labels_is_reported_with_the_remedy() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        scenario.create_machine("web", spec.clone()).await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        let label = |value: Value| json!({ "metadata": { "labels": { "vitistack.io/managed-by": value } } });
        scenario
            .patch("PersistentVolumeClaim", "web-root", label(Value::Null))
            .await;

        scenario.create_machine("web", spec).await;
        let adopt =
            json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        scenario.patch("Machine", "web", adopt).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(
            ready["message"],
            "PersistentVolumeClaim \"web-root\" exists and does not belong to this Machine: to let the Machine adopt it, label it vitistack.io/machine=web and vitistack.io/managed-by=kubevirt-operator, and annotate the Machine with vitistack.io/adopt-disks: \"true\"; otherwise rename one of them"
        );

        let restored = label("kubevirt-operator".into());
        scenario
            .patch("PersistentVolumeClaim", "web-root", restored)
            .await;
        scenario.until_phase("web", "Running").await;
    });
}
