//! Snapshot of the MachineClass that determines a VirtualMachine's size, recorded as an annotation.
//!
//! The default class applies to new Machines only. A Machine that names no size keeps the class it was
//! created with, or template `small` if there was no default class then.

use std::sync::Arc;

use api::{Machine, MachineClass, MachineClassSpec, ObjectMeta, PowerState, labels};
use serde::{Deserialize, Serialize};

use super::{
    ownership::{annotation, is_own_vm},
    vm::is_restart_requested,
};
use crate::machine::{
    Known, Lookup, Surroundings, surroundings::is_enabled, switches::is_switched_on,
};

/// The fields of a class that determine a size.
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

    fn from_annotation(vm: &ObjectMeta) -> Option<Self> {
        let text = annotation(vm, labels::CLASS_SNAPSHOT)?;
        serde_json::from_str(text).ok()
    }

    /// The class as it was. A class must be enabled and offered to be recorded.
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

/// Name of the MachineClass that a VirtualMachine is sized by.
pub fn snapshot_class_name(vm: &ObjectMeta) -> Option<String> {
    ClassSnapshot::from_annotation(vm).map(|snapshot| snapshot.name)
}

/// Where the size of an existing VirtualMachine comes from, while the spec asks for no other. Each set of
/// classes contains only the one to resolve with.
pub(super) enum SizeOrigin {
    /// A built-in template or instance type.
    BuiltIn,
    /// A class, as recorded and as it is.
    Class {
        snapshot: Known<MachineClass>,
        current: Known<MachineClass>,
    },
    /// A recorded class that was deleted, disabled or withdrawn, and the message about it.
    Unavailable {
        snapshot: Known<MachineClass>,
        message: String,
    },
}

impl SizeOrigin {
    /// Returns `None` if the Machine is to be sized from the current classes.
    pub(super) fn of(
        machine: &Machine,
        vm: Option<&ObjectMeta>,
        surroundings: &Surroundings,
    ) -> Option<Self> {
        let vm = vm.filter(|vm| is_own_vm(vm, machine))?;
        let spec = &machine.spec;
        let requested = [&spec.template, &spec.instance_type, &spec.machine_class]
            .into_iter()
            .find_map(Option::as_deref);
        let Some(snapshot) = ClassSnapshot::from_annotation(vm) else {
            return requested.is_none().then_some(Self::BuiltIn);
        };
        if requested.is_some_and(|requested| requested != snapshot.name) {
            return None;
        }
        let name = snapshot.name.clone();
        let only = |mut class: MachineClass| {
            class.spec.default = requested.is_none().then_some(true);
            Known::all([(name.clone(), Arc::new(class))])
        };
        let provider = &surroundings.provider;
        let why = match surroundings.machine_classes.get(&name) {
            Lookup::Unknown => return None,
            Lookup::Missing => "was deleted".to_owned(),
            Lookup::Found(class) if !is_enabled(class) => "is disabled".to_owned(),
            Lookup::Found(class) if !provider.offers(class) => {
                format!("is no longer offered by the provider {provider}")
            }
            Lookup::Found(class) => {
                return Some(Self::Class {
                    current: only(class.clone()),
                    snapshot: only(snapshot.class()),
                });
            }
        };
        Some(Self::Unavailable {
            message: format!(
                "MachineClass {name:?}, which the Machine is sized by, {why}: the Machine keeps its size; \
                 to change it, name another MachineClass or a template in its spec"
            ),
            snapshot: only(snapshot.class()),
        })
    }
}

/// The classes to resolve a Machine with, given its VirtualMachine and whether its guest runs.
pub(crate) fn classes_for(
    machine: &Machine,
    vm: Option<&ObjectMeta>,
    is_running: bool,
    surroundings: &Surroundings,
) -> Known<MachineClass> {
    match SizeOrigin::of(machine, vm, surroundings) {
        None => surroundings.machine_classes.clone(),
        Some(SizeOrigin::BuiltIn) => Known::all([]),
        Some(SizeOrigin::Class { snapshot, .. }) if is_running && keeps_size(machine, vm) => {
            snapshot
        }
        Some(SizeOrigin::Class { current, .. }) => current,
        Some(SizeOrigin::Unavailable { snapshot, .. }) => snapshot,
    }
}

/// Whether a running guest keeps its size.
fn keeps_size(machine: &Machine, vm: Option<&ObjectMeta>) -> bool {
    machine.spec.power_state != Some(PowerState::Stopped)
        && !vm.is_some_and(|vm| is_restart_requested(machine, vm))
        && !is_switched_on(&machine.metadata, labels::FOLLOW_CLASS)
}
