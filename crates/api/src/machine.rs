//! The Machine resource.

mod access;
mod cloud_init;
mod devices;
mod disk;
mod domain;
mod network;
mod placement;
mod stack;
mod status;

use std::collections::BTreeMap;

pub use access::SshKeySecret;
pub use cloud_init::{CloudInit, CloudInitConfigMapRef, CloudInitSecretRef, CloudInitType};
pub use devices::{HugePages, PassedThroughDevice, Tpm, Watchdog, WatchdogAction};
pub use disk::{
    AccessMode, Disk, DiskBus, DiskSource, EmptySource, HttpSource, ObjectSource,
    RegistryPullMethod, RegistrySource, VolumeMode,
};
pub use domain::{Bootloader, Domain, DomainMachine, Features, Firmware};
use kube::{CustomResource, KubeSchema};
pub use network::{Network, NetworkModel};
pub use placement::{SpreadBy, TaintEffect, Toleration, TolerationOperator};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
pub use stack::{
    Architecture, Backup, CredentialsRef, MachineNetwork, MachineNetworkInterface, MachineOs,
    ProviderConfig,
};
pub use status::{DiskStatus, GuestAddresses, InterfaceStatus, MachineStatus, Phase};

use crate::{Json, QuantityValue, rules};

/// Drops the description of an enumeration. The field's own description names the default.
pub(crate) fn omit_description(schema: &mut Schema) {
    schema.remove("description");
}

/// Desired state of a virtual machine. Every field is optional: an empty spec is a machine of the
/// default size.
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
    doc = "A virtual machine. The operator creates a KubeVirt VirtualMachine with its disks, networks and cloud-init data for it, and keeps them in sync.",
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
        description = "Whether a change needs a restart of the guest to take effect"
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
        description = "Virtual CPUs that the spec requests, while the guest has a different number",
        priority = 1
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.memoryQuantity",
        description = "Memory of the guest",
        priority = 1
    ),
    printcolumn(
        name = "Requested Memory",
        type_ = "string",
        json_path = ".status.requestedMemory",
        description = "Memory that the spec requests, while the guest has a different amount",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters: it becomes the value of the label vitistack.io/machine"),
    validation = Rule::new("!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.name) ? self.spec.name : self.metadata.name) == (has(oldSelf.spec.name) ? oldSelf.spec.name : oldSelf.metadata.name)").message("spec.name is immutable: it names the VirtualMachine; make a new Machine for another name").field_path(".spec.name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.template), has(self.instanceType), has(self.machineClass)].filter(given, given).size() <= 1").message("give at most one of template, instanceType and machineClass"),
    validation = Rule::new("!has(self.resources) || !(has(self.cpu) || has(self.memory))").message("resources and cpu/memory say the same thing: give one or the other"),
    validation = Rule::new("!has(self.networks) || self.networks.size() == 0 || !has(self.network) || !has(self.network.networkNamespaceName) || self.network.networkNamespaceName == ''").message("networks and network.networkNamespaceName say the same thing: give one or the other")
)]
pub struct MachineSpec {
    /// Name of the VirtualMachine. Defaults to the name of the Machine. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: Option<String>,

    /// Provider of the machine. This operator acts on Machines of its own provider, `kubevirt` unless
    /// its settings name another, and on those without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub provider: Option<String>,

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

    /// CPU and memory that override those of the size, field by field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// CPU that overrides that of the size, field by field. Alternative to `resources.cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,

    /// Memory in bytes or as a quantity, which overrides that of the size. Alternative to
    /// `resources.memory.size`. 0 counts as not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT_OR_ZERO).message(rules::AMOUNT_OR_BYTES),
        validation = Rule::new(rules::IS_COUNTABLE_OR_BYTES).message(rules::COUNTABLE)
    )]
    pub memory: Option<QuantityValue>,

    /// Disks, merged by name with those of the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.filter(disk, has(disk.boot) && disk.boot).size() <= 1").message("mark at most one disk with boot: true")
    )]
    pub disks: Option<Vec<Disk>>,

    /// Network interfaces, in the guest's order. Defaults to one interface on the pod network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.all(nic, !has(nic.macAddress) || self.exists_one(other, has(other.macAddress) && other.macAddress.lowerAscii() == nic.macAddress.lowerAscii()))").message("two networks have the same macAddress: give each its own, or leave it out to have one made"),
        validation = Rule::new("self.filter(nic, has(nic.pod) && nic.pod).size() <= 1").message("a machine has one interface on the pod network: mark at most one network with pod: true")
    )]
    pub networks: Option<Vec<Network>>,

    /// Network by NetworkNamespace. Alternative to `networks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetwork>,

    /// Operating system, and the image that installs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<MachineOs>,

    /// Kinds of devices to boot from, in order. Defaults to the boot disk; with `os` or `network`, to the
    /// boot disk and then the installer image or the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub boot_order: Option<Vec<BootDevice>>,

    /// Cloud-init data for the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,

    /// The virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,

    /// Labels of the nodes that the machine may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Taints of nodes that the machine tolerates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tolerations: Option<Vec<Toleration>>,

    /// Affinity to nodes and pods, as in Pods. Unknown fields are reported in the condition SpecValid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::open_object")]
    pub affinity: Option<Json>,

    /// Topology over which Machines with the same label are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by: Option<SpreadBy>,

    /// PriorityClass of the machine's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be the name of a PriorityClass: lower case letters, digits, '-' and '.'"))]
    pub priority_class_name: Option<String>,

    /// Whether the machine runs. Defaults to Running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,

    /// Set to a new time (RFC 3339) to restart the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub restarted_at: Option<String>,

    /// What happens to disks. Delete: a disk is deleted with the Machine, and when it is removed from
    /// `disks`. Retain: disks are never deleted. If not set, disks are deleted with the Machine, but a
    /// disk that is removed from `disks` is only detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// Whether the machine is protected from deletion. While true, the webhook refuses the deletion of the
    /// Machine. If it is deleted anyway, its finalizer keeps it, and the guest runs on, until this is set
    /// to false. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// Tags of the machine. Information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,

    /// Machine type of a cloud provider. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,

    /// Configuration of a cloud provider. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderConfig>,

    /// Public SSH keys, which cloud-init gives to its default user. They are added to the user data of
    /// `cloudInit` if that is a cloud-config or a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_keys: Option<Vec<String>>,

    /// Secrets with public SSH keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub ssh_key_secrets: Option<Vec<SshKeySecret>>,

    /// Host name of the guest. Defaults to the name of the VirtualMachine up to its first dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message(rules::DNS_LABEL))]
    pub hostname: Option<String>,

    /// Whether the output of the serial console is written to the log of the container `guest-console-log`
    /// in the machine's pod. Defaults to KubeVirt's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_console_log: Option<bool>,

    /// Script for the first boot. For other providers: use `cloudInit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,

    /// Security groups. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,

    /// Whether the machine is monitored. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<bool>,

    /// Backups. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
}

/// CPU and memory that override those of the size.
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

/// CPU topology. The guest has cores times sockets times threads virtual CPUs.
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
    /// Number of sockets.
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

/// CPU topology. The guest has cores times sockets times threads virtual CPUs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Cores per socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 512))]
    pub cores: Option<i32>,
    /// Number of sockets.
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
#[schemars(transform = omit_description)]
pub enum BootDevice {
    /// Disks.
    Disk,
    /// Network interfaces.
    Network,
    /// CD-ROMs.
    Cdrom,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum PowerState {
    /// Powered on.
    #[default]
    Running,
    /// Powered off.
    Stopped,
    /// Powered on, with its CPUs paused.
    Paused,
}

/// What happens to disks that are no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum DeletionPolicy {
    /// Delete the disks.
    Delete,
    /// Keep the disks.
    Retain,
}
