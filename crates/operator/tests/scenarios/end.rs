//! How Machines go.

use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    ground::{Need, tell, tell_alone, tell_with_controllers},
    line::Fault,
    story::{Story, condition},
};

const CLAIM: &str = "PersistentVolumeClaim";

fn with_everything() -> Value {
    json!({
        "template": "small",
        "disks": [{ "name": "data", "size": "1Gi", "source": { "blank": {} } }],
        "cloudInit": { "userData": "#!/bin/sh" },
    })
}

async fn assert_nothing_is_left(story: &Story) {
    for kind in [
        "Machine",
        "VirtualMachine",
        "VirtualMachineInstance",
        "PersistentVolumeClaim",
        "DataVolume",
    ] {
        for object in story.list(kind).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            // What is owned goes with its owner, in its own time.
            story.until_gone(kind, name).await;
        }
    }
    let secrets = story.list("Secret").await;
    let ours = |secret: &&Value| !secret["metadata"]["labels"]["vitistack.io/machine"].is_null();
    assert_eq!(secrets.iter().filter(ours).count(), 0);
}

#[test]
fn a_deleted_machine_stops_before_its_disks_go_and_leaves_nothing_behind() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        let kinds = [
            "Machine",
            "VirtualMachine",
            "VirtualMachineInstance",
            "PersistentVolumeClaim",
            "DataVolume",
        ];
        let record = story.record(&kinds).await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
        story.wait(1).await;

        let stopped = record
            .end_of("VirtualMachine", "web")
            .max(record.end_of("VirtualMachineInstance", "web"));
        let changes = record.changes();
        let first = changes.iter().position(|change| {
            matches!(change.kind, "PersistentVolumeClaim" | "DataVolume")
                && (change.is_deletion
                    || change.object["metadata"]["deletionTimestamp"].is_string())
        });
        assert!(stopped < first.unwrap());
        assert_eq!(story.find("VirtualMachineInstance", "web").await, None);
    });
}

#[test]
fn a_machine_that_is_being_deleted_tells_what_it_waits_for() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.delete("Machine", "web").await;
        let machine = story.until_reason("web", "Deleting").await;
        assert_eq!(machine["status"]["phase"], "Running");
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("waiting for"), "{message}");
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn the_disks_of_a_machine_that_retains_them_stay_without_an_owner() {
    tell(async {
        let story = Story::begin().await;
        let mut spec = with_everything();
        spec["deletionPolicy"] = "Retain".into();
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.wait(5).await;
        for (kind, name) in [
            ("PersistentVolumeClaim", "web-root"),
            ("PersistentVolumeClaim", "web-data"),
            ("DataVolume", "web-data"),
        ] {
            let disk = story.get(kind, name).await;
            let owners = disk["metadata"]["ownerReferences"].as_array();
            let by_machines = owners
                .into_iter()
                .flatten()
                .filter(|owner| owner["kind"] == "Machine");
            assert_eq!(by_machines.count(), 0, "{kind} {name}");
            assert!(disk["metadata"]["deletionTimestamp"].is_null());
        }
        let secrets = story.list("Secret").await;
        let ours =
            |secret: &&Value| !secret["metadata"]["labels"]["vitistack.io/machine"].is_null();
        assert_eq!(secrets.iter().filter(ours).count(), 0);
    });
}

#[test]
fn disks_outlive_a_machine_that_was_told_to_retain_them_at_last() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        let retain = json!({ "spec": { "deletionPolicy": "Retain" } });
        story.patch("Machine", "web", retain).await;
        for (kind, name) in [
            ("PersistentVolumeClaim", "web-root"),
            ("DataVolume", "web-data"),
        ] {
            story
                .until(kind, name, |disk| {
                    disk["metadata"]["ownerReferences"].is_null()
                })
                .await;
        }
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.wait(5).await;
        story.get("PersistentVolumeClaim", "web-root").await;
        story.get("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_foreground_deletion_spares_disks_that_are_retained() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        let mut spec = with_everything();
        spec["deletionPolicy"] = "Retain".into();
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        story
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        story.until_gone("Machine", "web").await;
        story.until_gone("VirtualMachine", "web").await;
        story.wait(5).await;
        story.get("PersistentVolumeClaim", "web-root").await;
        story.get("PersistentVolumeClaim", "web-data").await;
    });
}

#[test]
fn a_foreground_deletion_ends_and_leaves_nothing_behind() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        story
            .delete_with("Machine", "web", DeleteParams::foreground())
            .await;
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
    });
}

#[test]
fn a_virtual_machine_that_is_deleted_by_hand_is_made_anew_with_the_same_disks() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        let vm = story.get("VirtualMachine", "web").await;
        let disk = story.get("PersistentVolumeClaim", "web-root").await;
        story.delete("VirtualMachine", "web").await;
        story
            .until("VirtualMachine", "web", |found| {
                found["metadata"]["uid"] != vm["metadata"]["uid"]
                    && found["status"]["printableStatus"] == "Running"
            })
            .await;
        let machine = story.until_phase("web", "Running").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        let same = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        assert!(same["metadata"]["deletionTimestamp"].is_null());
    });
}

#[test]
fn a_virtual_machine_that_is_deleted_by_hand_does_not_hold_up_the_deletion() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.delete("VirtualMachine", "web").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
    });
}

#[test]
fn a_machine_that_never_resolved_can_be_deleted() {
    tell(async {
        let story = Story::begin().await;
        story
            .machine("web", json!({ "template": "gigantic" }))
            .await;
        story.until_reason("web", "TemplateNotFound").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn a_machine_whose_spec_broke_since_can_be_deleted() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let broken = json!({ "spec": { "template": "gigantic" } });
        story.patch("Machine", "web", broken).await;
        let machine = story.until_reason("web", "TemplateNotFound").await;
        assert_eq!(machine["status"]["phase"], "Running");
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
    });
}

#[test]
fn a_machine_that_is_deleted_while_it_is_created_leaves_nothing_behind() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Creating").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
    });
}

#[test]
fn a_disk_whose_create_got_no_answer_goes_with_its_machine() {
    tell(async {
        let story = Story::begin().await;
        story.line.fail(|method, path| {
            let is_claim = method == Method::POST && path.ends_with("/persistentvolumeclaims");
            is_claim.then_some(Fault::AnswerLost)
        });
        story.line.fail_watches_of("persistentvolumeclaims");
        story.machine("web", json!({ "template": "small" })).await;
        let claim = "PersistentVolumeClaim";
        story.until(claim, "web-root", |_| true).await;
        story.delete("Machine", "web").await;
        story.until_called("get", "persistentvolumeclaims").await;
        // What others change of it afterwards only a watch shows.
        story.line.mend();
        story.until_gone("Machine", "web").await;
        story.until_gone(claim, "web-root").await;
    });
}

/// Deletes a Machine whose claim lost its labels while no operator ran.
async fn delete_without_labels(spec: Value) -> Story {
    let mut story = Story::begin().await;
    story.machine("web", spec).await;
    story.until_phase("web", "Running").await;
    story
        .until("Machine", "web", |machine| {
            machine["status"]["disks"][0]["uuid"].is_string()
        })
        .await;
    story.stop_operator().await;
    let claim = story.get(CLAIM, "web-root").await;
    let labels = claim["metadata"]["labels"].as_object().unwrap();
    let none: serde_json::Map<String, Value> = labels
        .keys()
        .map(|label| (label.clone(), Value::Null))
        .collect();
    story
        .patch(CLAIM, "web-root", json!({ "metadata": { "labels": none } }))
        .await;
    story.delete("Machine", "web").await;
    story.start_operator();
    story.until_gone("Machine", "web").await;
    story
}

#[test]
fn a_claim_that_lost_its_labels_goes_with_its_machine() {
    tell(async {
        let story = delete_without_labels(json!({ "template": "small" })).await;
        story.until_gone(CLAIM, "web-root").await;
    });
}

#[test]
fn a_claim_that_lost_its_labels_is_kept_if_disks_are_retained() {
    tell(async {
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        let story = delete_without_labels(spec).await;
        story.wait(5).await;
        let claim = story.get(CLAIM, "web-root").await;
        assert!(claim["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(
            claim["metadata"]["labels"]["vitistack.io/retained"], "true",
            "{claim:#}"
        );
    });
}

#[test]
fn a_machine_goes_with_its_namespace() {
    tell_with_controllers(async {
        let mut story = Story::without_operator().await;
        if story.namespace == "default" {
            story.namespace = "short-lived".to_owned();
            let namespace = json!({ "metadata": { "name": "short-lived" } });
            story.create("Namespace", namespace).await;
        }
        story.start_operator();
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        let namespace = story.namespace.clone();
        story.delete("Namespace", &namespace).await;
        story.until_gone("Namespace", &namespace).await;
    });
}

#[test]
fn machines_go_when_all_our_definitions_are_deleted_at_once() {
    tell_alone(&[Need::Controllers], async {
        let story = Story::begin().await;
        let network = json!({ "metadata": { "name": "lan" }, "spec": { "bridge": "br0" } });
        story.create("NetworkConfiguration", network).await;
        let mut spec = with_everything();
        spec["networks"] = json!([{ "name": "lan", "networkName": "lan" }]);
        story.machine("web", spec).await;
        story.machine("db", json!({ "template": "small" })).await;
        for name in ["web", "db"] {
            story.until_phase(name, "Running").await;
        }
        let definitions = [
            "machineclasses.vitistack.io",
            "networkconfigurations.vitistack.io",
            "machines.vitistack.io",
        ];
        for name in definitions {
            story.delete("CustomResourceDefinition", name).await;
        }
        for name in definitions {
            story.until_gone("CustomResourceDefinition", name).await;
        }
        for kind in [
            "VirtualMachine",
            "PersistentVolumeClaim",
            "DataVolume",
            "NetworkAttachmentDefinition",
        ] {
            for object in story.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap();
                story.until_gone(kind, name).await;
            }
        }
    });
}

#[test]
fn a_machine_can_be_deleted_when_kubevirt_is_gone() {
    tell_alone(&[Need::Controllers, Need::CurrentApis], async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        for name in [
            "virtualmachines.kubevirt.io",
            "virtualmachineinstances.kubevirt.io",
        ] {
            // What KubeVirt holds by finalizers would never go with it.
            let kind = if name.contains("instances") {
                "VirtualMachineInstance"
            } else {
                "VirtualMachine"
            };
            story.delete("CustomResourceDefinition", name).await;
            let free = json!({ "metadata": { "finalizers": null } });
            if story.find(kind, "web").await.is_some() {
                story.patch(kind, "web", free).await;
            }
            story.until_gone("CustomResourceDefinition", name).await;
        }
        let machine = story.until_reason("web", "KubeVirtApiError").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("not installed"), "{message}");
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("PersistentVolumeClaim", "web-root").await;
    });
}

#[test]
fn a_machine_that_is_deleted_while_the_operator_is_down_goes_when_it_is_back() {
    tell_with_controllers(async {
        let mut story = Story::begin().await;
        story.machine("web", with_everything()).await;
        story.until_phase("web", "Running").await;
        story.stop_operator().await;
        story.delete("Machine", "web").await;
        story.wait(5).await;
        story.get("VirtualMachine", "web").await;
        story.start_operator();
        story.until_gone("Machine", "web").await;
        assert_nothing_is_left(&story).await;
    });
}

#[test]
fn an_operator_that_dies_during_a_deletion_is_taken_over_by_the_next() {
    for writes in 1..=6 {
        tell_with_controllers(async move {
            let mut story = Story::begin().await;
            story.machine("web", with_everything()).await;
            story.until_phase("web", "Running").await;
            story.wait(2).await;
            story.line.die_after(writes);
            story.delete("Machine", "web").await;
            story.until_writes(writes).await;
            story.kill_operator().await;
            story.line.mend();
            story.start_operator();
            story.until_gone("Machine", "web").await;
            assert_nothing_is_left(&story).await;
        });
    }
}

#[test]
fn disks_that_were_left_behind_are_taken_by_a_namesake_only_if_it_asks() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        story.machine("web", spec.clone()).await;
        story.until_phase("web", "Running").await;
        let disk = story.get("PersistentVolumeClaim", "web-root").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;

        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "ForeignObject");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains("web-root"), "{message}");
        assert!(message.contains("vitistack.io/adopt-disks"), "{message}");
        assert_eq!(story.find("VirtualMachine", "web").await, None);

        let ask = json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        story.patch("Machine", "web", ask).await;
        story.until_phase("web", "Running").await;
        let same = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
    });
}

/// As somebody restores them who forgets a label.
#[test]
fn a_restored_disk_without_its_labels_says_what_it_needs() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "deletionPolicy": "Retain" });
        story.machine("web", spec.clone()).await;
        story.until_phase("web", "Running").await;
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        let label = |value: Value| json!({ "metadata": { "labels": { "vitistack.io/managed-by": value } } });
        story
            .patch("PersistentVolumeClaim", "web-root", label(Value::Null))
            .await;

        story.machine("web", spec).await;
        let ask = json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        story.patch("Machine", "web", ask).await;
        let machine = story.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(
            ready["message"],
            "PersistentVolumeClaim \"web-root\" exists and does not belong to this Machine: to have it taken over, label it vitistack.io/machine=web and vitistack.io/managed-by=kubevirt-operator, and annotate the Machine with vitistack.io/adopt-disks: \"true\"; if it is another's, rename one of them"
        );

        let restored = label("kubevirt-operator".into());
        story
            .patch("PersistentVolumeClaim", "web-root", restored)
            .await;
        story.until_phase("web", "Running").await;
    });
}
