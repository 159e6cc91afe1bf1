//! Copy of the caches for a simulation.

use std::{collections::BTreeMap, sync::Arc};

use plan::{
    Id,
    machine::{
        Kind,
        simulation::{self, Simulation},
    },
};
use runtime::cache::{Cache, CachedObject, Key};
use serde::Serialize;
use serde_json::Value;

use super::{Caches, Subject};
use crate::machine::{packed::Packed, paths::Owner};

impl Subject {
    /// Identity in a simulation.
    pub(in crate::machine) fn id(&self) -> Id {
        let Key { namespace, name } = &self.key;
        match self.owner {
            Owner::Machine => simulation::machine(namespace, name),
            Owner::Network => simulation::network(namespace, name),
        }
    }
}

impl Caches {
    /// Simulated cluster with all cached objects.
    pub(in crate::machine) fn simulation(&self) -> Simulation {
        let mut objects = BTreeMap::new();
        let machine = |key: &Key| simulation::machine(&key.namespace, &key.name);
        let network = |key: &Key| simulation::network(&key.namespace, &key.name);
        let class = |key: &Key| simulation::machine_class(&key.name);
        objects.extend(values(&self.machines, machine));
        objects.extend(values(&self.networks, network));
        objects.extend(values(&self.ledgers, network));
        let namespace = |key: &Key| simulation::network_namespace(&key.namespace, &key.name);
        objects.extend(values(&self.network_namespaces, namespace));
        objects.extend(values(&self.classes, class));
        let attachment = |key: &Key| child(Kind::NetworkAttachmentDefinition, key);
        objects.extend(values(&self.attachments, attachment));
        objects.extend(unpacked(&self.virtual_machines, Kind::VirtualMachine));
        objects.extend(unpacked(&self.instances, Kind::VirtualMachineInstance));
        objects.extend(unpacked(&self.claims, Kind::PersistentVolumeClaim));
        objects.extend(unpacked(&self.data_volumes, Kind::DataVolume));
        let storage_classes = self.known_storage_classes.clone();
        Simulation::new(
            objects,
            storage_classes,
            self.installed(),
            self.provider.clone(),
        )
    }
}

fn child(kind: Kind, key: &Key) -> Id {
    simulation::child(kind, &key.namespace, &key.name)
}

fn values<T, I>(cache: &Cache<T, I>, id: impl Fn(&Key) -> Id) -> impl Iterator<Item = (Id, Value)>
where
    T: CachedObject + Serialize,
    I: Ord + Clone,
{
    let objects = cache.iter();
    objects.filter_map(move |(key, object)| {
        Some((id(key), serde_json::to_value(Arc::as_ref(object)).ok()?))
    })
}

fn unpacked<T, I>(cache: &Cache<Packed<T>, I>, kind: Kind) -> impl Iterator<Item = (Id, Value)>
where
    I: Ord + Clone,
{
    let objects = cache.iter();
    objects.filter_map(move |(key, object)| Some((child(kind, key), object.read()?)))
}
