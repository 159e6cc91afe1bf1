use std::fmt;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::{Condition, QuantityValue, Time};

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
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddresses[0]"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "CPU",
        type_ = "integer",
        json_path = ".status.vcpus",
        description = "Virtual CPUs: cores times sockets times threads",
        priority = 1
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.memory",
        description = "Memory of the guest",
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
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit"))]
    pub name: Option<String>,

    /// Size by template: `small` (1 core, 2Gi, 20Gi root disk), `medium` (2 cores, 4Gi, 40Gi),
    /// `large` (4 cores, 8Gi, 80Gi), or the name of a MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be small, medium or large, or the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub template: Option<String>,

    /// Size by instance type: `small` (1 core, 1Gi), `medium` (2 cores on each of 2 sockets, 2Gi),
    /// `large` (4 cores on each of 2 sockets, 2 threads each, 4Gi), or the name of a
    /// MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be small, medium or large, or the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub instance_type: Option<String>,

    /// Size by the name of a MachineClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be the name of a MachineClass: lower case letters, digits, '-' and '.'"))]
    pub machine_class: Option<String>,

    /// CPU and memory, field by field over the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// CPU, field by field over the size; the same as `resources.cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,

    /// Memory in bytes or as a quantity, over the size; the same as `resources.memory.size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0").message("must be a number of bytes, or a quantity such as 4Gi, of at least 1Mi"))]
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
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0").message("must be a quantity of at least 1Mi, such as 4Gi"))]
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

/// One disk.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.bus) || self.bus != 'virtio'").message("a cdrom cannot be on the virtio bus: use sata or scsi"),
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.boot) || !self.boot").message("boot marks the disk to boot from; to boot from a cdrom put cdrom into bootOrder"),
    validation = Rule::new("!has(oldSelf.size) || has(self.size) && (!isQuantity(self.size) || !isQuantity(oldSelf.size) || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0)").message("a disk can grow but not shrink: give a size that is not below the present one").field_path(".size"),
    validation = Rule::new("has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)").message("storageClass is immutable: a volume cannot move; add a disk under another name").field_path(".storageClass"),
    validation = Rule::new("has(self.accessMode) == has(oldSelf.accessMode) && (!has(self.accessMode) || self.accessMode == oldSelf.accessMode)").message("accessMode is immutable: add a disk under another name").field_path(".accessMode"),
    validation = Rule::new("has(self.volumeMode) == has(oldSelf.volumeMode) && (!has(self.volumeMode) || self.volumeMode == oldSelf.volumeMode)").message("volumeMode is immutable: add a disk under another name").field_path(".volumeMode"),
    validation = Rule::new("has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)").message("source is immutable: it filled the disk once; add a disk under another name").field_path(".source")
)]
pub struct Disk {
    /// Identifies the disk; its claim is named `{machine}-{name}`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit"),
        validation = Rule::new("self != 'cloudinitdisk'").message("cloudinitdisk is the name of the cloud-init volume: choose another")
    )]
    pub name: String,

    /// A quantity, such as `20Gi`. May be left out for a disk that the size brings. Can grow, not
    /// shrink.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0").message("must be a quantity of at least 1Mi, such as 20Gi"))]
    pub size: Option<String>,

    /// StorageClass; absent or `default`: the class of that name, else the cluster's default.
    /// Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub storage_class: Option<String>,

    /// Who can mount the volume. Default: ReadWriteOnce. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,

    /// Default: Filesystem. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,

    /// What the guest sees. Default: disk.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<DiskType>,

    /// How the guest reaches it. Default: virtio, and sata for a cdrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<DiskBus>,

    /// The disk to boot from. Without one: the disk named root, else the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,

    /// What the disk is filled with, once, by CDI. Absent: the disk is empty. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DiskSource>,
}

/// What a disk is filled with: exactly one of these.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.http), has(self.registry), has(self.pvc), has(self.snapshot), has(self.ref), has(self.blank)].filter(given, given).size() == 1").message("give exactly one of http, registry, pvc, snapshot, ref and blank"))]
pub struct DiskSource {
    /// An image behind a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// A container disk in a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// A copy of a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<ObjectSource>,
    /// A copy of a VolumeSnapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectSource>,
    /// A CDI DataSource.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectSource>,
    /// An empty disk, made by CDI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<EmptySource>,
}

/// An image behind a URL.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// Where the image is: `http://` or `https://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^https?://[^/]')").message("must be a URL that begins with http:// or https://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the certificate authority of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub cert_config_map: Option<String>,
}

/// A container disk in a registry.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySource {
    /// Where the image is: `docker://` or `oci-archive://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^(docker|oci-archive)://[^/]')").message("must be an image that begins with docker:// or oci-archive://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the certificate authority of the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub cert_config_map: Option<String>,
    /// Who pulls: the importer pod, or the node through its container runtime. Default: pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<RegistryPullMethod>,
}

/// Another object to copy from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub name: String,
    /// Namespace of the object; the Machine's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Nothing to say.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptySource {}

/// One network interface.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.macAddress) == has(oldSelf.macAddress) && (!has(self.macAddress) || self.macAddress == oldSelf.macAddress)").message("macAddress is immutable: remove the network and add it under another name").field_path(".macAddress"))]
pub struct Network {
    /// Identifies the interface.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-_A-Za-z0-9]*[A-Za-z0-9])?$')").message("must have letters, digits, '-' and '_' only, beginning and ending with a letter or digit"))]
    pub name: String,

    /// The NetworkConfiguration in the Machine's namespace to attach to.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name, as the names of NetworkConfigurations are: lower case letters, digits, '-' and '.'"))]
    pub network_name: String,

    /// Model of the network card. Default: virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<NetworkModel>,

    /// MAC address, such as `52:54:00:12:34:56`; one is made when absent. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17))]
    #[x_kube(
        validation = Rule::new("self.matches('^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$')").message("must be six pairs of hexadecimal digits joined by ':', such as 52:54:00:12:34:56"),
        validation = Rule::new("!self.matches('^[0-9A-Fa-f][13579BDFbdf]:')").message("is a multicast address: the second digit must be even, as in 52:54:00:12:34:56")
    )]
    pub mac_address: Option<String>,
}

/// What cloud-init finds in the guest. Its content is never shown by `Debug`.
#[derive(KubeSchema, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.userData) || has(self.networkData) || has(self.secretRef)").message("give userData, networkData or secretRef, or leave cloudInit out"))]
pub struct CloudInit {
    /// User data, inline. Wins over `secretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 524_288))]
    pub user_data: Option<String>,
    /// Network configuration, version 1 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 262_144))]
    pub network_data: Option<String>,
    /// A Secret in the Machine's namespace that holds the user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CloudInitSecretRef>,
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudInit")
            .field("user_data", &self.user_data.is_some())
            .field("network_data", &self.network_data.is_some())
            .field("secret_ref", &self.secret_ref)
            .finish()
    }
}

/// A key of a Secret.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInitSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be a DNS name: lower case letters, digits, '-' and '.'"))]
    pub name: String,
    /// Key in the Secret. Default: userdata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]+$')").message("must be a key of a Secret: letters, digits, '-', '_' and '.'"))]
    pub key: Option<String>,
}

/// The virtual hardware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.features) || !has(self.features.acpi) || self.features.acpi || !has(self.firmware) || !has(self.firmware.bootloader) || !(has(self.firmware.bootloader.efi) && self.firmware.bootloader.efi || has(self.firmware.bootloader.secureBoot) && self.firmware.bootloader.secureBoot)").message("EFI needs ACPI: leave features.acpi out, or set efi: false"),
    validation = Rule::new("!has(self.machine) || !has(self.machine.type) || !(self.machine.type == 'pc' || self.machine.type.startsWith('pc-i440fx')) || !has(self.firmware) || !has(self.firmware.bootloader) || !has(self.firmware.bootloader.secureBoot) || !self.firmware.bootloader.secureBoot").message("secureBoot needs the q35 chipset: use machine.type pc-q35, or leave it out")
)]
pub struct Domain {
    /// The chipset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<DomainMachine>,
    /// Features of the virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// The firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
}

/// The chipset.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMachine {
    /// `pc-q35` or `pc-i440fx`, or one version of these, such as `pc-q35-9.0`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^(q35|pc|pc-q35(-[-.a-z0-9]+)?|pc-i440fx(-[-.a-z0-9]+)?)$')").message("must be pc-q35 or pc-i440fx, or one version of these, such as pc-q35-9.0"))]
    pub type_: Option<String>,
}

/// Features of the virtual hardware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// ACPI. KubeVirt's default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<bool>,
    /// APIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<bool>,
    /// The usual set of Hyper-V enlightenments, for Windows guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<bool>,
}

/// The firmware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firmware {
    /// The boot loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<Bootloader>,
}

/// The boot loader.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.secureBoot) || !self.secureBoot || !has(self.efi) || self.efi").message("secureBoot needs EFI: set efi: true, or leave it out"))]
pub struct Bootloader {
    /// EFI instead of BIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efi: Option<bool>,
    /// Secure boot; EFI and SMM come with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}

/// Who can mount a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum AccessMode {
    /// One node, read and write.
    ReadWriteOnce,
    /// Many nodes, read and write: live migration is possible.
    ReadWriteMany,
    /// Many nodes, read only.
    ReadOnlyMany,
}

/// How a volume is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum VolumeMode {
    /// As a disk image in a file system.
    Filesystem,
    /// As a raw device.
    Block,
}

/// What the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum DiskType {
    /// A disk.
    Disk,
    /// A CD-ROM.
    Cdrom,
}

/// How the guest reaches a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum DiskBus {
    /// Paravirtualized; needs a driver in the guest.
    Virtio,
    /// SATA.
    Sata,
    /// SCSI.
    Scsi,
}

/// Who pulls a container disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum RegistryPullMethod {
    /// The importer pod.
    Pod,
    /// The node, through its container runtime.
    Node,
}

/// Model of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum NetworkModel {
    /// Paravirtualized.
    Virtio,
    /// Intel E1000.
    E1000,
    /// Realtek RTL8139.
    Rtl8139,
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
    /// Virtual CPUs: cores times sockets times threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<i32>,
    /// Memory of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// When this status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The version of the VirtualMachine that this status was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
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
