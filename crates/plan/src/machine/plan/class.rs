//! A Machine keeps the size it was made with when its MachineClass changes: nobody's machine is
//! resized because somebody else edited a class. It takes the new size when it starts again, or at
//! once if its annotation asks for that.

use std::sync::Arc;

use api::{MachineClass, MachineClassSpec, ObjectMeta, labels};
use serde::{Deserialize, Serialize};

use super::ours::{annotation, is_switched_on};
use crate::machine::{
    Known, Lookup, Observed, Resolution, SizingSource, SpecError, resolve,
    surroundings::kept_classes,
};

/// A class as it was when a size was taken from it: what the size depends on.
#[derive(Serialize, Deserialize)]
struct Taken {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    cpu: api::MachineClassCpu,
    memory: api::MachineClassMemory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<api::MachineClassDisk>>,
}

impl Taken {
    fn of(class: &MachineClass) -> Self {
        Self {
            name: class.metadata.name.clone().unwrap_or_default(),
            generation: class.metadata.generation,
            cpu: class.spec.cpu.clone(),
            memory: class.spec.memory.clone(),
            disks: class.spec.disks.clone(),
        }
    }

    /// The class again; it was enabled and offered when it was taken.
    fn class(self, is_default: bool) -> MachineClass {
        let spec = MachineClassSpec {
            enabled: None,
            default: is_default.then_some(true),
            display_name: None,
            description: None,
            category: None,
            cpu: self.cpu,
            memory: self.memory,
            disks: self.disks,
            machine_providers: None,
            gpu: None,
        };
        let mut class = MachineClass::new(&self.name, spec);
        class.metadata = ObjectMeta {
            generation: self.generation,
            ..class.metadata
        };
        class
    }
}

/// A Machine that resolved, with the size that it is to have now.
pub(super) struct Sized {
    pub(super) resolution: Resolution,
    /// The class to note on the VirtualMachine.
    pub(super) taken: Option<String>,
    /// Why the size is not the one of the class as it is now, if so.
    pub(super) behind: Option<String>,
}

/// Resolves a Machine with the size it has, or with the one its class gives now.
pub(super) fn resolve_sized(
    observed: &Observed<'_>,
    may_change_size: bool,
) -> Result<Sized, Vec<SpecError>> {
    let mut surroundings = observed.surroundings.clone();
    let claims = observed.claims.iter().copied();
    surroundings.kept_classes = kept_classes(observed.machine, claims);
    let current = resolve(observed.machine, &surroundings);
    let held = (!may_change_size && !follows(observed))
        .then(|| held(observed))
        .flatten();
    let Some(held) = held else {
        let resolution = current?;
        let taken = taken(&resolution, &surroundings.machine_classes);
        return Ok(Sized {
            resolution,
            taken,
            behind: None,
        });
    };
    surroundings.machine_classes = Known::all(held);
    let kept = resolve(observed.machine, &surroundings)?;
    let taken = taken(&kept, &surroundings.machine_classes);
    let behind = match &current {
        Ok(current) if is_same_size(current, &kept) => None,
        Ok(current) => Some(format!(
            "{} has changed since its size was taken: restart the Machine, or annotate it with {}: \"true\", to take the new size",
            current.machine.sizing,
            labels::FOLLOW_CLASS,
        )),
        Err(errors) => errors
            .first()
            .map(|error| format!("the size that was taken is kept: {}", error.message)),
    };
    // What has come to be the same is noted anew, once it is taken for another reason.
    Ok(Sized {
        resolution: kept,
        taken,
        behind,
    })
}

fn follows(observed: &Observed<'_>) -> bool {
    is_switched_on(&observed.machine.metadata, labels::FOLLOW_CLASS)
}

/// The only class that is known, or none, when the VirtualMachine that there is has its size from
/// it and the spec has not asked for another.
fn held(observed: &Observed<'_>) -> Option<Vec<(String, Arc<MachineClass>)>> {
    let spec = &observed.machine.spec;
    let vm = observed.virtual_machine?;
    let asked = [&spec.template, &spec.instance_type, &spec.machine_class]
        .into_iter()
        .find_map(Option::as_deref);
    let taken = annotation(&vm.metadata, labels::CLASS_TAKEN)
        .and_then(|text| serde_json::from_str::<Taken>(text).ok());
    match (asked, taken) {
        // No size is asked for, and the one that was taken then is not from a class.
        (None, None) => Some(Vec::new()),
        (None, Some(taken)) => Some(vec![(taken.name.clone(), Arc::new(taken.class(true)))]),
        (Some(asked), Some(taken)) if asked == taken.name => {
            Some(vec![(taken.name.clone(), Arc::new(taken.class(false)))])
        }
        _ => None,
    }
}

fn taken(resolution: &Resolution, classes: &Known<MachineClass>) -> Option<String> {
    let SizingSource::Class { name, .. } = &resolution.machine.sizing else {
        return None;
    };
    match classes.get(name) {
        Lookup::Found(class) => serde_json::to_string(&Taken::of(class)).ok(),
        Lookup::Missing | Lookup::Unknown => None,
    }
}

fn is_same_size(one: &Resolution, other: &Resolution) -> bool {
    let (one, other) = (&one.machine, &other.machine);
    one.cpu == other.cpu && one.memory == other.memory && one.disks == other.disks
}
