//! Decoded resources of a simulated cluster, and indexes of its objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Machine, MachineClass, NetworkConfiguration, labels};
use serde_json::Value;

use super::{is_machine, is_network, machine, machine_class, network};
use crate::{
    Id,
    admission::machine::mac_addresses,
    machine::{Known, Provider},
};

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) provider: Provider,
    pub(super) machines: BTreeMap<Id, Machine>,
    pub(super) classes: Known<MachineClass>,
    /// By namespace.
    networks: BTreeMap<Arc<str>, Known<NetworkConfiguration>>,
    /// Children by the Machine in their label.
    children: BTreeMap<Id, BTreeSet<Id>>,
    /// Machines by MAC address.
    mac_addresses: BTreeMap<String, BTreeSet<Id>>,
}

impl View {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            machines: BTreeMap::new(),
            classes: Known::all([]),
            networks: BTreeMap::new(),
            children: BTreeMap::new(),
            mac_addresses: BTreeMap::new(),
        }
    }

    /// Updates the view of an object that was written.
    pub(super) fn update(&mut self, id: &Id, before: Option<&Value>, after: Option<&Value>) {
        if is_machine(id) {
            self.update_machine(id, after);
        } else if is_network(id) {
            let all = self.networks.entry(Arc::clone(&id.namespace));
            let after = after.filter(|after| !after["spec"]["bridge"].is_null());
            keep(all.or_insert_with(|| Known::all([])), &id.name, after);
        } else if *id == machine_class(&id.name) {
            keep(&mut self.classes, &id.name, after);
        } else {
            let machine = before.and_then(|before| machine_of(id, before));
            if let Some(children) = machine.and_then(|it| self.children.get_mut(&it)) {
                children.remove(id);
            }
            if let Some(machine) = after.and_then(|after| machine_of(id, after)) {
                self.children.entry(machine).or_default().insert(id.clone());
            }
        }
    }

    fn update_machine(&mut self, id: &Id, after: Option<&Value>) {
        if let Some(before) = self.machines.remove(id) {
            for address in mac_addresses(&before) {
                if let Some(machines) = self.mac_addresses.get_mut(&address) {
                    machines.remove(id);
                }
            }
        }
        let after = after.and_then(|after| decode::from_value_ref::<Machine>(after).ok());
        if let Some(after) = after.filter(|after| self.provider.manages(after)) {
            for address in mac_addresses(&after) {
                let machines = self.mac_addresses.entry(address);
                machines.or_default().insert(id.clone());
            }
            self.machines.insert(id.clone(), after);
        }
    }

    pub(super) fn networks(&self, namespace: &str) -> Known<NetworkConfiguration> {
        let networks = self.networks.get(namespace).cloned();
        networks.unwrap_or_else(|| Known::all([]))
    }

    pub(super) fn children(&self, machine: &Id) -> impl Iterator<Item = &Id> {
        self.children.get(machine).into_iter().flatten()
    }

    pub(super) fn with_mac_address(&self, address: &str) -> impl Iterator<Item = &Id> {
        self.mac_addresses.get(address).into_iter().flatten()
    }

    /// Machines that attach to a NetworkConfiguration.
    pub(super) fn users(&self, network: &Id) -> impl Iterator<Item = &Id> {
        let machines = self.machines.iter().filter(|(id, machine)| {
            id.namespace == network.namespace && networks_of(machine).any(|it| *it == *network.name)
        });
        machines.map(|(id, _)| id)
    }

    /// Machines and NetworkConfigurations that a write concerns.
    pub(super) fn affected(
        &self,
        id: &Id,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> BTreeSet<Id> {
        let namespace = &id.namespace;
        if is_machine(id) {
            let gone = before.filter(|_| after.is_none());
            let gone = gone.and_then(|gone| decode::from_value_ref::<Machine>(gone).ok());
            let networks = gone.iter().flat_map(networks_of);
            let networks = networks.map(|name| network(namespace, name));
            return networks.chain([id.clone()]).collect();
        }
        if is_network(id) || &*id.kind == "NetworkAttachmentDefinition" {
            let network = network(namespace, &id.name);
            let users = self.users(&network).cloned();
            // An address ledger has the name of its Machine.
            let recorded = machine(namespace, &id.name);
            let recorded = self.machines.contains_key(&recorded).then_some(recorded);
            return users.chain([network.clone()]).chain(recorded).collect();
        }
        let states = [before, after].into_iter().flatten();
        states.filter_map(|state| machine_of(id, state)).collect()
    }
}

fn networks_of(machine: &Machine) -> impl Iterator<Item = &str> {
    let networks = machine.spec.networks.iter().flatten();
    networks.filter_map(|network| network.network_name.as_deref())
}

fn keep<T: serde::de::DeserializeOwned>(known: &mut Known<T>, name: &str, after: Option<&Value>) {
    match after.and_then(|after| decode::from_value_ref(after).ok()) {
        Some(object) => known.insert(name.to_owned(), Arc::new(object)),
        None => known.remove(name),
    }
}

/// Machine in the label of a child.
fn machine_of(id: &Id, child: &Value) -> Option<Id> {
    let name = child["metadata"]["labels"][labels::MACHINE].as_str()?;
    Some(machine(&id.namespace, name))
}
