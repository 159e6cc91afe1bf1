//! Foreign objects are left alone, and tampering with owned ones is repaired.

use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_with_controllers},
    scenario::{Scenario, condition},
};

/// Object of a user, under a name that a Machine needs.
fn foreign(kind: &str, name: &str) -> Value {
    let spec = match kind {
        "VirtualMachine" => json!({
            "runStrategy": "Halted",
            "template": { "spec": { "domain": { "devices": {}, "memory": { "guest": "1Gi" } } } },
        }),
        "PersistentVolumeClaim" => json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        }),
        _ => return json!({ "metadata": { "name": name }, "stringData": { "key": "value" } }),
    };
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Asserts that a Machine does not change a foreign object, and continues once it is deleted.
async fn assert_left_alone(kind: &str, name: &str) {
    let scenario = Scenario::start().await;
    let recording = scenario.record(&["Machine"]).await;
    scenario.create(kind, foreign(kind, name)).await;
    scenario.wait(3).await;
    let before = scenario.get(kind, name).await;
    let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
    scenario.create_machine("web", spec).await;
    let machine = scenario.until_phase("web", "Failed").await;
    let ready = condition(&machine, "Ready");
    assert_eq!(ready["reason"], "ForeignObject");
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.contains(kind) && message.contains(name),
        "{message}"
    );

    scenario.wait(10).await;
    assert_eq!(scenario.get(kind, name).await, before);
    let reasons = scenario.reasons("web").await;
    assert_eq!(reasons, ["ForeignObject"]);

    scenario.delete(kind, name).await;
    scenario.until_phase("web", "Running").await;
    let changes = recording.of("Machine", "web");
    assert!(
        changes.len() < 12,
        "the status was written {} times",
        changes.len()
    );
}

#[test]
fn a_foreign_virtual_machine_is_left_alone() {
    run_scenario(assert_left_alone("VirtualMachine", "web"));
}

#[test]
fn a_foreign_claim_is_left_alone() {
    run_scenario(assert_left_alone("PersistentVolumeClaim", "web-root"));
}

#[test]
fn a_foreign_secret_is_left_alone() {
    run_scenario(assert_left_alone("Secret", "web-cloud-init"));
}

#[test]
fn foreign_objects_stay_when_the_conflicting_machine_is_deleted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
            ("Secret", "web-cloud-init"),
        ] {
            scenario.create(kind, foreign(kind, name)).await;
        }
        let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
        scenario.create_machine("web", spec).await;
        scenario.until_reason("web", "ForeignObject").await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(3).await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
            ("Secret", "web-cloud-init"),
        ] {
            let kept = scenario.get(kind, name).await;
            assert!(kept["metadata"]["deletionTimestamp"].is_null());
        }
    });
}

#[test]
fn a_disk_of_one_machine_is_not_used_by_another_of_the_same_claim_name() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "disks": [{ "name": "b-root", "size": "1Gi" }] });
        scenario.create_machine("a", spec).await;
        scenario.until_phase("a", "Running").await;
        let disk = scenario.get("PersistentVolumeClaim", "a-b-root").await;

        scenario
            .create_machine("a-b", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("a-b", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "ForeignObject");
        assert!(ready["message"].as_str().unwrap().contains("a-b-root"));
        scenario.delete("Machine", "a-b").await;
        scenario.until_gone("Machine", "a-b").await;
        let same = scenario.get("PersistentVolumeClaim", "a-b-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
        let machine = scenario.get("Machine", "a").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn two_machines_cannot_share_a_virtual_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "name": "shared" });
        scenario.create_machine("one", spec.clone()).await;
        scenario.until_phase("one", "Running").await;
        let vm = scenario.get("VirtualMachine", "shared").await;
        scenario.create_machine("two", spec).await;
        let machine = scenario.until_phase("two", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "ForeignObject");
        scenario.delete("Machine", "two").await;
        scenario.until_gone("Machine", "two").await;
        let same = scenario.get("VirtualMachine", "shared").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn removed_labels_of_children_are_restored() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let off = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            scenario.patch(kind, name, off.clone()).await;
            scenario
                .until(kind, name, |object| {
                    let labels = &object["metadata"]["labels"];
                    labels["vitistack.io/managed-by"] == "kubevirt-operator"
                        && labels["vitistack.io/machine"] == "web"
                })
                .await;
        }
        scenario.until_condition("web", "Ready", "True").await;
        let same = scenario.get("VirtualMachine", "web").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
    });
}

#[test]
fn managed_fields_are_repaired_and_foreign_fields_stay() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let change = json!({
            "metadata": { "labels": { "theirs": "stays" } },
            "spec": {
                "runStrategy": "Halted",
                "template": { "spec": { "terminationGracePeriodSeconds": 7 } },
            },
        });
        scenario.patch("VirtualMachine", "web", change).await;
        let vm = scenario
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["runStrategy"] == "Always"
            })
            .await;
        assert_eq!(vm["metadata"]["labels"]["theirs"], "stays");
        assert_eq!(
            vm["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
            7
        );
        let events = scenario.events("web").await;
        scenario.until_condition("web", "Ready", "True").await;
        let events = if events.iter().any(|(reason, _)| reason == "DriftCorrected") {
            events
        } else {
            scenario.wait(2).await;
            scenario.events("web").await
        };
        let (_, message) = events
            .iter()
            .find(|(reason, _)| reason == "DriftCorrected")
            .unwrap();
        assert!(message.contains("spec.runStrategy"), "{message}");
    });
}

#[test]
fn a_removed_finalizer_of_a_machine_is_restored() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let off = json!({ "metadata": { "finalizers": null } });
        scenario.patch("Machine", "web", off).await;
        scenario
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["machine.vitistack.io/cleanup"])
            })
            .await;
    });
}

#[test]
fn a_foreign_finalizer_keeps_a_cleaned_up_machine() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let finalizers = json!({ "metadata": { "finalizers": [
            "example.com/backup", "machine.vitistack.io/cleanup",
        ] } });
        scenario.patch("Machine", "web", finalizers).await;
        scenario.delete("Machine", "web").await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["example.com/backup"])
            })
            .await;
        assert!(machine["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(scenario.find("VirtualMachine", "web").await, None);
        scenario.wait(3).await;
        let free = json!({ "metadata": { "finalizers": null } });
        scenario.patch("Machine", "web", free).await;
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn an_instance_without_its_virtual_machine_is_deleted_with_the_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let orphan = kube::api::DeleteParams {
            propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
            ..kube::api::DeleteParams::default()
        };
        scenario.delete_with("VirtualMachine", "web", orphan).await;
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachineInstance", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
    });
}
