//! What is known of the cluster when a change is to be judged.

use std::{collections::BTreeMap, sync::Arc};

use api::{Machine, MachineClass};
use plan::{
    admission::{
        machine::{self, mac_addresses, virtual_machine},
        machine_class,
    },
    machine::{Known, Lookup},
};
use runtime::store::Key;

use super::{Caches, Trait};
use crate::machine::watches::Watched;

/// What a judgement about a Machine is made from.
const OF_MACHINES: [Watched; 5] = [
    Watched::Machines,
    Watched::Networks,
    Watched::Classes,
    Watched::StorageClasses,
    Watched::Claims,
];

impl Caches {
    /// Whether the resources of a namespace are kept here (`""`: those of the cluster).
    pub(in crate::machine) fn keeps(&self, namespace: &str) -> bool {
        let mut scopes = self.scopes.iter();
        namespace.is_empty() || scopes.any(|scope| scope.is_empty() || scope == namespace)
    }

    /// What is known about a Machine that is to be judged; nothing before it is all there.
    pub(in crate::machine) fn facts_of_machine(&self, machine: &Machine) -> Option<machine::Facts> {
        if !self.are_synced(&OF_MACHINES) {
            return None;
        }
        let key = Key::of(&machine.metadata);
        let claims = self.claims.by_index(&key);
        let claims = claims.filter_map(|(_, claim)| claim.unpack()).collect();
        Some(machine::Facts {
            surroundings: self.surroundings(&key.namespace, Known::default()),
            claims,
            others: self.rivals(&key, machine),
            ..machine::Facts::default()
        })
    }

    /// The Machines that may want what a Machine wants: its VirtualMachine, or a MAC address.
    fn rivals(&self, key: &Key, machine: &Machine) -> Vec<Arc<Machine>> {
        let vm = Key::new(&key.namespace, virtual_machine(machine));
        let by_name = self.machines.get(&vm).map(|other| (vm.clone(), other));
        let addresses = mac_addresses(machine).map(|address| Trait::MacAddress(address.into()));
        let traits = addresses.chain([Trait::VirtualMachine(vm)]);
        let by_trait = traits.flat_map(|wanted| {
            let found = self.machines.by_index(&wanted);
            found.map(|(key, other)| (key.clone(), other))
        });
        let rivals: BTreeMap<Key, &Arc<Machine>> = by_trait.chain(by_name).collect();
        rivals
            .into_iter()
            .filter(|(other, _)| other != key)
            .map(|(_, other)| Arc::clone(other))
            .collect()
    }

    /// What is known about a class that is to be judged; nothing before it is all there.
    pub(in crate::machine) fn facts_of_class(
        &self,
        class: &MachineClass,
    ) -> Option<machine_class::Facts> {
        if !self.are_synced(&[Watched::Machines, Watched::Classes, Watched::StorageClasses]) {
            return None;
        }
        let default_class = match self.known_classes.default_class() {
            Lookup::Found(other) => other.metadata.name.clone(),
            Lookup::Missing | Lookup::Unknown => None,
        };
        let users = self.machines.iter();
        let users = users.filter(|(_, machine)| machine_class::is_user(machine, class));
        Some(machine_class::Facts {
            storage_classes: self.known_storage_classes.clone(),
            default_class: default_class.filter(|name| Some(name) != class.metadata.name.as_ref()),
            users: users.count(),
        })
    }

    /// The Machines that name a network; nothing before all are known.
    pub(in crate::machine) fn facts_of_network(&self, network: &Key) -> Option<Vec<Arc<Machine>>> {
        if !self.are_synced(&[Watched::Machines]) {
            return None;
        }
        let users = self.users_of(network);
        Some(users.map(|(_, machine)| Arc::clone(machine)).collect())
    }

    fn are_synced(&self, kinds: &[Watched]) -> bool {
        kinds.iter().all(|kind| self.is_synced(*kind))
    }
}
