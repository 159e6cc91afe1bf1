//! Status input, restricted to the objects that belong to the Machine.

use std::collections::BTreeSet;

use api::{
    GuestAddresses, MachineStatus, PowerState,
    cdi::ObservedDataVolume,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
};

use super::{super::is_being_deleted, Resolved, StatusInput, reason};
use crate::{conditions, managed};

#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) input: StatusInput<'a>,
    /// The Machine's current status, if it has one.
    pub(super) old: Option<&'a MachineStatus>,
    pub(super) vm: Option<&'a ObservedVirtualMachine>,
    pub(super) instance: Option<&'a ObservedInstance>,
}

impl<'a> View<'a> {
    pub(super) fn new(input: StatusInput<'a>) -> Self {
        let observed = input.observed;
        let machine = &observed.machine.metadata;
        let vm = observed
            .virtual_machine
            .filter(|vm| managed::is_made_for(&vm.metadata, machine.uid.as_deref()));
        let instance = observed.instance.filter(|instance| {
            if let Some(vm) = vm {
                return managed::is_owned_by(&instance.metadata, vm.metadata.uid.as_deref());
            }
            // An instance may outlive its VirtualMachine in caches, but not one of others.
            let found = instance.metadata.labels.as_ref();
            let of = found.and_then(|entries| entries.get(labels::MACHINE));
            observed.virtual_machine.is_none() && of == machine.name.as_ref()
        });
        Self {
            input,
            old: observed.machine.status.as_ref(),
            vm,
            instance,
        }
    }

    /// DataVolumes of the Machine's disks, without those of removed disks.
    pub(super) fn attached_volumes(
        &self,
    ) -> impl Iterator<Item = &'a ObservedDataVolume> + use<'a> {
        let disks: BTreeSet<String> = match self.input.resolved {
            Resolved::Valid(machine) => machine
                .disks
                .iter()
                .map(|disk| disk.claim(&machine.identity.name))
                .collect(),
            Resolved::Invalid(_) | Resolved::Terminating => BTreeSet::new(),
        };
        let volumes: &'a [&'a ObservedDataVolume] = &self.input.observed.data_volumes;
        volumes.iter().copied().filter(move |volume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            disks.contains(name)
        })
    }

    pub(super) fn is_terminating(&self) -> bool {
        is_being_deleted(self.input.observed.machine)
    }

    /// The requested power state, even if the rest of the spec is invalid.
    pub(super) fn desired_power_state(&self) -> PowerState {
        self.input
            .observed
            .machine
            .spec
            .power_state
            .unwrap_or_default()
    }

    /// Whether the guest ran before.
    pub(super) fn has_run(&self) -> bool {
        use api::Phase::{Running, Stopped};
        self.old.is_some_and(|old| {
            matches!(old.phase, Some(Running | Stopped))
                || matches!(old.ip_addresses, GuestAddresses::HasRun(_))
        })
    }

    /// Current reason of `Ready`.
    pub(super) fn old_reason(&self) -> Option<&'a str> {
        let conditions = self.old?.conditions.as_deref();
        conditions::find(conditions, reason::READY).map(|ready| ready.reason.as_str())
    }

    /// Whether the operator ended this instance, for a restart or a stop.
    pub(super) fn is_ended_by_operator(&self, instance: &ObservedInstance) -> bool {
        self.is_recorded(instance, labels::RESTARTED_INSTANCE)
            || self.is_recorded(instance, labels::STOPPED_INSTANCE)
    }

    /// Whether someone else stopped the VirtualMachine of this instance.
    pub(super) fn is_halted_by_other(&self, instance: &ObservedInstance) -> bool {
        self.is_recorded(instance, labels::HALTED_INSTANCE)
    }

    fn is_recorded(&self, instance: &ObservedInstance, annotation: &str) -> bool {
        let annotations = self.vm.and_then(|vm| vm.metadata.annotations.as_ref());
        let recorded = annotations.and_then(|all| all.get(annotation));
        recorded.is_some() && recorded == instance.metadata.uid.as_ref()
    }
}
