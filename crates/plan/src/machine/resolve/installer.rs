//! Image that installs the operating system: a CD-ROM until the system is installed.

use std::collections::BTreeMap;

use api::{
    AccessMode, DiskBus, HttpSource, Machine, MachineOs, RegistrySource, VolumeMode, labels,
};

use super::{
    Findings,
    boot::boot_disk,
    disks::{Candidate, Disks},
};
use crate::{
    Quantity,
    machine::{DataVolumeContent, DiskOrigin, DiskType, ResolvedDisk, ResolvedSource, switches},
    naming,
};

const PATH: &str = "spec.os.imageID";

/// CDI cannot derive the size of a claim from a URL. This is enough for the images of common
/// distributions.
const SIZE: i64 = 8 << 30;

/// Whether the boot disk does not contain the system yet, as far as the Machine says.
fn is_ejected(machine: &Machine) -> bool {
    [labels::OS_INSTALLED, labels::CDROM_EJECTED]
        .iter()
        .any(|name| switches::is_switched_on(&machine.metadata, name))
}

/// The image that a Machine names, ejected or not.
pub(super) fn image(os: Option<&MachineOs>) -> Option<&str> {
    let image = os?.image_id.as_deref();
    image.filter(|image| !image.is_empty())
}

/// Adds the CD-ROM of an image that is not ejected. Its claim is like that of the boot disk, so that it
/// does not make a migratable machine unmigratable.
pub(super) fn add(machine: &Machine, disks: &mut Disks, findings: &mut Findings) {
    let Some(image) = image(machine.spec.os.as_ref()).filter(|_| !is_ejected(machine)) else {
        return;
    };
    let Some(content) = content(image, machine.metadata.annotations.as_ref(), findings) else {
        return;
    };
    let listed = machine.spec.disks.iter().flatten();
    if let Some(index) = listed
        .map(|disk| disk.name.as_str())
        .position(|name| name == naming::INSTALLER_DISK)
    {
        findings.invalid(
            format!("spec.disks[{index}].name"),
            "is the name of the installer image's disk: choose another, or leave os.imageID out",
        );
        return;
    }
    let boot_disk = boot_disk(disks).map(|index| &disks.found[index].resolved);
    let resolved = ResolvedDisk {
        name: naming::INSTALLER_DISK.to_owned(),
        size: Quantity::from_bytes(SIZE),
        storage_class: boot_disk.and_then(|disk| disk.storage_class.clone()),
        access_mode: boot_disk.map_or(AccessMode::ReadWriteOnce, |disk| disk.access_mode),
        volume_mode: VolumeMode::Filesystem,
        type_: DiskType::Cdrom,
        bus: DiskBus::Sata,
        source: ResolvedSource::DataVolume(content),
        boot_order: None,
        origin: DiskOrigin::Installer,
        adopted_claim: None,
    };
    disks.found.push(Candidate {
        resolved,
        marked_boot: false,
    });
}

/// What CDI imports. The URL's scheme decides; an annotation may only add the scheme of a registry. An
/// image that is no URL belongs to another provider, unless an annotation says that CDI imports it.
fn content(
    image: &str,
    annotations: Option<&BTreeMap<String, String>>,
    findings: &mut Findings,
) -> Option<DataVolumeContent> {
    let annotation = |name: &str| annotations?.get(name).map(String::as_str);
    let source_type = annotation(labels::BOOT_SOURCE_TYPE).unwrap_or_default();
    if !["", "http", "https", "registry"].contains(&source_type) {
        findings.invalid(
            format!("metadata.annotations[{}]", labels::BOOT_SOURCE_TYPE),
            "must be http, https or registry",
        );
        return None;
    }
    let has_scheme = |schemes: &[&str]| {
        let address = schemes.iter().find_map(|it| image.strip_prefix(it));
        address.is_some_and(|address| !address.is_empty() && !address.starts_with('/'))
    };
    if has_scheme(&["http://", "https://"]) {
        return Some(DataVolumeContent::Http(HttpSource {
            url: image.to_owned(),
            ..HttpSource::default()
        }));
    }
    let registry = |url: String| {
        Some(DataVolumeContent::Registry(RegistrySource {
            url,
            ..RegistrySource::default()
        }))
    };
    if has_scheme(&["docker://", "oci-archive://"]) {
        return registry(image.to_owned());
    }
    if source_type == "registry" && !image.contains("://") {
        return registry(format!("docker://{image}"));
    }
    let expected = "a URL that begins with http://, https://, docker:// or oci-archive://";
    if annotation(labels::BOOT_SOURCE) == Some("datavolume") {
        findings.invalid(PATH, format!("must be {expected}"));
    } else {
        findings.note(PATH, format!("has no effect: it is not {expected}"));
    }
    None
}
