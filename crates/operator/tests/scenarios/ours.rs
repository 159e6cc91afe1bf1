//! What is not ours is left alone, and what is ours is kept.

use serde_json::{Value, json};

use crate::{
    ground::{tell, tell_with_controllers},
    story::{Story, condition},
};

/// Something that a user has, under a name that a Machine will need.
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

/// A Machine meets something that is not its own, leaves it alone, and goes on when it is gone.
async fn is_left_alone(kind: &str, name: &str) {
    let story = Story::begin().await;
    let record = story.record(&["Machine"]).await;
    story.create(kind, foreign(kind, name)).await;
    story.wait(3).await;
    let before = story.get(kind, name).await;
    let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
    story.machine("web", spec).await;
    let machine = story.until_phase("web", "Failed").await;
    let ready = condition(&machine, "Ready");
    assert_eq!(ready["reason"], "ForeignObject");
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.contains(kind) && message.contains(name),
        "{message}"
    );

    story.wait(10).await;
    assert_eq!(story.get(kind, name).await, before);
    let reasons = story.reasons("web").await;
    assert_eq!(reasons, ["ForeignObject"]);

    story.delete(kind, name).await;
    story.until_phase("web", "Running").await;
    let changes = record.of("Machine", "web");
    assert!(
        changes.len() < 12,
        "the status was written {} times",
        changes.len()
    );
}

#[test]
fn a_virtual_machine_of_somebody_else_is_left_alone() {
    tell(is_left_alone("VirtualMachine", "web"));
}

#[test]
fn a_claim_of_somebody_else_is_left_alone() {
    tell(is_left_alone("PersistentVolumeClaim", "web-root"));
}

#[test]
fn a_secret_of_somebody_else_is_left_alone() {
    tell(is_left_alone("Secret", "web-cloud-init"));
}

#[test]
fn what_belongs_to_others_stays_when_a_machine_in_its_way_is_deleted() {
    tell(async {
        let story = Story::begin().await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
            ("Secret", "web-cloud-init"),
        ] {
            story.create(kind, foreign(kind, name)).await;
        }
        let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
        story.machine("web", spec).await;
        story.until_reason("web", "ForeignObject").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.wait(3).await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
            ("Secret", "web-cloud-init"),
        ] {
            let kept = story.get(kind, name).await;
            assert!(kept["metadata"]["deletionTimestamp"].is_null());
        }
    });
}

#[test]
fn a_disk_of_one_machine_is_not_taken_by_another_that_would_name_its_own_the_same() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "disks": [{ "name": "b-root", "size": "1Gi" }] });
        story.machine("a", spec).await;
        story.until_phase("a", "Running").await;
        let disk = story.get("PersistentVolumeClaim", "a-b-root").await;

        story.machine("a-b", json!({ "template": "small" })).await;
        let machine = story.until_phase("a-b", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "ForeignObject");
        assert!(ready["message"].as_str().unwrap().contains("a-b-root"));
        story.delete("Machine", "a-b").await;
        story.until_gone("Machine", "a-b").await;
        let same = story.get("PersistentVolumeClaim", "a-b-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
        let machine = story.get("Machine", "a").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn two_machines_cannot_have_one_virtual_machine() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "name": "shared" });
        story.machine("one", spec.clone()).await;
        story.until_phase("one", "Running").await;
        let vm = story.get("VirtualMachine", "shared").await;
        story.machine("two", spec).await;
        let machine = story.until_phase("two", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "ForeignObject");
        story.delete("Machine", "two").await;
        story.until_gone("Machine", "two").await;
        let same = story.get("VirtualMachine", "shared").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn labels_that_somebody_takes_off_our_objects_are_put_back() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let vm = story.get("VirtualMachine", "web").await;
        let off = json!({ "metadata": { "labels": {
            "vitistack.io/managed-by": null, "vitistack.io/machine": null,
        } } });
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            story.patch(kind, name, off.clone()).await;
            story
                .until(kind, name, |object| {
                    let labels = &object["metadata"]["labels"];
                    labels["vitistack.io/managed-by"] == "kubevirt-operator"
                        && labels["vitistack.io/machine"] == "web"
                })
                .await;
        }
        story.until_condition("web", "Ready", "True").await;
        let same = story.get("VirtualMachine", "web").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
    });
}

#[test]
fn what_somebody_changes_of_ours_is_put_back_and_what_is_theirs_stays() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let change = json!({
            "metadata": { "labels": { "theirs": "stays" } },
            "spec": {
                "runStrategy": "Halted",
                "template": { "spec": { "terminationGracePeriodSeconds": 7 } },
            },
        });
        story.patch("VirtualMachine", "web", change).await;
        let vm = story
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["runStrategy"] == "Always"
            })
            .await;
        assert_eq!(vm["metadata"]["labels"]["theirs"], "stays");
        assert_eq!(
            vm["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
            7
        );
        let events = story.events("web").await;
        story.until_condition("web", "Ready", "True").await;
        let events = if events.iter().any(|(reason, _)| reason == "PutBack") {
            events
        } else {
            story.wait(2).await;
            story.events("web").await
        };
        let (_, message) = events
            .iter()
            .find(|(reason, _)| reason == "PutBack")
            .unwrap();
        assert!(message.contains("spec.runStrategy"), "{message}");
    });
}

#[test]
fn the_finalizer_that_somebody_takes_off_a_machine_is_put_back() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let off = json!({ "metadata": { "finalizers": null } });
        story.patch("Machine", "web", off).await;
        story
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["machine.vitistack.io/cleanup"])
            })
            .await;
    });
}

#[test]
fn a_finalizer_of_somebody_else_holds_a_machine_that_we_have_let_go() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let held = json!({ "metadata": { "finalizers": [
            "example.com/backup", "machine.vitistack.io/cleanup",
        ] } });
        story.patch("Machine", "web", held).await;
        story.delete("Machine", "web").await;
        let machine = story
            .until("Machine", "web", |machine| {
                machine["metadata"]["finalizers"] == json!(["example.com/backup"])
            })
            .await;
        assert!(machine["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(story.find("VirtualMachine", "web").await, None);
        story.wait(3).await;
        let free = json!({ "metadata": { "finalizers": null } });
        story.patch("Machine", "web", free).await;
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn an_instance_that_lost_its_virtual_machine_goes_with_the_machine() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let orphan = kube::api::DeleteParams {
            propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
            ..kube::api::DeleteParams::default()
        };
        story.delete_with("VirtualMachine", "web", orphan).await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachineInstance", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
    });
}
