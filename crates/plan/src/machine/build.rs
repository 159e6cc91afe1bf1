//! Objects from a [`ResolvedMachine`]: pure constructors, one file a kind.
//!
//! The same input gives the same bytes; lists keep the order of the input.

mod cloud_init;
mod disks;
mod networks;
mod vm;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::{
    API_VERSION, ObjectMeta, OwnerReference,
    cdi::DataVolume,
    core::{PersistentVolumeClaim, Secret},
    kubevirt::VirtualMachine,
    labels,
};
pub use networks::attachment_definition;
use serde::Serialize;

use super::{Identity, ResolvedMachine};

/// Everything that a Machine becomes, in the order in which it is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineObjects {
    /// What cloud-init finds.
    pub cloud_init: Option<Secret>,
    /// Disks, in the order of the Machine's.
    pub volumes: Vec<VolumeObject>,
    /// The machine itself.
    pub virtual_machine: VirtualMachine,
}

/// What provides a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VolumeObject {
    /// An empty volume.
    Claim(PersistentVolumeClaim),
    /// A volume that CDI fills.
    DataVolume(DataVolume),
}

/// Builds everything that a Machine becomes.
pub fn build(machine: &ResolvedMachine) -> MachineObjects {
    MachineObjects {
        cloud_init: cloud_init::secret(machine),
        volumes: machine
            .disks
            .iter()
            .map(|disk| disks::volume(machine, disk))
            .collect(),
        virtual_machine: vm::virtual_machine(machine),
    }
}

/// Name, labels and owner of an object that belongs to one Machine.
fn metadata(machine: &Identity, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: machine.namespace.clone(),
        labels: Some(family_labels(machine)),
        owner_references: machine
            .uid
            .as_ref()
            .map(|uid| vec![owner("Machine", machine.name.clone(), uid.clone())]),
        ..ObjectMeta::default()
    }
}

/// The labels by which `kubectl get -l` shows a Machine's whole family.
fn family_labels(machine: &Identity) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned()),
        (labels::MACHINE.to_owned(), machine.name.clone()),
    ])
}

/// A reference to the one object of ours that an object belongs to.
fn owner(kind: &str, name: String, uid: String) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        name,
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
