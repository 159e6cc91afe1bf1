//! Observed VirtualMachines and VirtualMachineInstances.

use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::{Json, ObjectMeta, ObservedCondition, QuantityValue};

/// A VirtualMachine as read from the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "super::VirtualMachine")]
pub struct ObservedVirtualMachine {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Json,
    #[serde(default)]
    pub status: VirtualMachineStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    #[serde(default)]
    pub printable_status: String,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
    /// Set after a failed start, until one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    #[serde(default)]
    pub consecutive_fail_count: i64,
}

/// A VirtualMachineInstance as read from the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "instance::VirtualMachineInstance")]
pub struct ObservedInstance {
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Json>,
    #[serde(default)]
    pub status: InstanceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    #[serde(default)]
    pub phase: InstancePhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The node that is being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evacuation_node_name: Option<String>,
    #[serde(default)]
    pub interfaces: Vec<ObservedInterface>,
    #[serde(
        default,
        rename = "currentCPUTopology",
        skip_serializing_if = "Option::is_none"
    )]
    pub current_cpu_topology: Option<ObservedTopology>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ObservedMemory>,
    /// Absent without a guest agent.
    #[serde(
        default,
        rename = "guestOSInfo",
        skip_serializing_if = "Option::is_none"
    )]
    pub guest_os_info: Option<ObservedGuestOs>,
    #[serde(default)]
    pub volume_status: Vec<ObservedVolume>,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTopology {
    #[serde(default)]
    pub cores: u32,
    #[serde(default)]
    pub sockets: u32,
    #[serde(default)]
    pub threads: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedMemory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_current: Option<QuantityValue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InstancePhase {
    Pending,
    Scheduling,
    Scheduled,
    Running,
    Succeeded,
    /// The guest crashed, or could not start.
    Failed,
    /// Missing, lost with its node, or a phase of a later KubeVirt.
    #[default]
    #[serde(other)]
    Unknown,
}

impl InstancePhase {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedInterface {
    /// Name in the spec. Absent for interfaces that only the guest knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Sources of these facts, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_state: Option<String>,
    /// The primary address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    #[serde(default)]
    pub ip_addresses: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedVolume {
    #[serde(default)]
    pub name: String,
    /// Device in the guest, without its folder; empty until the guest has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
}

/// Operating system that a guest agent reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedGuestOs {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pretty_name: String,
}

/// Provides group, version and kind only.
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
