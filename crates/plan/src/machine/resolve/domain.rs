//! Virtual hardware.

use api::Domain;

use super::Findings;
use crate::machine::Bootloader;

#[derive(Default)]
pub(super) struct Hardware {
    pub(super) machine_type: Option<String>,
    pub(super) acpi: Option<bool>,
    pub(super) apic: Option<bool>,
    pub(super) hyperv: bool,
    pub(super) bootloader: Option<Bootloader>,
}

pub(super) fn resolve(domain: Option<&Domain>, findings: &mut Findings) -> Hardware {
    let Some(Domain {
        machine,
        features,
        firmware,
    }) = domain
    else {
        return Hardware::default();
    };
    let machine_type = machine
        .as_ref()
        .and_then(|machine| machine.type_.as_deref());
    let features = features.clone().unwrap_or_default();
    let bootloader = firmware
        .as_ref()
        .and_then(|firmware| firmware.bootloader.as_ref())
        .and_then(|bootloader| resolve_bootloader(bootloader, findings));
    if let Some(type_) = machine_type {
        check_machine_type(type_, bootloader, findings);
    }
    if features.acpi == Some(false) && matches!(bootloader, Some(Bootloader::Efi { .. })) {
        findings.invalid(
            "spec.domain.features.acpi",
            "EFI needs ACPI: leave it out, or set efi: false",
        );
    }
    Hardware {
        machine_type: machine_type.map(qemu_name),
        acpi: features.acpi,
        apic: features.apic,
        hyperv: features.hyperv.unwrap_or_default(),
        bootloader,
    }
}

fn check_machine_type(type_: &str, bootloader: Option<Bootloader>, findings: &mut Findings) {
    const PATH: &str = "spec.domain.machine.type";
    let is_of = |family: &str| {
        type_
            .strip_prefix(family)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let is_i440fx = type_ == "pc" || is_of("pc-i440fx");
    if !is_i440fx && type_ != "q35" && !is_of("pc-q35") {
        findings.invalid(
            PATH,
            format!("{type_:?} is not known: use pc-q35 or pc-i440fx, or one version of these"),
        );
    }
    if is_i440fx && bootloader == Some(Bootloader::Efi { secure_boot: true }) {
        findings.invalid(
            PATH,
            "secureBoot needs the q35 chipset: use pc-q35, or leave it out",
        );
    }
}

/// QEMU's name for the newest q35 is `q35`. KubeVirt accepts `pc-q35` too, but such a machine does not
/// start ("No PCI buses available"). i440fx types are passed on unchanged, so that the refusal of a cluster
/// that does not allow them quotes the user's value.
fn qemu_name(type_: &str) -> String {
    match type_ {
        "pc-q35" => "q35".to_owned(),
        other => other.to_owned(),
    }
}

fn resolve_bootloader(bootloader: &api::Bootloader, findings: &mut Findings) -> Option<Bootloader> {
    let secure_boot = bootloader.secure_boot.unwrap_or_default();
    match bootloader.efi {
        Some(false) if secure_boot => {
            findings.invalid(
                "spec.domain.firmware.bootloader.secureBoot",
                "needs EFI: set efi: true, or leave it out",
            );
            None
        }
        Some(false) => Some(Bootloader::Bios),
        Some(true) => Some(Bootloader::Efi { secure_boot }),
        None => secure_boot.then_some(Bootloader::Efi { secure_boot }),
    }
}
