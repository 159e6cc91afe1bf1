//! The MachineClass that a VirtualMachine has its size from, as it is noted on it.
//!
//! The default class is for new Machines: one that names no size keeps to the class that it was made
//! with, or to template `small` if there was none, whatever becomes the default later.

use std::sync::Arc;

use api::{Machine, MachineClass, MachineClassSpec, ObjectMeta, PowerState, labels};
use serde::{Deserialize, Serialize};

use super::{
    ownership::{annotation, is_own_vm},
    vm::is_restart_asked,
};
use crate::machine::{
    Known, Lookup,
    surroundings::{PROVIDER, is_enabled, is_offered},
    switches::is_switched_on,
};

/// A class as it was when a size was taken from it: what the size depends on.
#[derive(Serialize, Deserialize)]
pub(super) struct ClassSnapshot {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    cpu: api::MachineClassCpu,
    memory: api::MachineClassMemory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<api::MachineClassDisk>>,
}

impl ClassSnapshot {
    pub(super) fn of(class: &MachineClass) -> Self {
        Self {
            name: class.metadata.name.clone().unwrap_or_default(),
            generation: class.metadata.generation,
            cpu: class.spec.cpu.clone(),
            memory: class.spec.memory.clone(),
            disks: class.spec.disks.clone(),
        }
    }

    fn noted_on(vm: &ObjectMeta) -> Option<Self> {
        let text = annotation(vm, labels::CLASS_SNAPSHOT)?;
        serde_json::from_str(text).ok()
    }

    /// The class again; it was enabled and offered when it was taken.
    fn class(self) -> MachineClass {
        let spec = MachineClassSpec {
            enabled: None,
            default: None,
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

/// The name of the MachineClass that a VirtualMachine has its size from.
pub fn snapshot_class_name(vm: &ObjectMeta) -> Option<String> {
    ClassSnapshot::noted_on(vm).map(|taken| taken.name)
}

/// Where a Machine has its size from that has not asked for another one since. Classes are given as
/// all that the Machine is to see.
pub(super) enum Origin {
    /// What is built in.
    BuiltIn,
    /// A class, as it was then and as it is now.
    Class {
        then: Known<MachineClass>,
        now: Known<MachineClass>,
    },
    /// A class as it was then, and why it cannot be had any more.
    Lost {
        then: Known<MachineClass>,
        why: String,
    },
}

impl Origin {
    /// Where the size of a Machine is from; nothing for one that takes its size anew.
    pub(super) fn of(
        machine: &Machine,
        vm: Option<&ObjectMeta>,
        classes: &Known<MachineClass>,
    ) -> Option<Self> {
        let vm = vm.filter(|vm| is_own_vm(vm, machine))?;
        let spec = &machine.spec;
        let asked = [&spec.template, &spec.instance_type, &spec.machine_class]
            .into_iter()
            .find_map(Option::as_deref);
        let Some(taken) = ClassSnapshot::noted_on(vm) else {
            return asked.is_none().then_some(Self::BuiltIn);
        };
        if asked.is_some_and(|asked| asked != taken.name) {
            return None;
        }
        let name = taken.name.clone();
        let only = |mut class: MachineClass| {
            class.spec.default = asked.is_none().then_some(true);
            Known::all([(name.clone(), Arc::new(class))])
        };
        let why = match classes.get(&name) {
            Lookup::Unknown => return None,
            Lookup::Missing => "is gone".to_owned(),
            Lookup::Found(class) if !is_enabled(class) => "is disabled".to_owned(),
            Lookup::Found(class) if !is_offered(class) => {
                format!("is no longer offered by the provider {PROVIDER}")
            }
            Lookup::Found(class) => {
                return Some(Self::Class {
                    now: only(class.clone()),
                    then: only(taken.class()),
                });
            }
        };
        Some(Self::Lost {
            why: format!(
                "MachineClass {name:?}, which the size was taken from, {why}: the Machine keeps that size; \
                 to give it another, name a MachineClass or a template in its spec"
            ),
            then: only(taken.class()),
        })
    }
}

/// The classes that a Machine is to see when it takes its size, given its VirtualMachine and whether
/// its guest runs.
pub(crate) fn classes_for(
    machine: &Machine,
    vm: Option<&ObjectMeta>,
    is_running: bool,
    classes: &Known<MachineClass>,
) -> Known<MachineClass> {
    match Origin::of(machine, vm, classes) {
        None => classes.clone(),
        Some(Origin::BuiltIn) => Known::all([]),
        Some(Origin::Class { then, .. }) if is_running && goes_on(machine, vm) => then,
        Some(Origin::Class { now, .. }) => now,
        Some(Origin::Lost { then, .. }) => then,
    }
}

/// Whether a guest that runs is to go on with the size it has.
fn goes_on(machine: &Machine, vm: Option<&ObjectMeta>) -> bool {
    machine.spec.power_state != Some(PowerState::Stopped)
        && !vm.is_some_and(|vm| is_restart_asked(machine, vm))
        && !is_switched_on(&machine.metadata, labels::FOLLOW_CLASS)
}
