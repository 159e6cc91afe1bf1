use std::{collections::BTreeMap, fmt};

use api::{
    AccessMode, DiskBus, DiskSource, DiskType, NetworkModel, PowerState, VolumeMode,
    kubevirt::CpuTopology,
};

use crate::Quantity;

/// A Machine in which nothing is implicit.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedMachine {
    /// Which Machine it is.
    pub identity: Identity,
    /// Name of the VirtualMachine.
    pub vm_name: String,
    /// Labels that are passed on to the instance.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are passed on to the instance.
    pub annotations: BTreeMap<String, String>,
    /// Where the size came from.
    pub sizing: SizingSource,
    /// CPU topology.
    pub cpu: CpuTopology,
    /// Memory of the guest.
    pub memory: Quantity,
    /// Disks, in the order the guest sees them.
    pub disks: Vec<ResolvedDisk>,
    /// Interfaces, in the order the guest sees them; at least one.
    pub interfaces: Vec<ResolvedInterface>,
    /// What cloud-init finds.
    pub cloud_init: Option<CloudInit>,
    /// The chipset, as QEMU calls it; KubeVirt's own default when absent.
    pub machine_type: Option<String>,
    /// ACPI; KubeVirt's own default when absent.
    pub acpi: Option<bool>,
    /// APIC; KubeVirt's own default when absent.
    pub apic: Option<bool>,
    /// Hyper-V enlightenments.
    pub hyperv: bool,
    /// What boots the machine; KubeVirt's own default when absent.
    pub bootloader: Option<Bootloader>,
    /// Whether it should run.
    pub power_state: PowerState,
}

impl ResolvedMachine {
    /// What the guest sees: cores times sockets times threads.
    pub fn vcpus(&self) -> u32 {
        vcpus(self.cpu)
    }
}

/// What the guest sees: cores times sockets times threads.
pub(crate) fn vcpus(cpu: CpuTopology) -> u32 {
    let CpuTopology {
        cores,
        sockets,
        threads,
    } = cpu;
    cores.saturating_mul(sockets).saturating_mul(threads)
}

/// Which Machine something belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the Machine.
    pub name: String,
    /// Namespace of the Machine; absent only offline.
    pub namespace: Option<String>,
    /// UID of the Machine; absent only offline.
    pub uid: Option<String>,
}

/// Where a size came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizingSource {
    /// The reference's table.
    Template(&'static str),
    /// The overview's table.
    InstanceType(&'static str),
    /// A MachineClass, and the generation of it.
    Class {
        /// Its name.
        name: String,
        /// Its generation; absent only offline.
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

/// A disk with everything decided.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDisk {
    /// Identifies the disk in the Machine.
    pub name: String,
    /// Its size.
    pub size: Quantity,
    /// Its class of storage. Absent only offline: the cluster then decides.
    pub storage_class: Option<String>,
    /// Who can mount it.
    pub access_mode: AccessMode,
    /// How it is presented.
    pub volume_mode: VolumeMode,
    /// What the guest sees.
    pub type_: DiskType,
    /// How the guest reaches it.
    pub bus: DiskBus,
    /// What it is filled with.
    pub source: Option<DiskSource>,
    /// Place in the boot order, from 1.
    pub boot_order: Option<u32>,
    /// Whether the spec lists it, and the size does not just bring it.
    pub is_listed: bool,
}

/// An interface with everything decided.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedInterface {
    /// Identifies the interface in the Machine.
    pub name: String,
    /// What it is attached to.
    pub attachment: Attachment,
    /// Model of the card.
    pub model: NetworkModel,
    /// MAC address; made by KubeVirt when absent.
    pub mac_address: Option<String>,
    /// Place in the boot order, from 1.
    pub boot_order: Option<u32>,
}

/// What an interface is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The pod network, behind the pod's address.
    PodNetwork,
    /// The network of a NetworkConfiguration, by its name.
    Network(String),
}

/// What cloud-init finds.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudInit {
    /// User data.
    pub user_data: Option<UserData>,
    /// Network configuration.
    pub network_data: Option<String>,
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudInit")
            .field("user_data", &self.user_data.is_some())
            .field("network_data", &self.network_data.is_some())
            .finish()
    }
}

/// User data for cloud-init.
#[derive(Clone, PartialEq, Eq)]
pub enum UserData {
    /// The content.
    Content(Vec<u8>),
    /// In a Secret that we could not look into; only offline.
    Unread,
    /// In the Machine, but not in the cached one, which has this digest of all cloud-init data.
    Elided(String),
}

/// What boots the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootloader {
    /// A BIOS.
    Bios,
    /// EFI.
    Efi {
        /// Only signed loaders.
        secure_boot: bool,
    },
}
