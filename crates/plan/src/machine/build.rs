//! Desired objects of a [`ResolvedMachine`], one file per kind.
//!
//! Pure constructors: the same input gives the same bytes, and lists keep the order of the input.

mod cloud_init;
mod disks;
mod ledger;
mod networks;
mod vm;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::{
    API_VERSION, NetworkConfiguration, ObjectMeta, OwnerReference,
    cdi::DataVolume,
    core::{PersistentVolumeClaim, Secret},
    kubevirt::VirtualMachine,
    multus::NetworkAttachmentDefinition,
};
pub(super) use networks::remote_definition;
pub use networks::{attachment_definition, vlan_definition};
use serde::Serialize;

use super::{Identity, ResolvedMachine, cluster::child_label_entries};

/// The desired objects of a Machine, in the order in which they are needed.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineObjects {
    /// Address ledger.
    pub ledger: Option<NetworkConfiguration>,
    /// Definitions of its VLANs.
    pub attachments: Vec<NetworkAttachmentDefinition>,
    pub cloud_init: Option<Secret>,
    /// In the order of the Machine's disks.
    pub volumes: Vec<VolumeObject>,
    pub virtual_machine: VirtualMachine,
}

/// The object that provides a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VolumeObject {
    Claim(PersistentVolumeClaim),
    DataVolume(DataVolume),
}

pub fn build(machine: &ResolvedMachine) -> MachineObjects {
    MachineObjects {
        ledger: ledger::ledger(machine),
        attachments: machine
            .interfaces
            .iter()
            .filter_map(|interface| vlan_definition(machine, interface))
            .collect(),
        cloud_init: cloud_init::secret(machine),
        volumes: machine
            .disks
            .iter()
            .map(|disk| disks::volume(machine, disk))
            .collect(),
        virtual_machine: vm::virtual_machine(machine),
    }
}

/// Name, labels and owner reference of a child of a Machine.
fn metadata(machine: &Identity, name: String) -> ObjectMeta {
    let mut labels = BTreeMap::new();
    add_child_labels(&mut labels, machine);
    labelled(machine, name, labels)
}

/// The same with other labels.
fn labelled(machine: &Identity, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: machine.namespace.clone(),
        labels: Some(labels),
        // The garbage collector of another cluster would delete the object.
        owner_references: machine
            .uid
            .as_ref()
            .filter(|_| machine.cluster.is_none())
            .map(|uid| vec![owner("Machine", machine.name.clone(), uid.clone())]),
        ..ObjectMeta::default()
    }
}

/// Adds the labels that select all children of a Machine.
fn add_child_labels(labels: &mut BTreeMap<String, String>, machine: &Identity) {
    labels.extend(child_label_entries(machine));
}

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
