//! Virtual hardware of a Machine.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

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
