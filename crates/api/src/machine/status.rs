//! Status of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field_speaks;
use crate::{Condition, Time};

/// What is known of a virtual machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Where the machine is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// One condition a type; `Ready` sums them up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the spec that this status tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the VirtualMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// Name of the active VirtualMachineInstance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmi_name: Option<String>,
    /// Addresses of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<Vec<String>>,
    /// The node that the machine runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Virtual CPUs of the guest that runs, else of the next one: cores times sockets times threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<i32>,
    /// Memory of the guest that runs, else of the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Virtual CPUs that the spec asks for, while the guest has another number of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_vcpus: Option<i32>,
    /// Memory that the spec asks for, while the guest has another amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_memory: Option<String>,
    /// The disks whose PersistentVolumeClaims are bound and filled. What is recorded here and gone is
    /// reported as lost, and not replaced by an empty disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub disks: Option<Vec<DiskStatus>>,
    /// When this status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The version of the VirtualMachine that this status was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// A disk that holds data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskStatus {
    /// Name of the disk.
    pub name: String,
    /// Name of its PersistentVolumeClaim.
    #[serde(default)]
    #[schemars(!default)]
    pub pvc_name: String,
    /// UID of its PersistentVolumeClaim.
    #[serde(default)]
    #[schemars(!default)]
    pub uuid: String,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
}

/// Where a machine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum Phase {
    /// Not yet looked at.
    Pending,
    /// Its resources are being made.
    Creating,
    /// It runs.
    Running,
    /// It is powered off.
    Stopped,
    /// An error that needs a person.
    Failed,
}
