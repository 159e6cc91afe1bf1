//! Virtual hardware.

use std::collections::BTreeSet;

use api::{Domain, HugePages};

use super::Findings;
use crate::{
    Quantity,
    machine::{Bootloader, Devices},
    naming,
};

#[derive(Default)]
pub(super) struct Hardware {
    pub(super) machine_type: Option<String>,
    pub(super) acpi: Option<bool>,
    pub(super) apic: Option<bool>,
    pub(super) hyperv: bool,
    pub(super) bootloader: Option<Bootloader>,
    pub(super) uuid: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) devices: Devices,
}

/// `memory` is that of the guest, if it resolves.
pub(super) fn resolve(
    domain: Option<&Domain>,
    memory: Option<Quantity>,
    findings: &mut Findings,
) -> Hardware {
    let Some(Domain {
        machine,
        features,
        firmware,
        tpm,
        gpus,
        host_devices,
        hugepages,
        dedicated_cpus,
        rng,
        watchdog,
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
    if let (Some(pages), Some(memory)) = (hugepages, memory) {
        check_hugepages(*pages, memory, findings);
    }
    let devices = Devices {
        tpm: *tpm,
        gpus: gpus.clone().unwrap_or_default(),
        host_devices: host_devices.clone().unwrap_or_default(),
        hugepages: *hugepages,
        has_dedicated_cpus: *dedicated_cpus == Some(true),
        has_rng: *rng == Some(true),
        watchdog: watchdog.map(|watchdog| watchdog.action.unwrap_or_default()),
    };
    check_devices(&devices, findings);
    let firmware = firmware.as_ref();
    let uuid = firmware.and_then(|it| it.uuid.clone());
    if uuid.as_deref().is_some_and(|uuid| !is_uuid(uuid)) {
        findings.invalid(
            "spec.domain.firmware.uuid",
            "must be a UUID, such as 6a1f0b4e-3d0e-4d51-9d8f-0c4d2c4a8f5b",
        );
    }
    Hardware {
        uuid: uuid.map(|uuid| uuid.to_ascii_lowercase()),
        serial: firmware.and_then(|it| it.serial.clone()),
        devices,
        machine_type: machine_type.map(qemu_name),
        acpi: features.acpi,
        apic: features.apic,
        hyperv: features.hyperv.unwrap_or_default(),
        bootloader,
    }
}

/// KubeVirt refuses memory that is not a multiple of its pages.
fn check_hugepages(pages: HugePages, memory: Quantity, findings: &mut Findings) {
    const MIB: i64 = 1 << 20;
    let (size, name) = match pages {
        HugePages::Of2Mi => (2 * MIB, "2Mi"),
        HugePages::Of1Gi => (1024 * MIB, "1Gi"),
    };
    let size = Quantity::from_bytes(size).nanos();
    if memory.nanos().checked_rem(size) != Some(0) {
        findings.invalid(
            "spec.domain.hugepages",
            format!("the memory of {memory} is not a multiple of {name}: change one of them"),
        );
    }
}

/// GPUs and other devices share their names.
fn check_devices(devices: &Devices, findings: &mut Findings) {
    let lists = [
        ("gpus", &devices.gpus),
        ("hostDevices", &devices.host_devices),
    ];
    let mut names = BTreeSet::new();
    for (list, devices) in lists {
        for (index, device) in devices.iter().enumerate() {
            let path = format!("spec.domain.{list}[{index}]");
            if !naming::is_dns_label(&device.name) {
                findings.invalid(format!("{path}.name"), "must be a DNS label");
            } else if !names.insert(&device.name) {
                findings.invalid(
                    format!("{path}.name"),
                    format!(
                        "{:?} is the name of another device: give each its own",
                        device.name
                    ),
                );
            }
            if !naming::is_qualified_name(&device.device_name) {
                findings.invalid(
                    format!("{path}.deviceName"),
                    "must be the name of a resource, such as nvidia.com/GA102GL_A10",
                );
            }
        }
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
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
