//! Resolved Machine: the spec with every default, reference and size filled in.

use std::{collections::BTreeMap, fmt};

use api::{
    AccessMode, CloudInitType, DiskBus, HttpSource, HugePages, Json, NetworkModel, ObjectSource,
    PassedThroughDevice, PowerState, RegistrySource, Toleration, Tpm, VolumeMode, WatchdogAction,
    kubevirt::CpuTopology,
};

use super::RemoteCluster;
use crate::{Quantity, naming};

/// A Machine in which nothing is implicit.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedMachine {
    pub identity: Identity,
    pub vm_name: String,
    /// Labels to copy to the instance.
    pub labels: BTreeMap<String, String>,
    /// Annotations to copy to the instance.
    pub annotations: BTreeMap<String, String>,
    /// Those that the VirtualMachine itself has as well.
    pub vm_annotations: BTreeMap<String, String>,
    pub sizing: SizingSource,
    pub cpu: CpuTopology,
    pub memory: Quantity,
    /// In the guest's order.
    pub disks: Vec<ResolvedDisk>,
    /// In the guest's order; at least one, unless the network is pending.
    pub interfaces: Vec<ResolvedInterface>,
    /// Network by NetworkNamespace.
    pub network_namespace: Option<ResolvedNamespace>,
    pub cloud_init: Option<CloudInit>,
    /// QEMU's name of the chipset; KubeVirt's default if absent.
    pub machine_type: Option<String>,
    /// KubeVirt's default if absent.
    pub acpi: Option<bool>,
    /// KubeVirt's default if absent.
    pub apic: Option<bool>,
    pub hyperv: bool,
    /// KubeVirt's default if absent.
    pub bootloader: Option<Bootloader>,
    /// UUID that the guest sees; KubeVirt's if absent.
    pub uuid: Option<String>,
    /// Serial number that the guest sees; KubeVirt's if absent.
    pub serial: Option<String>,
    pub devices: Devices,
    pub access: Access,
    pub placement: Placement,
    pub power_state: PowerState,
}

impl ResolvedMachine {
    /// Virtual CPUs of the guest: cores times sockets times threads.
    pub fn vcpus(&self) -> u32 {
        vcpus(self.cpu)
    }

    /// Whether the guest's network data waits for an address in the ledger.
    pub(crate) fn awaits_address(&self) -> bool {
        let cloud_init = self.cloud_init.as_ref();
        cloud_init.is_some_and(|it| it.network_data == Some(NetworkData::Awaited))
    }
}

/// Virtual CPUs of the guest: cores times sockets times threads.
pub(crate) fn vcpus(cpu: CpuTopology) -> u32 {
    let CpuTopology {
        cores,
        sockets,
        threads,
    } = cpu;
    cores.saturating_mul(sockets).saturating_mul(threads)
}

/// The Machine that an object belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    /// Absent only offline.
    pub namespace: Option<String>,
    /// Absent only offline.
    pub uid: Option<String>,
    /// The cluster of its objects, if it is not the Machine's own.
    pub cluster: Option<RemoteCluster>,
}

/// Source of a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizingSource {
    /// A built-in template.
    Template(&'static str),
    /// A built-in instance type.
    InstanceType(&'static str),
    Class {
        name: String,
        /// Absent only offline.
        generation: Option<i64>,
    },
}

impl fmt::Display for SizingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(name) => write!(f, "template {name}"),
            Self::InstanceType(name) => write!(f, "instanceType {name}"),
            Self::Class { name, .. } => write!(f, "MachineClass {name}"),
        }
    }
}

/// Devices beside disks and interfaces, and how the node provides CPU and memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    pub tpm: Option<Tpm>,
    pub gpus: Vec<PassedThroughDevice>,
    pub host_devices: Vec<PassedThroughDevice>,
    pub hugepages: Option<HugePages>,
    pub has_dedicated_cpus: bool,
    pub has_rng: bool,
    pub watchdog: Option<WatchdogAction>,
}

/// Access to the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Keys of the spec, which are part of the cloud-init data.
    pub ssh_keys: Vec<String>,
    pub key_secrets: Vec<KeySecret>,
    /// KubeVirt's default if absent.
    pub hostname: Option<String>,
    /// KubeVirt's default if absent.
    pub serial_console_log: Option<bool>,
}

/// A Secret with public SSH keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySecret {
    pub name: String,
    /// Users that the guest agent gives the keys to. If empty, cloud-init gives them to its default user.
    pub users: Vec<String>,
}

/// Placement on nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
    pub affinity: Option<Json>,
    pub spread: Option<Spread>,
    pub priority_class_name: Option<String>,
}

/// Distribution of the Machines that have a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    pub topology_key: String,
    pub label: String,
    pub value: String,
    /// Whether the machine waits if it cannot be placed evenly.
    pub is_required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDisk {
    pub name: String,
    pub size: Quantity,
    /// Absent only offline: the cluster's default.
    pub storage_class: Option<String>,
    pub access_mode: AccessMode,
    pub volume_mode: VolumeMode,
    pub type_: DiskType,
    pub bus: DiskBus,
    pub source: ResolvedSource,
    /// Position in the boot order, from 1.
    pub boot_order: Option<u32>,
    pub origin: DiskOrigin,
    /// Name of an adopted claim, which differs from the names of those that the operator creates.
    pub adopted_claim: Option<String>,
}

impl ResolvedDisk {
    /// Name of its claim or DataVolume.
    pub fn claim(&self, machine: &str) -> String {
        let adopted = self.adopted_claim.clone();
        adopted.unwrap_or_else(|| naming::claim(machine, &self.name))
    }
}

/// Why a Machine has a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOrigin {
    /// It comes with the size.
    Size,
    /// The spec lists it.
    Listed,
    /// It is the image that installs the operating system, and contains no user's data.
    Installer,
}

/// Initial content of a disk.
#[derive(Clone, Debug, PartialEq)]
pub enum ResolvedSource {
    /// None: the operator creates the claim, and CDI is not involved.
    Empty,
    /// A DataVolume, which CDI fills once.
    DataVolume(DataVolumeContent),
}

impl ResolvedSource {
    /// Whether a DataVolume creates and fills the claim.
    pub fn is_data_volume(&self) -> bool {
        matches!(self, Self::DataVolume(_))
    }
}

/// What CDI fills a DataVolume with.
#[derive(Clone, Debug, PartialEq)]
pub enum DataVolumeContent {
    Http(HttpSource),
    Registry(RegistrySource),
    Pvc(ObjectSource),
    Snapshot(ObjectSource),
    /// Whatever a DataSource refers to.
    DataSource(ObjectSource),
    /// An empty disk image.
    Blank,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedInterface {
    pub name: String,
    pub attachment: Attachment,
    pub model: NetworkModel,
    /// KubeVirt generates one if absent.
    pub mac_address: Option<String>,
    /// Position in the boot order, from 1.
    pub boot_order: Option<u32>,
}

/// The NetworkNamespace of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedNamespace {
    pub name: String,
    /// Absent only if it does not exist.
    pub uid: Option<String>,
    /// The operator that allocates addresses; absent if it does not exist.
    pub provider: Option<String>,
    /// What the Machine waits for before it can attach.
    pub pending: Option<String>,
}

/// Network of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The pod network, behind the pod's address.
    PodNetwork,
    /// The network of a NetworkConfiguration, by name.
    Network(String),
    /// The VLAN of a NetworkNamespace, on [`naming::VLAN_BRIDGE`](crate::naming::VLAN_BRIDGE); 0 is
    /// untagged.
    Vlan(u16),
}

#[derive(Clone, PartialEq, Eq)]
pub struct CloudInit {
    pub type_: CloudInitType,
    pub user_data: Option<UserData>,
    pub network_data: Option<NetworkData>,
    /// Public keys that are added to the user data.
    pub ssh_keys: Vec<String>,
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudInit")
            .field("type_", &self.type_)
            .field("user_data", &self.user_data.is_some())
            .field("network_data", &self.network_data.is_some())
            .field("ssh_keys", &self.ssh_keys)
            .finish()
    }
}

#[derive(Clone, PartialEq, Eq)]
pub enum UserData {
    Content(Vec<u8>),
    /// In an object that is not read; only offline.
    Unread,
    /// Elided from the cached Machine. This is the digest of all cloud-init data.
    Elided(String),
}

#[derive(Clone, PartialEq, Eq)]
pub enum NetworkData {
    Content(String),
    /// In an object that is not read; only offline.
    Unread,
    /// Made of the addresses in the spec.
    Generated(String),
    /// Made of the address in the Machine's ledger.
    Recorded(String),
    /// Will be made of the address in the Machine's ledger, which has none yet or has lost it.
    Awaited,
}

impl NetworkData {
    /// What the Machine's spec gives; empty if it is not read or gives none.
    pub(crate) fn content(&self) -> &str {
        match self {
            Self::Content(content) => content,
            Self::Unread | Self::Generated(_) | Self::Recorded(_) | Self::Awaited => "",
        }
    }
}

/// Type of device in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskType {
    Disk,
    Cdrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootloader {
    Bios,
    Efi {
        /// Only signed boot loaders.
        secure_boot: bool,
    },
}
