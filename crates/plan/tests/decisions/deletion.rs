//! Deletion of a Machine.

use std::time::Duration;

use api::labels;
use plan::machine::{Action, Age, Kind};
use serde_json::{Value, json};

use crate::world::{NOW, World, has, owned};

#[test]
fn the_disks_of_a_deleted_machine_go_before_its_finalizer() {
    let world = World::ending();
    let claims = [
        "PersistentVolumeClaim web-data",
        "PersistentVolumeClaim web-root",
    ];
    assert_eq!(world.deleted(), claims);
    let plan = world.plan();
    let last = plan.steps.last().map(|step| &step.action);
    assert_eq!(last, Some(&Action::RemoveFinalizer));
}

#[test]
fn a_protected_machine_keeps_everything_and_reports_it() {
    let mut world = World::running();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world.machine["spec"]["deletionProtection"] = true.into();
    world.machine["spec"]["powerState"] = "Stopped".into();
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    let conditions = plan.status.conditions.unwrap();
    let blocked = conditions.iter().find(|it| it.type_ == "DeletionBlocked");
    assert_eq!(blocked.unwrap().reason, "DeletionProtection");
    assert_eq!(plan.status.observed_generation, None, "nothing is written");
    assert_eq!(
        plan.events
            .iter()
            .filter(|it| it.reason == "DeletionBlocked")
            .count(),
        1
    );

    world.vm = Value::Null;
    world.instance = Value::Null;
    let plan = world.plan();
    assert_eq!(plan.steps, [], "nothing is recreated either");
    let message = &plan.obstacles[0].message;
    assert!(message.contains("is not recreated"), "{message}");

    world.machine["spec"]["deletionProtection"] = false.into();
    world.age = Some(Age::Fresh);
    assert_eq!(world.deleted().len(), 2);
}

#[test]
fn a_disk_is_deleted_as_it_was_observed() {
    for step in World::ending().plan().steps {
        if let Action::Delete {
            uid,
            name,
            resource_version,
            ..
        } = step.action
        {
            assert_eq!(uid, format!("uid-{name}"));
            assert_eq!(resource_version.as_deref(), Some("7"));
        }
    }
}

#[test]
fn a_disk_in_use_keeps_the_finalizer() {
    let mut world = World::ending();
    world.users = vec!["web-root"];
    let plan = world.plan();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    assert!(!has(&plan, |action| *action == Action::RemoveFinalizer));
    let message = &plan.obstacles[0].message;
    assert!(message.contains("VirtualMachine rescue"), "{message}");
}

#[test]
fn without_a_fresh_read_no_disk_is_deleted() {
    let retry_after = Duration::from_secs(10);
    for age in [None, Some(Age::Stale { retry_after })] {
        let mut world = World::ending();
        world.age = age;
        let plan = world.plan();
        let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
        assert_eq!(actions, [&Action::ObserveReferences], "{age:?}");
        world.users = vec!["web-root"];
        if age.is_some() {
            assert_eq!(world.plan().steps, [], "it is not time to read again");
            assert_eq!(world.plan().requeue_after, Some(retry_after));
        }
    }
}

#[test]
fn the_policy_retain_keeps_all_disks() {
    let mut world = World::ending();
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-root"]);
    let removed = &mut world.claims[0]["metadata"]["annotations"];
    removed[labels::DELETE_WHEN_DETACHED] = "true".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    assert_eq!(world.retained(), ["web-root"]);
}

#[test]
fn a_disk_that_was_removed_before_the_machine_was_deleted_is_kept() {
    let mut world = World::ending();
    world.machine["spec"]["disks"] = Value::Null;
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-root"]);
    assert_eq!(world.retained(), ["web-data"]);
    let recorded = &mut world.claims[0]["metadata"]["annotations"];
    recorded[labels::DELETE_WHEN_DETACHED] = "true".into();
    assert_eq!(world.retained(), [""; 0]);
    assert_eq!(world.deleted().len(), 2);
}

#[test]
fn a_disk_that_is_kept_on_purpose_outlives_its_machine() {
    let mut world = World::ending();
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-root"]);
    assert_eq!(world.retained(), [""; 0], "it is labelled already");
}

#[test]
fn a_virtual_machine_without_its_labels_is_labelled_before_disks_are_deleted() {
    let mut world = World::ending();
    world.hidden_vm = json!({ "metadata": owned("web"), "spec": {} });
    world.hidden_vm["metadata"]["labels"] = Value::Null;
    let plan = world.plan();
    let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
    let [Action::ChangeMetadata { kind, change, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(*kind, Kind::VirtualMachine);
    let managed_by = change.labels.get(labels::MANAGED_BY);
    assert_eq!(managed_by, Some(&Some(labels::MANAGER.to_owned())));
    // One of another Machine does not matter.
    world.hidden_vm["metadata"] = json!({ "name": "web", "uid": "uid-other" });
    assert_eq!(world.deleted().len(), 2);
}

#[test]
fn an_uncached_recorded_claim_is_read_before_the_finalizer_is_removed() {
    let mut world = World::ending();
    let recorded = |disk: &str| json!({ "name": disk, "pvcName": format!("web-{disk}"), "uuid": format!("uid-web-{disk}") });
    world.machine["status"] = json!({ "disks": [recorded("root"), recorded("data")] });
    assert_eq!(world.deleted().len(), 2, "the cache has them");
    let data = world.claims.remove(0);
    let steps = world.plan().steps;
    let [step] = steps.as_slice() else {
        panic!("{steps:#?}");
    };
    let Action::RecoverClaim { name, uid, change } = &step.action else {
        panic!("{step:#?}");
    };
    assert_eq!((name.as_str(), uid.as_str()), ("web-data", "uid-web-data"));
    let machine = Some("web".to_owned());
    assert_eq!(change.labels.get(labels::MACHINE), Some(&machine));
    // "Not found" is not read again.
    world.claims.push(data);
    world.claims.remove(0);
    world.lost = vec!["uid-web-root"];
    assert_eq!(world.deleted().len(), 1);
}

#[test]
fn a_disk_with_an_unanswered_create_is_read_before_the_finalizer_is_removed() {
    let claim = Kind::PersistentVolumeClaim;
    let mut world = World::ending();
    world.unconfirmed = vec![(claim, "web-data"), (claim, "web-root")];
    assert_eq!(world.deleted().len(), 2, "the cache has them by now");
    world.claims.remove(0);
    world.age = None;
    let steps = world.plan().steps;
    let actions: Vec<_> = steps.into_iter().map(|step| step.action).collect();
    let name = "web-data".to_owned();
    assert_eq!(actions, [Action::ObserveDisk { kind: claim, name }]);
}

#[test]
fn a_disk_of_an_earlier_machine_is_neither_deleted_nor_marked() {
    let mut world = World::ending();
    world.claims[1]["metadata"]["annotations"][labels::MACHINE_UID] = "uid-earlier".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.retained(), ["web-data"]);
}

#[test]
fn a_deletion_that_orphans_deletes_nothing() {
    let mut world = World::running();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    let finalizers = json!(["orphan", labels::FINALIZER]);
    world.machine["metadata"]["finalizers"] = finalizers;
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-root"]);
    // The garbage collector was faster.
    world.machine["metadata"]["finalizers"] = json!([labels::FINALIZER]);
    world.vm["metadata"]["ownerReferences"] = Value::Null;
    assert_eq!(world.deleted(), [""; 0]);
    world.vm["metadata"] = owned("web");
    assert_eq!(world.deleted(), ["VirtualMachine web"]);
}

#[test]
fn a_deletion_that_was_observed_to_orphan_lets_go_of_the_virtual_machine() {
    let mut world = World::running();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world.is_orphaned = true;
    assert_eq!(world.deleted(), [""; 0]);
    let releases = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::ChangeMetadata { kind: Kind::VirtualMachine, change, .. }
                if change.owners.as_ref().is_some_and(|(owners, _)| owners.is_empty()))
        })
    };
    assert!(releases(&world));
    // While its finalizer is there, the garbage collector removes the owner.
    let finalizers = json!(["orphan", labels::FINALIZER]);
    world.machine["metadata"]["finalizers"] = finalizers;
    assert!(!releases(&world));
    let last = world.plan().steps.pop().map(|step| step.action);
    assert_eq!(last, Some(Action::RemoveFinalizer));
}

#[test]
fn a_machine_without_our_finalizer_is_left_to_the_others() {
    let mut world = World::ending();
    world.machine["metadata"]["finalizers"] = json!(["somebody.example/else"]);
    assert_eq!(world.plan().steps, []);
    assert!(world.plan().obstacles.is_empty());
    // The Go operator may not run any more: its finalizer is named.
    world.machine["metadata"]["finalizers"] = json!([labels::FORMER_FINALIZER]);
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    assert!(plan.obstacles[0].message.contains(labels::FORMER_FINALIZER));
}

#[test]
fn an_instance_without_its_virtual_machine_is_deleted_before_disks() {
    let mut world = World::ending();
    world.instance = World::running().instance;
    world.instance["metadata"]["resourceVersion"] = "9".into();
    assert_eq!(world.deleted(), ["VirtualMachineInstance web"]);
    let plan = world.plan();
    assert!(!has(&plan, |action| *action == Action::RemoveFinalizer));
    assert_eq!(versions(&world), [None], "an instance changes all the time");
    // A foreign VirtualMachine's instance is not deleted.
    world.hidden_vm = json!({ "metadata": { "name": "other", "uid": "uid-web" }, "spec": {} });
    assert_eq!(world.deleted().len(), 2, "only disks");
    world.hidden_vm = Value::Null;
    // A terminating one is waited for.
    world.instance["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(world.plan().steps, []);
    assert!(!world.plan().obstacles.is_empty());
    // One without the label is not known to belong to the Machine.
    world.instance = World::running().instance;
    world.instance["metadata"]["labels"] = json!({ labels::MANAGED_BY: labels::MANAGER });
    assert_eq!(world.deleted().len(), 2, "only disks");
}

#[test]
fn a_disk_in_use_is_read_again_when_that_is_due() {
    let mut world = World::ending();
    let retry_after = Duration::ZERO;
    world.age = Some(Age::Stale { retry_after });
    world.users = vec!["web-root"];
    let steps = world.plan().steps;
    let actions: Vec<_> = steps.into_iter().map(|step| step.action).collect();
    assert_eq!(actions, [Action::ObserveReferences]);
}

#[test]
fn the_virtual_machine_is_deleted_before_its_disks() {
    let mut world = World::running();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world.age = Some(Age::Fresh);
    assert_eq!(world.deleted(), ["VirtualMachine web"]);
    let waits = world.plan().obstacles.len();
    assert_eq!(waits, 2, "for it and its instance");
    assert_eq!(versions(&world), [Some("7".to_owned())]);
    let owner = &mut world.instance["metadata"]["ownerReferences"][0]["uid"];
    *owner = "uid-other".into();
    assert_eq!(world.plan().obstacles.len(), 1, "the instance is another's");
    world.vm["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(world.plan().steps, [], "it is on its way out");
    // A foreign one is kept, and keeps what it uses.
    world.vm["metadata"] = json!({ "name": "web", "uid": "uid-other", "labels": {} });
    assert_eq!(world.deleted(), [""; 0]);
}

/// The resourceVersions that deletes require.
fn versions(world: &World) -> Vec<Option<String>> {
    let steps = world.plan().steps.into_iter();
    steps
        .filter_map(|step| match step.action {
            Action::Delete {
                resource_version, ..
            } => Some(resource_version),
            _ => None,
        })
        .collect()
}
