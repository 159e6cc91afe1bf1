//! The parts of KubeVirt's API that we read or write.

pub mod install;
mod observed;
mod references;

use std::collections::BTreeMap;

use kube::CustomResource;
pub use observed::{
    InstancePhase, InstanceStatus, ObservedInstance, ObservedInterface, ObservedVirtualMachine,
    ObservedVolume, StartFailure, VirtualMachineStatus,
};
pub use references::{Referrer, ReferrerList};
use serde::{Deserialize, Serialize};

use crate::{DiskBus, NetworkModel};

/// A virtual machine, running or not.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachine",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// When an instance should exist.
    pub run_strategy: RunStrategy,
    /// The instance.
    pub template: InstanceTemplate,
}

/// When an instance should exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunStrategy {
    /// Always.
    Always,
    /// Never.
    Halted,
}

/// The instance of a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceTemplate {
    /// What the instance inherits.
    pub metadata: TemplateMetadata,
    /// The instance.
    pub spec: InstanceSpec,
}

/// Labels and annotations of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One run of a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// The virtual hardware.
    pub domain: DomainSpec,
    /// What happens when the node is drained; absent: the cluster's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<EvictionStrategy>,
    /// Networks, by the names of the interfaces.
    pub networks: Vec<InstanceNetwork>,
    /// Volumes, by the names of the disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
}

/// What happens when the node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvictionStrategy {
    /// The machine moves while it runs.
    LiveMigrate,
}

/// The virtual hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSpec {
    /// CPU topology.
    pub cpu: CpuTopology,
    /// Memory.
    pub memory: Memory,
    /// The chipset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineType>,
    /// Features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<DomainFeatures>,
    /// Clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<DomainFirmware>,
    /// Devices.
    pub devices: Devices,
}

/// CPU topology; the guest sees cores times sockets times threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    /// Cores per socket.
    pub cores: u32,
    /// Sockets.
    pub sockets: u32,
    /// Threads per core.
    pub threads: u32,
}

/// Memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// What the guest sees, as a quantity.
    pub guest: String,
}

/// The chipset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineType {
    /// As QEMU calls it.
    #[serde(rename = "type")]
    pub type_: String,
}

/// Features of the virtual hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainFeatures {
    /// ACPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<FeatureState>,
    /// APIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<FeatureState>,
    /// Hyper-V enlightenments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<HyperV>,
    /// System management mode; secure boot needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smm: Option<FeatureState>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureState {
    /// On.
    pub enabled: bool,
}

/// Hyper-V enlightenments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HyperV {
    /// No watchdog on timeouts of interrupts.
    pub relaxed: FeatureState,
    /// Virtual APIC.
    pub vapic: FeatureState,
    /// Paravirtualized spinlocks.
    pub spinlocks: Spinlocks,
    /// Index of the virtual processor.
    pub vpindex: FeatureState,
    /// Time spent running.
    pub runtime: FeatureState,
    /// Synthetic interrupts.
    pub synic: FeatureState,
    /// Synthetic timers.
    pub synictimer: SyntheticTimer,
    /// Reset by register.
    pub reset: FeatureState,
    /// Frequencies by register.
    pub frequencies: FeatureState,
    /// Notice of a changed clock, after a migration.
    pub reenlightenment: FeatureState,
    /// Paravirtualized flush of the TLB.
    pub tlbflush: FeatureState,
    /// Paravirtualized interrupts between processors.
    pub ipi: FeatureState,
}

/// Paravirtualized spinlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spinlocks {
    /// Tries before the hypervisor is told.
    pub spinlocks: u32,
}

/// Synthetic timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntheticTimer {
    /// On.
    pub enabled: bool,
    /// Delivered directly.
    pub direct: FeatureState,
}

/// The guest's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Starts at UTC.
    pub utc: Empty,
    /// Timers.
    pub timer: Timer,
}

/// Timers of the guest's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// High precision event timer.
    pub hpet: TimerPresence,
    /// Hyper-V's reference clock.
    pub hyperv: TimerPresence,
    /// Programmable interval timer.
    pub pit: TimerPolicy,
    /// Real time clock.
    pub rtc: TimerPolicy,
}

/// Whether a timer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerPresence {
    /// It is there.
    pub present: bool,
}

/// What becomes of missed ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerPolicy {
    /// `delay` or `catchup`.
    pub tick_policy: String,
}

/// Firmware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainFirmware {
    /// What boots the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<DomainBootloader>,
    /// What the guest knows itself by. KubeVirt makes it once, when the machine is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The serial number. KubeVirt makes it once, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// What boots the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DomainBootloader {
    /// A BIOS.
    Bios {},
    /// EFI.
    Efi {
        /// Spelled out always: KubeVirt takes its absence for true.
        secure_boot: bool,
    },
}

/// Devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    /// Disks, in the order the guest sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskDevice>,
    /// Interfaces, in the order the guest sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// A queue for each virtual CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface_multiqueue: Option<bool>,
}

/// A disk of the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskDevice {
    /// Name of the volume behind it.
    pub name: String,
    /// What the guest sees.
    #[serde(flatten)]
    pub target: DiskTarget,
    /// Place in the boot order, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
}

/// What the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DiskTarget {
    /// A disk.
    Disk {
        /// How the guest reaches it.
        bus: DiskBus,
        /// The guest cannot write.
        #[serde(skip_serializing_if = "Option::is_none")]
        readonly: Option<bool>,
    },
    /// A CD-ROM.
    Cdrom {
        /// How the guest reaches it.
        bus: DiskBus,
    },
}

/// An interface of the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Name of the network behind it.
    pub name: String,
    /// Model of the card.
    pub model: NetworkModel,
    /// How it is bound to the network.
    #[serde(flatten)]
    pub binding: InterfaceBinding,
    /// MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Place in the boot order, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
    /// Absent: plugged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<InterfaceState>,
}

/// Whether an interface is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceState {
    /// It is to be taken out of the running guest.
    Absent,
    /// It is there, without a link.
    Down,
    /// It is there.
    Up,
}

/// How an interface is bound to its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterfaceBinding {
    /// Bridged.
    Bridge {},
    /// Behind the pod's address.
    Masquerade {},
}

/// A network of the instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceNetwork {
    /// Name of the interface on it.
    pub name: String,
    /// Which network.
    #[serde(flatten)]
    pub source: NetworkSource,
}

/// Which network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkSource {
    /// The pod's own.
    Pod {},
    /// A NetworkAttachmentDefinition.
    Multus {
        /// Its name, in the same namespace.
        network_name: String,
    },
}

/// A volume of the instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Name of the disk on it.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: VolumeSource,
}

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum VolumeSource {
    /// A claim.
    PersistentVolumeClaim {
        /// Name of the claim.
        claim_name: String,
        /// The volume is not written to.
        #[serde(skip_serializing_if = "Option::is_none")]
        read_only: Option<bool>,
        /// It may come and go while the guest runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        hotpluggable: Option<bool>,
    },
    /// A claim that CDI fills.
    DataVolume {
        /// Name of the DataVolume.
        name: String,
        /// It may come and go while the guest runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        hotpluggable: Option<bool>,
    },
    /// A disk for cloud-init.
    CloudInitNoCloud {
        /// Secret with the key `userdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret_ref: Option<LocalSecret>,
        /// Secret with the key `networkdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        network_data_secret_ref: Option<LocalSecret>,
    },
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSecret {
    /// Its name.
    pub name: String,
}

/// Nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}
