//! Fields that only other providers support: accepted, without effect.

use api::{Backup, Disk, MachineNetwork, MachineOs, MachineSpec, ProviderConfig};

use super::Findings;

/// Notes the fields of a spec that have no effect and whose effect a user may expect. Go clients write
/// empty objects for fields that are not set.
pub(super) fn note(spec: &MachineSpec, findings: &mut Findings) {
    let (no_network, no_os) = (MachineNetwork::default(), MachineOs::default());
    let MachineNetwork {
        // Decides the attachment.
        network_namespace_name: _,
        vpc,
        subnet,
        assign_public_ip,
        private_ip,
        public_ip,
        interfaces,
    } = spec.network.as_ref().unwrap_or(&no_network);
    let MachineOs {
        // Information for users and other programs.
        family: _,
        distribution: _,
        version: _,
        architecture: _,
        // Decides the installer image.
        image_id: _,
        image_family,
        iso_uri,
    } = spec.os.as_ref().unwrap_or(&no_os);
    let backup = spec.backup.as_ref();
    let has_backup = backup.and_then(|backup: &Backup| backup.enabled);
    let provider_config = spec.provider_config.as_ref();
    let text = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let list = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let given = [
        ("spec.machineType", text(&spec.machine_type)),
        ("spec.network.vpc", text(vpc)),
        ("spec.network.subnet", text(subnet)),
        (
            "spec.network.assignPublicIP",
            *assign_public_ip == Some(true),
        ),
        ("spec.network.privateIP", text(private_ip)),
        ("spec.network.publicIP", text(public_ip)),
        (
            "spec.network.interfaces",
            interfaces.as_ref().is_some_and(|list| !list.is_empty()),
        ),
        ("spec.os.imageFamily", text(image_family)),
        ("spec.os.isoUri", text(iso_uri)),
        (
            "spec.providerConfig",
            provider_config.is_some_and(|it| *it != ProviderConfig::default()),
        ),
        ("spec.userData", text(&spec.user_data)),
        ("spec.securityGroups", list(&spec.security_groups)),
        ("spec.monitoring", spec.monitoring == Some(true)),
        ("spec.backup", has_backup == Some(true)),
    ];
    for (path, is_given) in given {
        if is_given {
            findings.note(path, remedy(path));
        }
    }
    for (index, disk) in spec.disks.iter().flatten().enumerate() {
        note_disk(index, disk, findings);
    }
}

fn note_disk(index: usize, disk: &Disk, findings: &mut Findings) {
    let device = disk.device.as_deref().unwrap_or_default();
    for (field, is_given) in [
        ("device", !device.is_empty()),
        ("encrypted", disk.encrypted == Some(true)),
        ("iops", disk.iops.is_some()),
        ("throughput", disk.throughput.is_some()),
    ] {
        if is_given {
            let why = match field {
                "device" => "has no effect: the guest names its devices",
                _ => "has no effect: choose a StorageClass that provides it",
            };
            findings.note(format!("spec.disks[{index}].{field}"), why);
        }
    }
}

fn remedy(path: &str) -> &'static str {
    match path {
        "spec.userData" => "has no effect with this provider: use spec.cloudInit",
        "spec.os.isoUri" => "has no effect with this provider: use spec.os.imageID",
        _ => "has no effect with this provider",
    }
}
