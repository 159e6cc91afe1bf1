//! A Machine keeps the size it was made with when its MachineClass changes: nobody's machine is
//! resized because somebody else edited a class. It takes the new size when it starts again, or at
//! once if its annotation asks for that. When the class is gone or disabled, it keeps the size it has
//! for good.

use api::{MachineClass, labels};

use super::class_snapshot::{ClassSnapshot, Origin};
use crate::machine::{
    Known, Lookup, Observed, Resolution, SizingSource, SpecError, resolve, status::Behind,
    surroundings::kept_classes, switches::is_switched_on,
};

/// A Machine that resolved, with the size that it is to have now.
pub(super) struct Sized {
    pub(super) resolution: Resolution,
    /// The class to note on the VirtualMachine.
    pub(super) taken: Option<String>,
    /// Why the size is not the one of the class as it is now, if so.
    pub(super) behind: Option<Behind>,
}

/// Resolves a Machine with the size it has, or with the one its class gives now.
pub(super) fn resolve_sized(
    observed: &Observed<'_>,
    may_change_size: bool,
) -> Result<Sized, Vec<SpecError>> {
    let mut surroundings = observed.surroundings.clone();
    let claims = observed.claims.iter().copied();
    surroundings.kept_classes = kept_classes(observed.machine, claims);
    let vm = observed.virtual_machine.map(|vm| &vm.metadata);
    let origin = Origin::of(observed.machine, vm, &surroundings.machine_classes);
    let (classes, behind) = match origin {
        None => (surroundings.machine_classes.clone(), None),
        Some(Origin::BuiltIn) => (Known::all([]), None),
        Some(Origin::Lost { then, why }) => (then, Some(Behind::Lost(why))),
        Some(Origin::Class { now, .. }) if may_change_size || follows(observed) => (now, None),
        Some(Origin::Class { then, now }) => {
            surroundings.machine_classes = then.clone();
            let kept = resolve(observed.machine, &surroundings)?;
            surroundings.machine_classes = now;
            let behind = newer(&kept, &resolve(observed.machine, &surroundings));
            // What has come to be the same is noted anew, once it is taken for another reason.
            return Ok(Sized {
                taken: taken(&kept, &then),
                resolution: kept,
                behind: behind.map(Behind::Newer),
            });
        }
    };
    surroundings.machine_classes = classes;
    let resolution = resolve(observed.machine, &surroundings)?;
    Ok(Sized {
        taken: taken(&resolution, &surroundings.machine_classes),
        resolution,
        behind,
    })
}

/// What the class gives now that the Machine has not taken.
fn newer(kept: &Resolution, current: &Result<Resolution, Vec<SpecError>>) -> Option<String> {
    match current {
        Ok(current) if is_same_size(current, kept) => None,
        Ok(current) => Some(format!(
            "{} has changed since its size was taken: restart the Machine, or annotate it with {}: \"true\", to take the new size",
            current.machine.sizing,
            labels::FOLLOW_CLASS,
        )),
        Err(errors) => errors
            .first()
            .map(|error| format!("the size that was taken is kept: {}", error.message)),
    }
}

fn follows(observed: &Observed<'_>) -> bool {
    is_switched_on(&observed.machine.metadata, labels::FOLLOW_CLASS)
}

fn taken(resolution: &Resolution, classes: &Known<MachineClass>) -> Option<String> {
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
