//! Virtual hardware of a Machine.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{HugePages, PassedThroughDevice, Tpm, Watchdog};

/// Virtual hardware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.features) || !has(self.features.acpi) || self.features.acpi || !has(self.firmware) || !has(self.firmware.bootloader) || !(has(self.firmware.bootloader.efi) && self.firmware.bootloader.efi || has(self.firmware.bootloader.secureBoot) && self.firmware.bootloader.secureBoot)").message("EFI needs ACPI: leave features.acpi out, or set efi: false"),
    validation = Rule::new("!has(self.machine) || !has(self.machine.type) || !(self.machine.type == 'pc' || self.machine.type.startsWith('pc-i440fx')) || !has(self.firmware) || !has(self.firmware.bootloader) || !has(self.firmware.bootloader.secureBoot) || !self.firmware.bootloader.secureBoot").message("secureBoot needs the q35 chipset: use machine.type pc-q35, or leave it out")
)]
pub struct Domain {
    /// Chipset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<DomainMachine>,
    /// Features of the virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// Firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// Trusted Platform Module, which Windows 11 needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    /// GPUs of the node. The machine can then not be migrated live.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub gpus: Option<Vec<PassedThroughDevice>>,
    /// Other devices of the node. The machine can then not be migrated live.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub host_devices: Option<Vec<PassedThroughDevice>>,
    /// Memory of huge pages, of which the memory must be a multiple. Nodes must offer them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<HugePages>,
    /// Whether each virtual CPU has a CPU of the node for itself. Nodes must have the CPU manager policy
    /// `static`. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedicated_cpus: Option<bool>,
    /// Whether the guest has a random number generator. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rng: Option<bool>,
    /// Watchdog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<Watchdog>,
}

/// Chipset.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMachine {
    /// `pc-q35` or `pc-i440fx`, or a version of these, such as `pc-q35-9.0`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^(q35|pc|pc-q35(-[-.a-z0-9]+)?|pc-i440fx(-[-.a-z0-9]+)?)$')").message("must be pc-q35 or pc-i440fx, or one version of these, such as pc-q35-9.0"))]
    pub type_: Option<String>,
}

/// Features of the virtual hardware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// ACPI. Defaults to true in KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<bool>,
    /// APIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<bool>,
    /// The common set of Hyper-V enlightenments, for Windows guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<bool>,
}

/// Firmware.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firmware {
    /// Boot loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<Bootloader>,
    /// UUID that the guest sees as its own. KubeVirt makes one if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$')").message("must be a UUID, such as 6a1f0b4e-3d0e-4d51-9d8f-0c4d2c4a8f5b"))]
    pub uuid: Option<String>,
    /// Serial number that the guest sees. KubeVirt makes one if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[-_.+ A-Za-z0-9]+$')").message("must have letters, digits, spaces, '-', '_', '.' and '+' only"))]
    pub serial: Option<String>,
}

/// Boot loader.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.secureBoot) || !self.secureBoot || !has(self.efi) || self.efi").message("secureBoot needs EFI: set efi: true, or leave it out"))]
pub struct Bootloader {
    /// Boot with EFI instead of BIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efi: Option<bool>,
    /// Secure boot. Enables EFI and SMM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}
