//! Resources that a change of a cached object affects.

use std::{collections::BTreeSet, sync::Arc};

use api::{Machine, core::ObservedClaim, kubevirt::ObservedVirtualMachine};
use plan::{admission::machine::mac_addresses, machine::network_namespace};
use runtime::cache::{CachedObject, Delta, Key};

use super::Subject;
use crate::machine::{packed::Packed, watched_secret::WatchedSecret};

/// Effect of a change on the work queue and on the metrics.
#[derive(Debug, Default)]
pub(in crate::machine) struct Affected {
    /// Resources to reconcile.
    pub(in crate::machine) subjects: BTreeSet<Subject>,
    /// Resources that were created, deleted, or replaced by another of the same name.
    pub(in crate::machine) replaced: BTreeSet<Subject>,
    /// Whether every resource must be reconciled.
    pub(in crate::machine) all: bool,
    pub(in crate::machine) machines: Vec<Delta<Machine>>,
    pub(in crate::machine) virtual_machines: Vec<Delta<Packed<ObservedVirtualMachine>>>,
    pub(in crate::machine) claims: Vec<Delta<Packed<ObservedClaim>>>,
}

pub(super) fn machines_changed(changed: Vec<Delta<Machine>>) -> Affected {
    let mut affected = Affected::default();
    for difference in &changed {
        affected
            .subjects
            .insert(Subject::machine(difference.key.clone()));
        if is_replaced(difference) {
            let subject = Subject::machine(difference.key.clone());
            affected.replaced.insert(subject);
        }
        let versions = [difference.old.as_deref(), difference.new.as_deref()];
        // A NetworkConfiguration's status lists its users by name, so other changes do not affect it.
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

/// Whether the object was created, deleted, or replaced by another of the same name.
pub(super) fn is_replaced<T: CachedObject>(difference: &Delta<T>) -> bool {
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

/// Affected Machines of changed children.
pub(super) fn of_machines<T>(changed: &[Delta<Packed<T>>]) -> Affected {
    machines_by(changed, |packed| packed.machine())
}

/// Affected Machines of changed cloud-init Secrets.
pub(super) fn secrets_changed(changed: &[Delta<WatchedSecret>]) -> Affected {
    machines_by(changed, |secret| secret.machine())
}

fn machines_by<T>(changed: &[Delta<T>], machine: fn(&T) -> Option<&Key>) -> Affected {
    let versions = changed
        .iter()
        .flat_map(|difference| [&difference.old, &difference.new]);
    let machines = versions.flatten().filter_map(|object| machine(object));
    Affected {
        subjects: machines.cloned().map(Subject::machine).collect(),
        ..Affected::default()
    }
}

/// Index of children by the Machine in their label.
pub(super) fn machine_of<T>(child: &Packed<T>) -> Vec<Key> {
    child.machine().cloned().into_iter().collect()
}

/// Index key of a Machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) enum IndexKey {
    /// NetworkConfiguration that the Machine attaches to.
    Network(Key),
    /// NetworkNamespace whose network the Machine attaches to.
    NetworkNamespace(Key),
    /// VirtualMachine with another name than the Machine's.
    VirtualMachine(Key),
    MacAddress(Box<str>),
}

pub(super) fn index_keys(machine: &Machine) -> Vec<IndexKey> {
    let networks = networks_of(machine).into_iter().map(IndexKey::Network);
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let named = machine.spec.name.as_deref();
    let named = named.map(|name| IndexKey::VirtualMachine(Key::new(namespace, name)));
    let addresses = mac_addresses(machine).map(|address| IndexKey::MacAddress(address.into()));
    let by_namespace = machine.spec.network.as_ref().and_then(network_namespace);
    let by_namespace =
        by_namespace.map(|name| IndexKey::NetworkNamespace(Key::new(namespace, name)));
    let networks = networks.chain(by_namespace);
    networks.chain(named).chain(addresses).collect()
}

/// NetworkConfigurations that a Machine attaches to, each once.
pub(super) fn networks_of(machine: &Machine) -> Vec<Key> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let networks = machine.spec.networks.iter().flatten();
    let names: BTreeSet<_> = networks
        .filter_map(|network| network.network_name.as_deref())
        .collect();
    names
        .into_iter()
        .map(|name| Key::new(namespace, name))
        .collect()
}
