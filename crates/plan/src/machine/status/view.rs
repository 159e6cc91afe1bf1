use std::collections::BTreeSet;

use api::{
    MachineStatus, PowerState,
    cdi::ObservedDataVolume,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
};

use super::{Facts, reason};
use crate::{conditions, managed, naming};

/// The facts, with what is not this very Machine's left out.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) facts: Facts<'a>,
    /// The status that the Machine has; absent when it has none yet.
    pub(super) old: Option<&'a MachineStatus>,
    pub(super) vm: Option<&'a ObservedVirtualMachine>,
    pub(super) instance: Option<&'a ObservedInstance>,
}

impl<'a> View<'a> {
    pub(super) fn new(facts: Facts<'a>) -> Self {
        let observed = facts.observed;
        let machine = &observed.machine.metadata;
        let vm = observed
            .virtual_machine
            .filter(|vm| managed::is_made_for(&vm.metadata, machine.uid.as_deref()));
        let instance = observed.instance.filter(|instance| {
            if let Some(vm) = vm {
                return managed::is_owned_by(&instance.metadata, vm.metadata.uid.as_deref());
            }
            // An instance may be seen for longer than its VirtualMachine, but not one of others.
            let found = instance.metadata.labels.as_ref();
            let of = found.and_then(|entries| entries.get(labels::MACHINE));
            observed.virtual_machine.is_none() && of == machine.name.as_ref()
        });
        Self {
            facts,
            old: observed.machine.status.as_ref(),
            vm,
            instance,
        }
    }

    /// The DataVolumes of the Machine's disks; those of disks that were removed do not matter.
    pub(super) fn attached_volumes(
        &self,
    ) -> impl Iterator<Item = &'a ObservedDataVolume> + use<'a> {
        let disks: BTreeSet<String> = match self.facts.resolved {
            Ok(machine) => machine
                .disks
                .iter()
                .map(|disk| naming::claim(&machine.identity.name, &disk.name))
                .collect(),
            Err(_) => BTreeSet::new(),
        };
        let volumes: &'a [&'a ObservedDataVolume] = &self.facts.observed.data_volumes;
        volumes.iter().copied().filter(move |volume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            disks.contains(name)
        })
    }

    pub(super) fn is_deleted(&self) -> bool {
        let metadata = &self.facts.observed.machine.metadata;
        metadata.deletion_timestamp.is_some()
    }

    /// Whether the machine should run, also when the rest of the spec is not valid.
    pub(super) fn wanted(&self) -> PowerState {
        self.facts
            .observed
            .machine
            .spec
            .power_state
            .unwrap_or_default()
    }

    /// Whether the guest ran before. Of a machine that failed since, the list of addresses tells:
    /// it is empty rather than absent once there was a guest.
    pub(super) fn has_run(&self) -> bool {
        use api::Phase::{Running, Stopped};
        self.old.is_some_and(|old| {
            matches!(old.phase, Some(Running | Stopped)) || old.ip_addresses.is_some()
        })
    }

    /// The reason that `Ready` has.
    pub(super) fn old_reason(&self) -> Option<&'a str> {
        let conditions = self.old?.conditions.as_deref();
        conditions::find(conditions, reason::READY).map(|ready| ready.reason.as_str())
    }

    /// Whether we ended this instance for a restart.
    pub(super) fn is_restarted(&self, instance: &ObservedInstance) -> bool {
        let annotations = self.vm.and_then(|vm| vm.metadata.annotations.as_ref());
        let restarted = annotations.and_then(|all| all.get(labels::RESTARTED_INSTANCE));
        restarted.is_some() && restarted == instance.metadata.uid.as_ref()
    }
}
