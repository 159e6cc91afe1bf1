//! What KubeVirt tells of its machines.

use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::{Json, ObjectMeta, ObservedCondition, QuantityValue};

/// A VirtualMachine as it is in the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "super::VirtualMachine")]
pub struct ObservedVirtualMachine {
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub spec: Json,
    /// What it is.
    #[serde(default)]
    pub status: VirtualMachineStatus,
}

/// What a VirtualMachine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// In a word, for people.
    #[serde(default)]
    pub printable_status: String,
    /// One a type.
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
    /// Set after a start that failed, until one goes well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
}

/// Starts of a VirtualMachine that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// How many of them, in a row.
    #[serde(default)]
    pub consecutive_fail_count: i64,
}

/// A VirtualMachineInstance as it is in the cluster: one run of a virtual machine.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "instance::VirtualMachineInstance")]
pub struct ObservedInstance {
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Json>,
    /// What it is.
    #[serde(default)]
    pub status: InstanceStatus,
}

/// What a VirtualMachineInstance is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Where it is in its life.
    #[serde(default)]
    pub phase: InstancePhase,
    /// The node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The node it is being driven from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evacuation_node_name: Option<String>,
    /// Interfaces and their addresses.
    #[serde(default)]
    pub interfaces: Vec<ObservedInterface>,
    /// The processors that the guest has.
    #[serde(
        default,
        rename = "currentCPUTopology",
        skip_serializing_if = "Option::is_none"
    )]
    pub current_cpu_topology: Option<ObservedTopology>,
    /// The memory that the guest has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ObservedMemory>,
    /// The volumes that the guest has.
    #[serde(default)]
    pub volume_status: Vec<ObservedVolume>,
    /// One a type.
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

/// Processors of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTopology {
    /// Cores per socket.
    #[serde(default)]
    pub cores: u32,
    /// Sockets.
    #[serde(default)]
    pub sockets: u32,
    /// Threads per core.
    #[serde(default)]
    pub threads: u32,
}

/// Memory of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedMemory {
    /// What it has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_current: Option<QuantityValue>,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InstancePhase {
    /// Accepted.
    Pending,
    /// Its pod is being placed.
    Scheduling,
    /// Its pod is on a node.
    Scheduled,
    /// The guest runs.
    Running,
    /// The guest shut down.
    Succeeded,
    /// The guest crashed, or could not start.
    Failed,
    /// Not told, its node does not answer, or a phase of a later KubeVirt.
    #[default]
    #[serde(other)]
    Unknown,
}

impl InstancePhase {
    /// Whether it came to its end.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// An interface of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedInterface {
    /// The interface's name in the spec; what only the guest knows has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its first address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// All its addresses.
    #[serde(default)]
    pub ip_addresses: Vec<String>,
}

/// A volume of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedVolume {
    /// Name of the disk.
    #[serde(default)]
    pub name: String,
}

/// Only the name and group of the kind are wanted of this.
mod instance {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
    #[kube(
        group = "kubevirt.io",
        version = "v1",
        kind = "VirtualMachineInstance",
        namespaced,
        schema = "disabled"
    )]
    pub struct VirtualMachineInstanceSpec {}
}
