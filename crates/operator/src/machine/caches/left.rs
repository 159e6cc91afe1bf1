//! Objects of Machines by the name in their label, whether the Machine exists or not.

use std::collections::BTreeSet;

use api::ObjectMeta;
use plan::machine::Kind;
use runtime::cache::{Cache, Key};
use serde::Deserialize;

use super::Caches;
use crate::machine::packed::Packed;

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

impl Caches {
    /// The Machines that labels of cached objects name.
    pub(in crate::machine) fn machines_of_children(&self) -> BTreeSet<Key> {
        let vms = named(&self.virtual_machines);
        let volumes = named(&self.data_volumes);
        vms.chain(named(&self.claims)).chain(volumes).collect()
    }

    /// VirtualMachines and disks whose labels name one of these Machines.
    pub(in crate::machine) fn children_of_any(
        &self,
        machines: &BTreeSet<Key>,
    ) -> impl Iterator<Item = (Key, Kind, ObjectMeta)> {
        let vms = of_any(&self.virtual_machines, Kind::VirtualMachine, machines);
        let claims = of_any(&self.claims, Kind::PersistentVolumeClaim, machines);
        let volumes = of_any(&self.data_volumes, Kind::DataVolume, machines);
        vms.chain(claims).chain(volumes)
    }
}

fn named<T, I: Ord + Clone>(cache: &Cache<Packed<T>, I>) -> impl Iterator<Item = Key> {
    cache
        .iter()
        .filter_map(|(_, child)| child.machine().cloned())
}

fn of_any<T, I: Ord + Clone>(
    cache: &Cache<Packed<T>, I>,
    kind: Kind,
    machines: &BTreeSet<Key>,
) -> impl Iterator<Item = (Key, Kind, ObjectMeta)> {
    cache.iter().filter_map(move |(_, child)| {
        let machine = child.machine().filter(|it| machines.contains(it))?;
        let MetadataOnly { metadata } = child.read()?;
        Some((machine.clone(), kind, metadata))
    })
}
