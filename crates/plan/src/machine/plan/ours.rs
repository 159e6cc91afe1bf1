//! Which objects are a Machine's own.

use api::{Machine, ObjectMeta, labels};

/// The UID of the object that `metadata` is controlled by.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

/// Whether an object was made for this very Machine, and not for another one of its name.
pub(super) fn is_owned(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref();
    uid.is_some() && controller(metadata) == uid
}

/// Whether a disk was made for this very Machine. One that outlives it has no owner, but tells.
pub(super) fn is_own_disk(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref();
    is_owned(metadata, machine)
        || (controller(metadata).is_none()
            && uid.is_some()
            && annotation(metadata, labels::MACHINE_UID) == uid)
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
