//! The Machine resource.

mod cloud_init;
mod disk;
mod domain;
mod network;
mod status;

pub use cloud_init::{CloudInit, CloudInitSecretRef};
pub use disk::{
    AccessMode, Disk, DiskBus, DiskSource, DiskType, EmptySource, HttpSource, ObjectSource,
    RegistryPullMethod, RegistrySource, VolumeMode,
};
pub use domain::{Bootloader, Domain, DomainMachine, Features, Firmware};
use kube::{CustomResource, KubeSchema};
pub use network::{Network, NetworkModel};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
pub use status::{DiskStatus, MachineStatus, Phase};

use crate::{QuantityValue, rules};

/// Leaves the description of an enumeration to the field that has it: the field knows the default.
fn field_speaks(schema: &mut Schema) {
    schema.remove("description");
}

/// What a virtual machine should be.
///
/// Every field is optional: an empty spec is a machine of the default size.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    singular = "machine",
    shortname = "m",
    category = "all",
    category = "vitistack",
    namespaced,
    status = "MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A virtual machine, in a few lines. It becomes a KubeVirt VirtualMachine with its disks, networks and cloud-init, and is kept in step with it for life.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddresses[0]"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Restart Required",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"RestartRequired\")].status",
        description = "Whether a change takes effect only when the guest is restarted"
    ),
    printcolumn(
        name = "CPU",
        type_ = "integer",
        json_path = ".status.vcpus",
        description = "Virtual CPUs of the guest: cores times sockets times threads",
        priority = 1
    ),
    printcolumn(
        name = "Requested CPU",
        type_ = "integer",
        json_path = ".status.requestedVcpus",
        description = "Virtual CPUs that the spec asks for, while the guest has another number",
        priority = 1
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.memory",
        description = "Memory of the guest",
        priority = 1
    ),
    printcolumn(
        name = "Requested Memory",
        type_ = "string",
        json_path = ".status.requestedMemory",
        description = "Memory that the spec asks for, while the guest has another amount",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters: it becomes the value of the label vitistack.io/machine"),
    validation = Rule::new("!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.name) ? self.spec.name : self.metadata.name) == (has(oldSelf.spec.name) ? oldSelf.spec.name : oldSelf.metadata.name)").message("spec.name is immutable: it names the VirtualMachine; make a new Machine for another name").field_path(".spec.name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.template), has(self.instanceType), has(self.machineClass)].filter(given, given).size() <= 1").message("give at most one of template, instanceType and machineClass"),
    validation = Rule::new("!has(self.resources) || !(has(self.cpu) || has(self.memory))").message("resources and cpu/memory say the same thing: give one or the other")
)]
pub struct MachineSpec {
    /// Name of the VirtualMachine; the Machine's own name when absent. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: Option<String>,

    /// Size by template: `small` (1 core, 2Gi, 20Gi root disk), `medium` (2 cores, 4Gi, 40Gi),
    /// `large` (4 cores, 8Gi, 80Gi), or the name of a MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be small, medium or large, or the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub template: Option<String>,

    /// Size by instance type: `small` (1 core, 1Gi), `medium` (2 cores on each of 2 sockets, 2Gi),
    /// `large` (4 cores on each of 2 sockets, 2 threads each, 4Gi), or the name of a
    /// MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be small, medium or large, or the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub instance_type: Option<String>,

    /// Size by the name of a MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub machine_class: Option<String>,

    /// CPU and memory, field by field over the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// CPU, field by field over the size; the same as `resources.cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,

    /// Memory in bytes or as a quantity, over the size; the same as `resources.memory.size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT_OR_BYTES).message(rules::AMOUNT_OR_BYTES),
        validation = Rule::new(rules::IS_COUNTABLE_OR_BYTES).message(rules::COUNTABLE)
    )]
    pub memory: Option<QuantityValue>,

    /// Disks, merged by name over those of the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.filter(disk, has(disk.boot) && disk.boot).size() <= 1").message("mark at most one disk with boot: true")
    )]
    pub disks: Option<Vec<Disk>>,

    /// Network interfaces, in the order the guest sees them. None: one interface on the pod
    /// network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.all(nic, !has(nic.macAddress) || self.exists_one(other, has(other.macAddress) && other.macAddress.lowerAscii() == nic.macAddress.lowerAscii()))").message("two networks have the same macAddress: give each its own, or leave it out to have one made")
    )]
    pub networks: Option<Vec<Network>>,

    /// Kinds of devices to boot from, in order. None: the boot disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub boot_order: Option<Vec<BootDevice>>,

    /// What cloud-init finds in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,

    /// The virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,

    /// Whether the machine should run. Default: Running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,

    /// Change this to another time (RFC 3339) to ask for a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub restarted_at: Option<String>,

    /// What becomes of disks. Delete: a disk goes with the Machine, and when it is removed from
    /// `disks`. Retain: disks are always kept. Absent: disks go with the Machine, but a disk that
    /// is removed from `disks` is only detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// CPU and memory over the size.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// CPU topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<ResourceCpu>,
    /// Memory of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ResourceMemory>,
}

/// CPU topology; the guest sees cores times sockets times threads.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCpu {
    /// Cores per socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 512))]
    pub cores: Option<i32>,
    /// Threads per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub threads: Option<i32>,
    /// Sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub sockets: Option<i32>,
}

/// Memory of the guest.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMemory {
    /// A quantity, such as `4Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT).message("must be a quantity of at least 1Mi, such as 4Gi"),
        validation = Rule::new(rules::IS_COUNTABLE).message(rules::COUNTABLE)
    )]
    pub size: Option<String>,
}

/// CPU topology; the guest sees cores times sockets times threads.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Cores per socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 512))]
    pub cores: Option<i32>,
    /// Sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub sockets: Option<i32>,
    /// Threads per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub threads_per_core: Option<i32>,
}

/// A kind of device to boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum BootDevice {
    /// Disks.
    Disk,
    /// Network interfaces.
    Network,
    /// CD-ROMs.
    Cdrom,
}

/// Whether a machine should run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum PowerState {
    /// Powered on.
    #[default]
    Running,
    /// Powered off.
    Stopped,
    /// Powered on, its CPUs held.
    Paused,
}

/// What becomes of disks that are no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum DeletionPolicy {
    /// They are deleted.
    Delete,
    /// They are kept.
    Retain,
}
