//! Which resources a change may concern.

use std::{collections::BTreeSet, sync::Arc};

use api::{Machine, core::ObservedClaim, kubevirt::ObservedVirtualMachine};
use plan::admission::machine::mac_addresses;
use runtime::cache::{CachedObject, Delta, Key};

use super::Subject;
use crate::machine::{packed::Packed, watched_secret::WatchedSecret};

/// What came of something that was told.
#[derive(Debug, Default)]
pub(in crate::machine) struct Affected {
    /// What it may concern.
    pub(in crate::machine) subjects: BTreeSet<Subject>,
    /// What is no longer the same resource, but gone, new, or another of the name.
    pub(in crate::machine) others: BTreeSet<Subject>,
    /// Whether it may concern everything.
    pub(in crate::machine) all: bool,
    /// A Machine that is not what it was.
    pub(in crate::machine) machines: Vec<Delta<Machine>>,
    /// VirtualMachines that are not what they were.
    pub(in crate::machine) virtual_machines: Vec<Delta<Packed<ObservedVirtualMachine>>>,
    /// Claims that are not what they were.
    pub(in crate::machine) claims: Vec<Delta<Packed<ObservedClaim>>>,
}

pub(super) fn machines_changed(changed: Vec<Delta<Machine>>) -> Affected {
    let mut affected = Affected::default();
    for difference in &changed {
        affected
            .subjects
            .insert(Subject::machine(difference.key.clone()));
        if is_another(difference) {
            let subject = Subject::machine(difference.key.clone());
            affected.others.insert(subject);
        }
        let versions = [difference.old.as_deref(), difference.new.as_deref()];
        // A network's users are names: a Machine that only changed otherwise is none of its
        // business.
        if let [Some(old), Some(new)] = versions
            && networks_of(old) == networks_of(new)
        {
            continue;
        }
        let networks = versions.into_iter().flatten().flat_map(networks_of);
        affected.subjects.extend(networks.map(Subject::network));
    }
    affected.machines = changed;
    affected
}

/// Whether what is there now is not what was there before.
pub(super) fn is_another<T: CachedObject>(difference: &Delta<T>) -> bool {
    let uid = |object: &Option<Arc<T>>| object.as_ref()?.uid().map(str::to_owned);
    uid(&difference.old) != uid(&difference.new)
}

pub(super) fn virtual_machines_changed(
    changed: Vec<Delta<Packed<ObservedVirtualMachine>>>,
) -> Affected {
    let affected = of_machines(&changed);
    Affected {
        virtual_machines: changed,
        ..affected
    }
}

pub(super) fn claims_changed(changed: Vec<Delta<Packed<ObservedClaim>>>) -> Affected {
    let affected = of_machines(&changed);
    Affected {
        claims: changed,
        ..affected
    }
}

/// The Machines that children belong to.
pub(super) fn of_machines<T>(changed: &[Delta<Packed<T>>]) -> Affected {
    let versions = changed
        .iter()
        .flat_map(|difference| [&difference.old, &difference.new]);
    let machines = versions.flatten().filter_map(|object| object.machine());
    Affected {
        subjects: machines.cloned().map(Subject::machine).collect(),
        ..Affected::default()
    }
}

/// The Machines that Secrets belong to.
pub(super) fn secrets_changed(changed: &[Delta<WatchedSecret>]) -> Affected {
    let versions = changed
        .iter()
        .flat_map(|difference| [&difference.old, &difference.new]);
    let machines = versions.flatten().filter_map(|secret| secret.machine());
    Affected {
        subjects: machines.cloned().map(Subject::machine).collect(),
        ..Affected::default()
    }
}

/// The Machine that a child is labelled with.
pub(super) fn machine_of<T>(child: &Packed<T>) -> Vec<Key> {
    child.machine().cloned().into_iter().collect()
}

/// Something that a Machine is to be found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) enum Trait {
    /// A network that it wants to be attached to.
    Network(Key),
    /// A VirtualMachine that it wants under another name than its own.
    VirtualMachine(Key),
    /// A MAC address that it asks for.
    MacAddress(Box<str>),
}

/// What a Machine is to be found by.
pub(super) fn traits_of(machine: &Machine) -> Vec<Trait> {
    let networks = networks_of(machine).into_iter().map(Trait::Network);
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let named = machine.spec.name.as_deref();
    let named = named.map(|name| Trait::VirtualMachine(Key::new(namespace, name)));
    let addresses = mac_addresses(machine).map(|address| Trait::MacAddress(address.into()));
    networks.chain(named).chain(addresses).collect()
}

/// The networks that a Machine wants to be attached to, each once.
pub(super) fn networks_of(machine: &Machine) -> Vec<Key> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let networks = machine.spec.networks.iter().flatten();
    let names: BTreeSet<_> = networks
        .map(|network| network.network_name.as_str())
        .collect();
    names
        .into_iter()
        .map(|name| Key::new(namespace, name))
        .collect()
}
