//! Ownership: which objects belong to a Machine, by owner reference or recorded UID.

use std::collections::BTreeMap;

use api::{Machine, ObjectMeta, OwnerReference, labels};

use crate::{
    machine::{Action, Identity, Kind, MetadataChange, Observed, Step, cluster},
    managed,
};

/// The controller owner reference.
pub(super) fn controller_reference(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// UID of the controller.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    controller_reference(metadata).map(|owner| owner.uid.as_str())
}

/// UID of the DataVolume that CDI created a claim for.
pub(super) fn data_volume(metadata: &ObjectMeta) -> Option<&str> {
    let owner = controller_reference(metadata)?;
    let is_cdis = owner.kind == "DataVolume" && metadata.name.as_ref() == Some(&owner.name);
    is_cdis.then_some(owner.uid.as_str())
}

/// Whether a disk has a controller that is neither CDI nor `machine`.
pub(super) fn is_foreign(metadata: &ObjectMeta, machine: &Machine) -> bool {
    controller(metadata).is_some()
        && data_volume(metadata).is_none()
        && controller(metadata) != machine.metadata.uid.as_deref()
}

/// Whether a VirtualMachine belongs to this Machine, and not to an earlier one of the same name.
pub(super) fn is_own_vm(metadata: &ObjectMeta, machine: &Machine) -> bool {
    managed::is_made_for(metadata, machine.metadata.uid.as_deref())
}

/// Whether a disk belongs to this Machine: it records the UID, or has the owner reference that earlier
/// versions set.
pub(super) fn is_own_disk(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref();
    let is_recorded = annotation(metadata, labels::MACHINE_UID) == uid;
    uid.is_some()
        && !is_foreign(metadata, machine)
        && (is_recorded || managed::is_owned_by(metadata, uid))
}

/// Labels by which caches select the objects of a Machine.
pub(super) fn child_labels(observed: &Observed<'_>) -> BTreeMap<String, String> {
    let metadata = &observed.machine.metadata;
    let machine = Identity {
        name: name(metadata).to_owned(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        cluster: observed.surroundings.cluster.clone(),
    };
    cluster::child_labels(&machine)
}

/// The same, as a change.
pub(super) fn add_child_labels(observed: &Observed<'_>) -> MetadataChange {
    let labels = child_labels(observed).into_iter();
    MetadataChange {
        labels: labels.map(|(label, value)| (label, Some(value))).collect(),
        ..MetadataChange::default()
    }
}

/// Removes an owner reference, and records the UID instead.
pub(super) fn remove_owner(
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

/// Whether an object belongs to an earlier Machine of the same name.
pub(super) fn is_of_predecessor(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    managed::is_of_predecessor(metadata, "Machine", name(&machine.metadata), uid)
}

pub(super) fn is_terminating(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// Name of an object from the API server, which always has one.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// UID of an object from the API server, which always has one.
pub(super) fn uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}
