//! Objects that a diagnosis is computed from, reduced to the fields that it reads.

use api::{
    Machine, NetworkConfiguration, ObjectMeta, ObservedCondition, Time,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{InstancePhase, ObservedVirtualMachine},
};
use serde::Deserialize;

use crate::machine::Provider;

/// A Machine and what surrounds it, as read at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub machine: Machine,
    /// Provider of the operator in this cluster.
    pub provider: Provider,
    pub vm: Option<ObservedVirtualMachine>,
    pub instance: Option<Instance>,
    /// Launcher pods of the VirtualMachine, also those of earlier instances and of migrations.
    pub launchers: Vec<Pod>,
    /// Pods that fill the Machine's disks.
    pub importers: Vec<Pod>,
    pub claims: Vec<ObservedClaim>,
    pub volumes: Vec<ObservedDataVolume>,
    pub networks: Vec<NetworkConfiguration>,
    pub nodes: Vec<Node>,
    pub migrations: Vec<Operation>,
    pub snapshots: Vec<Operation>,
    pub restores: Vec<Operation>,
    pub events: Vec<Event>,
    /// Pods of KubeVirt's components; none if they could not be read, or are not there.
    pub components: Vec<Pod>,
    /// Whether the CustomResourceDefinition of VirtualMachines exists.
    pub is_kubevirt_installed: bool,
    /// What the API server answered for virt-api, if it did not answer.
    pub virt_api_failure: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Instance {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: InstanceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    #[serde(default)]
    pub phase: InstancePhase,
    #[serde(default)]
    pub node_name: String,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
    #[serde(default)]
    pub migration_state: Option<MigrationState>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationState {
    #[serde(default)]
    pub migration_uid: String,
    #[serde(default)]
    pub failure_reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Pod {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    #[serde(default)]
    pub node_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
    #[serde(default)]
    pub init_container_statuses: Vec<Container>,
    #[serde(default)]
    pub container_statuses: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub image: String,
    #[serde(default)]
    pub ready: bool,
    #[serde(default)]
    pub restart_count: i64,
    #[serde(default)]
    pub state: ContainerState,
    #[serde(default)]
    pub last_state: ContainerState,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ContainerState {
    #[serde(default)]
    pub waiting: Option<Waiting>,
    #[serde(default)]
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Waiting {
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    #[serde(default)]
    pub exit_code: i64,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Node {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeStatus {
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

/// A migration, snapshot or restore of a VirtualMachine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Operation {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: OperationSpec,
    #[serde(default)]
    pub status: OperationStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationSpec {
    /// Of a migration.
    #[serde(default)]
    pub vmi_name: String,
    /// Of a snapshot.
    #[serde(default)]
    pub source: Reference,
    /// Of a restore.
    #[serde(default)]
    pub target: Reference,
}

impl OperationSpec {
    /// Whether the operation is one of this VirtualMachine.
    pub fn concerns(&self, vm: &str) -> bool {
        [&self.vmi_name, &self.source.name, &self.target.name]
            .into_iter()
            .any(|name| name == vm)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Reference {
    #[serde(default)]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub ready_to_use: bool,
    #[serde(default)]
    pub complete: bool,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub involved_object: Involved,
    #[serde(default, rename = "type")]
    pub severity: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub count: i64,
    #[serde(default)]
    pub first_timestamp: Option<Time>,
    #[serde(default)]
    pub last_timestamp: Option<Time>,
    #[serde(default)]
    pub event_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Involved {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
}

impl Event {
    /// Time of the last occurrence.
    pub fn last(&self) -> Option<&Time> {
        self.last_timestamp
            .as_ref()
            .or(self.event_time.as_ref())
            .or(self.first_timestamp.as_ref())
            .or(self.metadata.creation_timestamp.as_ref())
    }

    /// Whether the Event is one of this object, not of an earlier one with its name.
    pub fn is_of(&self, kind: &str, metadata: &ObjectMeta) -> bool {
        let name = metadata.name.as_deref().unwrap_or_default();
        let uid = metadata.uid.as_deref().unwrap_or_default();
        self.involved_object.kind == kind
            && self.involved_object.name == name
            && (self.involved_object.uid.is_empty() || self.involved_object.uid == uid)
    }

    pub fn is_warning(&self) -> bool {
        self.severity == "Warning"
    }
}
