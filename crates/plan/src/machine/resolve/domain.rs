//! The virtual hardware.

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
    let features = features.clone().unwrap_or_default();
    let bootloader = firmware
        .as_ref()
        .and_then(|firmware| firmware.bootloader.as_ref());
    Hardware {
        machine_type: machine
            .as_ref()
            .and_then(|machine| machine.type_.as_deref())
            .map(qemu_name),
        acpi: features.acpi,
        apic: features.apic,
        hyperv: features.hyperv.unwrap_or_default(),
        bootloader: bootloader.and_then(|bootloader| resolve_bootloader(bootloader, findings)),
    }
}

/// QEMU knows the newest of the q35 family as `q35`. KubeVirt admits `pc-q35` too, but such a
/// machine does not start ("No PCI buses available"). The i440fx family is left as it is written,
/// so that the refusal of a cluster that does not allow it names what the user wrote.
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
