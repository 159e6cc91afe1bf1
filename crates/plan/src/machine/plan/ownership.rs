//! Which objects are a Machine's own.

use api::{Machine, ObjectMeta, OwnerReference, labels};

use crate::{
    machine::{Action, Kind, MetadataChange, Step},
    managed,
};

/// The reference to the object that `metadata` is controlled by.
fn controller_reference(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The UID of the object that `metadata` is controlled by.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    controller_reference(metadata).map(|owner| owner.uid.as_str())
}

/// The UID of the DataVolume that CDI made a claim for.
pub(super) fn data_volume(metadata: &ObjectMeta) -> Option<&str> {
    let owner = controller_reference(metadata)?;
    let is_cdis = owner.kind == "DataVolume" && metadata.name.as_ref() == Some(&owner.name);
    is_cdis.then_some(owner.uid.as_str())
}

/// Whether a disk is controlled by somebody who is neither CDI nor `machine`.
pub(super) fn is_others(metadata: &ObjectMeta, machine: &Machine) -> bool {
    controller(metadata).is_some()
        && data_volume(metadata).is_none()
        && controller(metadata) != machine.metadata.uid.as_deref()
}

/// Whether a VirtualMachine was made for this very Machine, and not for another one of its name.
pub(super) fn is_own_vm(metadata: &ObjectMeta, machine: &Machine) -> bool {
    managed::is_made_for(metadata, machine.metadata.uid.as_deref())
}

/// Whether a disk was made for this very Machine: it says so, or has the owner reference that earlier
/// versions gave it.
pub(super) fn is_own_disk(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref();
    let is_recorded = annotation(metadata, labels::MACHINE_UID) == uid;
    uid.is_some()
        && !is_others(metadata, machine)
        && (is_recorded || managed::is_owned_by(metadata, uid))
}

/// Removes an owner, and records instead whom the object was made for.
pub(super) fn without_owner(
    kind: Kind,
    metadata: &ObjectMeta,
    owner: Option<&str>,
    reason: &str,
) -> Step {
    let owners = metadata.owner_references.iter().flatten();
    let others = owners.filter(|found| Some(found.uid.as_str()) != owner);
    Step {
        action: Action::ChangeMetadata {
            kind,
            name: name(metadata).to_owned(),
            uid: uid(metadata),
            change: MetadataChange {
                annotations: [(labels::MACHINE_UID.to_owned(), owner.map(str::to_owned))].into(),
                owners: Some((others.cloned().collect(), metadata.resource_version.clone())),
                ..MetadataChange::default()
            },
        },
        reason: reason.to_owned(),
        event: None,
    }
}

/// Whether an object belongs to an earlier Machine of the name.
pub(super) fn is_of_predecessor(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    managed::is_of_predecessor(metadata, "Machine", name(&machine.metadata), uid)
}

/// Whether an object is on its way out.
pub(super) fn is_deleted(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// The value of an annotation.
pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// The name of an object that the API server gave us, so it has one.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// The UID of an object that the API server gave us, so it has one.
pub(super) fn uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}
