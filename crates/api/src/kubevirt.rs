//! The parts of KubeVirt's API that the operators read or write.

pub mod install;
mod observed;
mod references;

use std::collections::BTreeMap;

use kube::CustomResource;
pub use observed::{
    InstancePhase, InstanceStatus, ObservedGuestOs, ObservedInstance, ObservedInterface,
    ObservedVirtualMachine, ObservedVolume, StartFailure, VirtualMachineStatus,
};
pub use references::{Referrer, ReferrerList};
use serde::{Deserialize, Serialize};

use crate::{
    DiskBus, HugePages, Json, NetworkModel, PassedThroughDevice, Toleration, Tpm, WatchdogAction,
};

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
    pub run_strategy: RunStrategy,
    pub template: InstanceTemplate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunStrategy {
    Always,
    Halted,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceTemplate {
    pub metadata: TemplateMetadata,
    pub spec: InstanceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    pub domain: DomainSpec,
    /// The cluster's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<EvictionStrategy>,
    /// The name of the VirtualMachine up to its first dot, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_credentials: Vec<AccessCredential>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Matched to the interfaces by name.
    pub networks: Vec<InstanceNetwork>,
    /// Matched to the disks by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessCredential {
    pub ssh_public_key: SshPublicKey,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshPublicKey {
    pub source: SshPublicKeySource,
    pub propagation_method: PropagationMethod,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SshPublicKeySource {
    pub secret: AccessSecret,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessSecret {
    /// All its values are keys.
    pub secret_name: String,
}

/// How keys reach the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PropagationMethod {
    NoCloud {},
    ConfigDrive {},
    QemuGuestAgent { users: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    pub max_skew: i32,
    pub topology_key: String,
    pub when_unsatisfiable: WhenUnsatisfiable,
    pub label_selector: LabelSelector,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvictionStrategy {
    LiveMigrate,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSpec {
    pub cpu: DomainCpu,
    pub memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<DomainFeatures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<DomainFirmware>,
    pub devices: Devices,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainCpu {
    #[serde(flatten)]
    pub topology: CpuTopology,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_cpu_placement: Option<bool>,
}

/// The guest sees cores times sockets times threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    pub cores: u32,
    pub sockets: u32,
    pub threads: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// A quantity.
    pub guest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<MemoryPages>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPages {
    pub page_size: HugePages,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineType {
    /// QEMU's name.
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainFeatures {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<FeatureState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<FeatureState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<HyperV>,
    /// Required for secure boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smm: Option<FeatureState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureState {
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HyperV {
    pub relaxed: FeatureState,
    pub vapic: FeatureState,
    pub spinlocks: Spinlocks,
    pub vpindex: FeatureState,
    pub runtime: FeatureState,
    pub synic: FeatureState,
    pub synictimer: SyntheticTimer,
    pub reset: FeatureState,
    pub frequencies: FeatureState,
    pub reenlightenment: FeatureState,
    pub tlbflush: FeatureState,
    pub ipi: FeatureState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spinlocks {
    pub spinlocks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntheticTimer {
    pub enabled: bool,
    pub direct: FeatureState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    pub utc: Empty,
    pub timer: Timer,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    pub hpet: TimerPresence,
    pub hyperv: TimerPresence,
    pub pit: TimerPolicy,
    pub rtc: TimerPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerPresence {
    pub present: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerPolicy {
    pub tick_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainFirmware {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<DomainBootloader>,
    /// KubeVirt generates it once, when the VirtualMachine is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// KubeVirt generates it once as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DomainBootloader {
    Bios {},
    Efi {
        /// Always set, because KubeVirt's default is true.
        secure_boot: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskDevice>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<PassedThroughDevice>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_devices: Vec<PassedThroughDevice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rng: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<WatchdogDevice>,
    /// The cluster's setting if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_serial_console: Option<bool>,
    /// One queue per virtual CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface_multiqueue: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogDevice {
    pub name: String,
    pub i6300esb: I6300Esb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct I6300Esb {
    pub action: WatchdogAction,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskDevice {
    /// Name of its volume.
    pub name: String,
    #[serde(flatten)]
    pub target: DiskTarget,
    /// Position in the boot order, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DiskTarget {
    Disk {
        bus: DiskBus,
        #[serde(skip_serializing_if = "Option::is_none")]
        readonly: Option<bool>,
    },
    Cdrom {
        bus: DiskBus,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Name of its network.
    pub name: String,
    pub model: NetworkModel,
    #[serde(flatten)]
    pub binding: InterfaceBinding,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Position in the boot order, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
    /// Plugged in if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<InterfaceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceState {
    /// To be unplugged from the running guest.
    Absent,
    /// Plugged in, without a link.
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterfaceBinding {
    Bridge {},
    /// NAT behind the pod's address.
    Masquerade {},
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceNetwork {
    pub name: String,
    #[serde(flatten)]
    pub source: NetworkSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkSource {
    Pod {},
    Multus {
        /// In the same namespace.
        network_name: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    pub name: String,
    #[serde(flatten)]
    pub source: VolumeSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum VolumeSource {
    PersistentVolumeClaim {
        claim_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        read_only: Option<bool>,
        /// Can be plugged in and out of a running guest.
        #[serde(skip_serializing_if = "Option::is_none")]
        hotpluggable: Option<bool>,
    },
    /// A claim that CDI fills.
    DataVolume {
        name: String,
        /// Can be plugged in and out of a running guest.
        #[serde(skip_serializing_if = "Option::is_none")]
        hotpluggable: Option<bool>,
    },
    CloudInitNoCloud {
        /// Secret with the key `userdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret_ref: Option<LocalSecret>,
        /// Secret with the key `networkdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        network_data_secret_ref: Option<LocalSecret>,
    },
    CloudInitConfigDrive {
        /// Secret with the key `userdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret_ref: Option<LocalSecret>,
        /// Secret with the key `networkdata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        network_data_secret_ref: Option<LocalSecret>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSecret {
    pub name: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}
