//! The VirtualMachine, its instance and its Secret.

use std::time::Duration;

use api::labels;
use plan::machine::{Action, Object};
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::{BEFORE, NOW, World, has};

#[test]
fn the_finalizer_comes_before_everything_else() {
    let mut world = World::running();
    world.machine["metadata"]["finalizers"] = json!(["somebody.example/else"]);
    let first = |world: &World| world.plan().steps.first().map(|step| step.action.clone());
    assert_eq!(first(&world), Some(Action::AddFinalizer));
    world.vm = Value::Null;
    world.claims.clear();
    assert_eq!(first(&world), Some(Action::AddFinalizer));
}

#[test]
fn a_cloud_init_secret_that_is_deleted_or_edited_is_written_again() {
    let mut world = World::running();
    world.machine["spec"]["cloudInit"] = json!({ "userData": "#cloud-config\n" });
    let written = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let mut events = steps.filter_map(|step| match step.action {
            Action::WriteSecret(_) => Some(step.event.map(|event| event.reason)),
            _ => None,
        });
        events.next()
    };
    // The VirtualMachine records the digest of the data that was written.
    world.secret = Some(Value::Null);
    let digest = world.plan().steps.into_iter().find_map(|step| {
        let Action::WriteSecret(secret) = step.action else {
            return None;
        };
        secret
            .metadata
            .annotations?
            .get(labels::CLOUD_INIT)
            .cloned()
    });
    let digest = digest.unwrap();
    assert_eq!(written(&world), Some(None), "it is new");
    world.vm["spec"]["template"]["metadata"]["annotations"][labels::CLOUD_INIT] =
        digest.clone().into();
    assert_eq!(written(&world), Some(Some("DriftCorrected")));
    let mut metadata = json!({
        "annotations": { labels::CLOUD_INIT: digest },
        "managedFields": [{ "manager": labels::MANAGER, "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { "f:userdata": {} } } }],
    });
    world.secret = Some(metadata.clone());
    assert_eq!(written(&world), None, "it is as it was written");
    metadata["managedFields"][0]["manager"] = "kubectl-edit".into();
    world.secret = Some(metadata);
    assert_eq!(written(&world), Some(Some("DriftCorrected")));
}

/// An annotation of the VirtualMachine that the plan applies.
fn applied_annotation(world: &World, name: &str) -> Option<String> {
    let steps = world.plan().steps.into_iter();
    let mut applied = steps.filter_map(|step| match step.action {
        Action::Apply {
            object: Object::VirtualMachine(vm),
            ..
        } => Some(vm),
        _ => None,
    });
    let annotations = applied.next()?.metadata.annotations?;
    annotations.get(name).cloned()
}

#[test]
fn a_start_after_a_foreign_stop_records_the_instance_that_ends() {
    let mut world = World::running();
    world.adopt_written_vm();
    let recorded = |world: &World| applied_annotation(world, labels::HALTED_INSTANCE);
    assert_eq!(recorded(&world), None);
    world.vm["spec"]["runStrategy"] = "Halted".into();
    assert_eq!(recorded(&world).as_deref(), Some("uid-instance"));
    let annotations = &mut world.vm["metadata"]["annotations"];
    annotations[labels::STOPPED_INSTANCE] = "uid-instance".into();
    assert_eq!(recorded(&world), None, "the operator stopped it");
    // Another write keeps the record.
    let annotations = &mut world.vm["metadata"]["annotations"];
    annotations[labels::HALTED_INSTANCE] = "uid-instance".into();
    world.vm["spec"]["runStrategy"] = "Always".into();
    world.machine["spec"]["powerState"] = "Stopped".into();
    assert_eq!(recorded(&world).as_deref(), Some("uid-instance"));
}

#[test]
fn a_stop_records_the_instance_that_it_ends() {
    let mut world = World::running();
    let recorded = |world: &World| applied_annotation(world, labels::STOPPED_INSTANCE);
    assert_eq!(recorded(&world), None);
    world.machine["spec"]["powerState"] = "Stopped".into();
    let instance = world.instance["metadata"]["uid"]
        .as_str()
        .map(str::to_owned);
    assert_eq!(recorded(&world), instance);
    // The start right after it keeps the record, whatever the caches show by then.
    world.vm["metadata"]["annotations"][labels::STOPPED_INSTANCE] = instance.clone().into();
    world.vm["spec"]["runStrategy"] = "Halted".into();
    world.machine["spec"]["powerState"] = "Running".into();
    assert_eq!(recorded(&world), instance);
    world.instance = Value::Null;
    assert_eq!(recorded(&world), instance);
    // So does another write while it is stopped.
    world.machine["spec"]["powerState"] = "Stopped".into();
    world.instance = World::running().instance;
    world.instance["metadata"]["uid"] = "uid-other".into();
    assert_eq!(recorded(&world), instance);
}

#[test]
fn nothing_is_created_or_changed_while_kubevirt_is_being_removed() {
    let mut world = World::running();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    assert!(has(&world.plan(), |action| matches!(
        action,
        Action::Create(_)
    )));
    world.installed.kubevirt_is_removed = true;
    assert_eq!(world.plan().steps, []);
    world.claims.clear();
    assert_eq!(world.plan().steps, []);
}

#[test]
fn an_instance_that_never_started_is_replaced_when_its_size_changes() {
    let mut world = World::running();
    world.instance["metadata"]["resourceVersion"] = "9".into();
    world.instance["spec"] = json!({ "domain": { "cpu": { "cores": 64 } } });
    world.instance["status"] = json!({ "phase": "Scheduling" });
    assert_eq!(world.deleted(), ["VirtualMachineInstance web"]);
    // It may have started since.
    let version = Some("9".to_owned());
    assert!(has(&world.plan(), |action| matches!(
        action,
        Action::Delete { resource_version, .. } if *resource_version == version
    )));
    // A very young instance is given time.
    world.instance["metadata"]["creationTimestamp"] = NOW.into();
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.plan().requeue_after, Some(Duration::from_secs(5)));
    world.instance["metadata"]["creationTimestamp"] = BEFORE.into();
    world.instance["status"] = json!({ "phase": "Running", "nodeName": "node-1" });
    assert_eq!(world.deleted(), [""; 0], "its guest runs");
}

#[test]
fn an_instance_that_is_as_desired_or_ends_anyway_is_not_replaced() {
    let mut world = World::running();
    world.adopt_written_vm();
    world.instance["status"] = json!({ "phase": "Scheduling" });
    let mut domain = world.vm["spec"]["template"]["spec"]["domain"].clone();
    domain["devices"] = json!({});
    world.instance["spec"] = json!({ "domain": domain });
    assert_eq!(world.deleted(), [""; 0], "only devices differ");
    world.instance["spec"]["domain"]["cpu"]["cores"] = 64.into();
    assert_eq!(world.deleted(), ["VirtualMachineInstance web"]);
    world.instance["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(world.deleted(), [""; 0]);
}

#[rstest]
#[case::waits_for_a_node("Scheduling", false, true)]
#[case::was_compared("Scheduling", true, false)]
#[case::runs("Running", false, false)]
fn the_secret_of_a_starting_guest_is_written_unless_it_was_compared(
    #[case] phase: &str,
    #[case] is_verified: bool,
    #[case] is_written: bool,
) {
    let mut world = World::running();
    world.machine["spec"]["cloudInit"] = json!({ "userData": "#cloud-config\n" });
    world.adopt_written_vm();
    world.instance["status"]["phase"] = phase.into();
    world.secret_is_verified = is_verified;
    let writes = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::WriteSecret(_))
        })
    };
    assert_eq!(writes(&world), is_written);
    world.instance["metadata"]["deletionTimestamp"] = NOW.into();
    assert!(!writes(&world), "its guest does not start");
}

#[test]
fn the_access_mode_of_a_claim_counts_for_the_virtual_machine() {
    let mut world = World::running();
    let disks = json!([
        { "name": "data", "size": "1Gi", "accessMode": "ReadWriteMany" },
        { "name": "root", "size": "20Gi", "accessMode": "ReadWriteMany" },
    ]);
    world.machine["spec"]["disks"] = disks;
    let strategy = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let mut applied = steps.filter_map(|step| match step.action {
            Action::Apply { object, .. } | Action::Create(object) => Some(object),
            _ => None,
        });
        let vm = applied.find(|object| matches!(object, Object::VirtualMachine(_)));
        json!(vm)["spec"]["template"]["spec"]["evictionStrategy"].clone()
    };
    let restricted = strategy(&world);
    for claim in &mut world.claims {
        claim["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    }
    let migratable = strategy(&world);
    for claim in &mut world.claims {
        claim["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteMany"]);
    }
    assert_eq!(strategy(&world), migratable);
    assert_ne!(restricted, migratable, "{migratable}");
}

#[test]
fn cloud_init_data_that_moves_from_one_part_to_another_has_another_digest() {
    let digest = |user_data: &str, network_data: &str| {
        let mut world = World::running();
        let cloud_init = json!({ "userData": user_data, "networkData": network_data });
        world.machine["spec"]["cloudInit"] = cloud_init;
        world.secret = Some(Value::Null);
        let secret = world
            .plan()
            .steps
            .into_iter()
            .find_map(|step| match step.action {
                Action::WriteSecret(secret) => Some(json!(secret)),
                _ => None,
            });
        secret.unwrap()["metadata"]["annotations"][labels::CLOUD_INIT].clone()
    };
    assert_eq!(digest("a", "bc"), digest("a", "bc"));
    assert_ne!(digest("a", "bc"), digest("ab", "c"));
}

/// The VirtualMachine that the plan writes.
fn written(world: &World) -> Option<Value> {
    let mut steps = world.plan().steps.into_iter();
    steps.find_map(|step| match step.action {
        Action::Apply { object, .. } => {
            Some(json!(object)).filter(|it| it["kind"] == "VirtualMachine")
        }
        _ => None,
    })
}

#[test]
fn a_virtual_machine_of_an_earlier_release_is_labelled_with_its_next_change() {
    let mut world = World::running();
    let vm = written(&world).unwrap();
    let (mut metadata, mut spec) = (vm["metadata"].clone(), vm["spec"].clone());
    let without = |entries: &mut Value, name: &str| entries.as_object_mut().unwrap().remove(name);
    without(&mut metadata["labels"], labels::SOURCE_MACHINE).unwrap();
    let template = &mut spec["template"]["metadata"]["labels"];
    without(template, labels::SOURCE_MACHINE).unwrap();
    without(&mut metadata["annotations"], labels::APPLIED).unwrap();
    let body = json!({
        "annotations": metadata["annotations"], "labels": metadata["labels"], "spec": spec,
    });
    let body = body.to_string();
    let mut hash = Sha256::new();
    hash.update(body.len().to_le_bytes());
    hash.update(body.as_bytes());
    let digest = hash.finalize();
    let digest: Vec<_> = digest[..16].iter().map(|it| format!("{it:02x}")).collect();
    let digest = digest.concat();
    metadata["annotations"][labels::APPLIED] = digest.into();
    for field in ["annotations", "labels"] {
        world.vm["metadata"][field] = metadata[field].clone();
    }
    world.vm["spec"] = spec;
    assert_eq!(written(&world), None, "an upgrade changes nothing");
    world.machine["spec"]["memory"] = "3Gi".into();
    let vm = written(&world).unwrap();
    let label = &vm["metadata"]["labels"][labels::SOURCE_MACHINE];
    assert_eq!(label, "web");
}
