//! Size of a Machine whose MachineClass changes.
//!
//! Editing a class does not resize running guests: a Machine keeps the class snapshot that it was created
//! with. It uses the current class when it starts again, or at once with the annotation
//! [`labels::FOLLOW_CLASS`]. If the class is deleted or disabled, it keeps the snapshot.

use api::{MachineClass, labels};

use super::{
    class_snapshot::{ClassSnapshot, SizeOrigin},
    ledger,
};
use crate::machine::{
    Known, Lookup, Observed, Resolution, SizingSource, SpecError, resolve, status::ClassMismatch,
    surroundings::kept_classes, switches::is_switched_on,
};

/// A resolved Machine with its effective size.
pub(super) struct SizedMachine {
    pub(super) resolution: Resolution,
    /// The class snapshot to record on the VirtualMachine.
    pub(super) class_snapshot: Option<String>,
    /// Why the size differs from the current class, if it does.
    pub(super) class_mismatch: Option<ClassMismatch>,
}

/// Resolves a Machine with the class snapshot or with the current class.
pub(super) fn resolve_sized(
    observed: &Observed<'_>,
    may_change_size: bool,
) -> Result<SizedMachine, Vec<SpecError>> {
    let mut surroundings = observed.surroundings.clone();
    let claims = observed.claims.iter().copied();
    surroundings.kept_classes = kept_classes(observed.machine, claims);
    surroundings.kept_interface = ledger::kept_interface(observed);
    let vm = observed.virtual_machine.map(|vm| &vm.metadata);
    let origin = SizeOrigin::of(observed.machine, vm, &surroundings);
    let (classes, class_mismatch) = match origin {
        None => (surroundings.machine_classes.clone(), None),
        Some(SizeOrigin::BuiltIn) => (Known::all([]), None),
        Some(SizeOrigin::Unavailable { snapshot, message }) => {
            (snapshot, Some(ClassMismatch::Unavailable(message)))
        }
        Some(SizeOrigin::Class { current, .. }) if may_change_size || follows(observed) => {
            (current, None)
        }
        Some(SizeOrigin::Class { snapshot, current }) => {
            surroundings.machine_classes = snapshot.clone();
            let kept = resolve(observed.machine, &surroundings)?;
            surroundings.machine_classes = current;
            let class_mismatch = describe_change(&kept, &resolve(observed.machine, &surroundings));
            // An equal size does not update the snapshot: that would be a write without effect.
            return Ok(SizedMachine {
                class_snapshot: serialized_snapshot(&kept, &snapshot),
                resolution: kept,
                class_mismatch: class_mismatch.map(ClassMismatch::Changed),
            });
        }
    };
    surroundings.machine_classes = classes;
    let resolution = resolve(observed.machine, &surroundings)?;
    Ok(SizedMachine {
        class_snapshot: serialized_snapshot(&resolution, &surroundings.machine_classes),
        resolution,
        class_mismatch,
    })
}

/// Describes how the current class differs from the size in use.
fn describe_change(
    kept: &Resolution,
    current: &Result<Resolution, Vec<SpecError>>,
) -> Option<String> {
    match current {
        Ok(current) if is_same_size(current, kept) => None,
        Ok(current) => Some(format!(
            "{} has changed since the Machine was sized: restart the Machine, or annotate it with {}: \"true\", to apply the new size",
            current.machine.sizing,
            labels::FOLLOW_CLASS,
        )),
        Err(errors) => errors
            .first()
            .map(|error| format!("the Machine keeps its size: {}", error.message)),
    }
}

fn follows(observed: &Observed<'_>) -> bool {
    is_switched_on(&observed.machine.metadata, labels::FOLLOW_CLASS)
}

fn serialized_snapshot(resolution: &Resolution, classes: &Known<MachineClass>) -> Option<String> {
    let SizingSource::Class { name, .. } = &resolution.machine.sizing else {
        return None;
    };
    match classes.get(name) {
        Lookup::Found(class) => serde_json::to_string(&ClassSnapshot::of(class)).ok(),
        Lookup::Missing | Lookup::Unknown => None,
    }
}

fn is_same_size(one: &Resolution, other: &Resolution) -> bool {
    let (one, other) = (&one.machine, &other.machine);
    one.cpu == other.cpu && one.memory == other.memory && one.disks == other.disks
}

#[cfg(test)]
mod tests;
