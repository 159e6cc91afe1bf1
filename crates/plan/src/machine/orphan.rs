//! Orphaned disks.
//!
//! Disks have no owner reference, so that no garbage collector deletes them. They outlive a Machine whose
//! finalizer was removed by hand, or that was deleted together with its definition. They are reported and
//! never deleted, because someone may still need them.

use api::{ObjectMeta, OwnerReference, labels};

use super::{Kind, plan::is_retained};
use crate::{Event, naming};

/// Whether a claim or DataVolume belongs to a Machine that no longer exists. `machine` is the one that the
/// disk's label names, if it exists; another UID is another Machine. A disk without a recorded UID belongs
/// to the Machine of that name.
pub fn is_orphaned(disk: &ObjectMeta, machine: Option<&ObjectMeta>) -> bool {
    let label = |name| disk.labels.as_ref().and_then(|all| all.get(name));
    let is_managed = label(labels::MANAGED_BY).is_some_and(|value| value == labels::MANAGER)
        && label(labels::MACHINE).is_some();
    if !is_managed || is_retained(disk) || disk.deletion_timestamp.is_some() || has_owner(disk) {
        return false;
    }
    match (machine, made_for(disk)) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(machine), Some(uid)) => machine.uid.as_deref() != Some(uid),
    }
}

/// The Event about an orphaned disk.
pub fn orphan_event(kind: Kind, disk: &ObjectMeta) -> Event {
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    let machine = disk
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::MACHINE));
    let (machine, name) = (text(machine), text(disk.name.as_ref()));
    let namespace = text(disk.namespace.as_ref());
    let follows_data_volume = controller(disk).is_some_and(|owner| owner.kind == "DataVolume");
    let prefix = naming::claim(&machine, "");
    let disk = name.strip_prefix(&prefix).unwrap_or(&name);
    let resource = |kind: Kind| kind.as_str().to_ascii_lowercase();
    let message = format!(
        "Machine {machine}, which {} {name} was created for, no longer exists, and nothing deletes its disk. \
         To use it again, recreate Machine {machine} with disk {disk} and the annotation {}=true; \
         to keep it without this report: kubectl -n {namespace} label {} {name} {}=true; to delete \
         it, once no VirtualMachine uses it: kubectl -n {namespace} delete {} {name}",
        kind.as_str(),
        labels::ADOPT_DISKS,
        resource(kind),
        labels::RETAINED,
        // CDI would create the claim of a DataVolume again.
        resource(if follows_data_volume {
            Kind::DataVolume
        } else {
            kind
        }),
    );
    Event::warning("DiskOrphaned", message)
}

/// UID of the Machine that a disk belongs to: recorded, or from the owner reference that earlier versions
/// set.
fn made_for(disk: &ObjectMeta) -> Option<&str> {
    let annotations = disk.annotations.as_ref();
    let recorded = annotations.and_then(|all| all.get(labels::MACHINE_UID));
    let mut owners = disk.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "Machine");
    recorded
        .or(owner.map(|owner| &owner.uid))
        .map(String::as_str)
}

/// Whether a disk has a controller that is neither CDI nor a Machine.
fn has_owner(disk: &ObjectMeta) -> bool {
    controller(disk).is_some_and(|owner| !["DataVolume", "Machine"].contains(&owner.kind.as_str()))
}

fn controller(disk: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = disk.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "cases read best as plain json! values"
    )]

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn disk(changes: Value) -> ObjectMeta {
        let mut disk = json!({
            "name": "web-root", "namespace": "shop",
            "labels": {labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web"},
            "annotations": {labels::MACHINE_UID: "m1"},
        });
        for (name, value) in changes.as_object().unwrap() {
            match (disk.get_mut(name), value) {
                (Some(Value::Object(found)), Value::Object(value)) => found.extend(value.clone()),
                _ => disk[name] = value.clone(),
            }
        }
        serde_json::from_value(disk).unwrap()
    }

    fn machine(uid: &str) -> ObjectMeta {
        serde_json::from_value(json!({"name": "web", "namespace": "shop", "uid": uid})).unwrap()
    }

    fn owned_by(kind: &str, uid: &str) -> Value {
        let owner = json!({
            "apiVersion": "x", "kind": kind, "name": "web", "uid": uid, "controller": true,
        });
        json!({"ownerReferences": [owner], "annotations": null})
    }

    #[rstest]
    #[case::recorded(json!({}), true)]
    #[case::not_recorded(json!({"annotations": null}), true)]
    #[case::of_an_earlier_version(owned_by("Machine", "m1"), true)]
    #[case::of_cdi(owned_by("DataVolume", "d1"), true)]
    #[case::of_another_client(owned_by("VirtualMachine", "v1"), false)]
    #[case::retained(json!({"labels": {labels::RETAINED: "true"}}), false)]
    #[case::being_deleted(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), false)]
    #[case::of_another_operator(json!({"labels": {labels::MANAGED_BY: "somebody"}}), false)]
    #[case::without_labels(json!({"labels": null}), false)]
    fn a_disk_without_its_machine(#[case] changes: Value, #[case] expected: bool) {
        let disk = disk(changes);
        assert_eq!(is_orphaned(&disk, None), expected);
        assert!(!is_orphaned(&disk, Some(&machine("m1"))));
    }

    #[rstest]
    #[case::recorded(json!({}), true)]
    #[case::of_an_earlier_version(owned_by("Machine", "m1"), true)]
    #[case::not_recorded(json!({"annotations": null}), false)]
    fn a_recreated_machine_is_another_machine(#[case] changes: Value, #[case] expected: bool) {
        assert_eq!(is_orphaned(&disk(changes), Some(&machine("m2"))), expected);
    }

    #[test]
    fn the_event_names_the_disk_and_every_remedy() {
        let event = orphan_event(Kind::PersistentVolumeClaim, &disk(json!({})));
        for text in [
            "Machine web, which PersistentVolumeClaim web-root was created for, no longer exists",
            "recreate Machine web with disk root and the annotation vitistack.io/adopt-disks=true",
            "kubectl -n shop label persistentvolumeclaim web-root vitistack.io/retained=true",
            "kubectl -n shop delete persistentvolumeclaim web-root",
        ] {
            assert!(event.message.contains(text), "{}", event.message);
        }
        let of_cdi = disk(owned_by("DataVolume", "d1"));
        let event = orphan_event(Kind::PersistentVolumeClaim, &of_cdi);
        assert!(
            event.message.ends_with("delete datavolume web-root"),
            "{}",
            event.message
        );
    }
}
