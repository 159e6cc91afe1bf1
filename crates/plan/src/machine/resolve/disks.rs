//! The disks of a machine: those of its size, with those of its spec merged in by name.

use api::{
    AccessMode, BootDevice, Disk, DiskBus, DiskSource, DiskType, VolumeMode, core::StorageClass,
};

use super::{
    Findings, first_duplicate,
    sizing::{SizedDisk, SizedDisks},
};
use crate::{
    Quantity,
    machine::{ErrorType, Known, Lookup, ResolvedDisk, ResolvedInterface, SpecError},
    naming,
    quantity::ParseError,
};

/// The word that stands for the cluster's choice.
const DEFAULT_STORAGE_CLASS: &str = "default";

/// Where the spec speaks of a disk.
#[derive(Clone, Copy)]
enum Place {
    /// At this index of its disks.
    Own(usize),
    /// Nowhere: the size brings it.
    Inherited,
}

impl Place {
    fn field(self, name: &str) -> String {
        match self {
            Self::Own(index) => format!("spec.disks[{index}].{name}"),
            Self::Inherited => "spec.disks".to_owned(),
        }
    }
}

/// A resolved disk, and whether the spec marks it as the one to boot from.
pub(super) struct Candidate {
    pub(super) resolved: ResolvedDisk,
    marked_boot: bool,
}

/// Resolves the disks. Without a size (`sized` absent, because it did not resolve) only the spec's
/// own disks are looked at, and what the size could have brought is not missed.
pub(super) fn resolve(
    own: &[Disk],
    sized: Option<&SizedDisks>,
    classes: &Known<StorageClass>,
    findings: &mut Findings,
) -> Vec<Candidate> {
    check_names(own, findings);
    let inherited = sized.map(|sized| inherited(own, sized)).unwrap_or_default();
    let over = |base: &SizedDisk| {
        own.iter()
            .enumerate()
            .find(|(_, disk)| disk.name == base.name)
    };
    let mut disks = Vec::with_capacity(inherited.len() + own.len());
    for base in &inherited {
        let (place, over) = match over(base) {
            Some((index, over)) => (Place::Own(index), Some(over)),
            None => (Place::Inherited, None),
        };
        disks.extend(resolve_one(
            place,
            Some(base),
            over,
            sized.is_some(),
            classes,
            findings,
        ));
    }
    for (index, disk) in own.iter().enumerate() {
        let merged = inherited.iter().any(|base| base.name == disk.name);
        let repeated = own[..index].iter().any(|earlier| earlier.name == disk.name);
        if !merged && !repeated {
            let place = Place::Own(index);
            disks.extend(resolve_one(
                place,
                None,
                Some(disk),
                sized.is_some(),
                classes,
                findings,
            ));
        }
    }
    disks
}

/// The disks of the size that are there: all, unless a disk that the spec boots from stands in.
fn inherited<'a>(own: &[Disk], sized: &'a SizedDisks) -> Vec<&'a SizedDisk> {
    let replaced = sized.replaced_by_boot_disk && own.iter().any(|disk| disk.boot == Some(true));
    let named = |base: &SizedDisk| own.iter().any(|disk| disk.name == base.name);
    sized
        .disks
        .iter()
        .filter(|base| !replaced || named(base))
        .collect()
}

fn check_names(own: &[Disk], findings: &mut Findings) {
    for (index, disk) in own.iter().enumerate() {
        let path = format!("spec.disks[{index}].name");
        if disk.name == naming::CLOUD_INIT_VOLUME {
            findings.invalid(path, "is the name of the cloud-init volume: choose another");
        } else if !naming::is_dns_label(&disk.name) {
            findings.invalid(
                path,
                "must be a DNS label: lower case letters, digits and '-', at most 63 characters",
            );
        }
    }
    if let Some((index, name)) = first_duplicate(own.iter().map(|disk| disk.name.as_str())) {
        findings.invalid(
            format!("spec.disks[{index}].name"),
            format!("{name:?} is there twice: give each disk a name of its own"),
        );
    }
    let mut marked = own
        .iter()
        .enumerate()
        .filter(|(_, disk)| disk.boot == Some(true));
    if let Some((index, _)) = marked.nth(1) {
        findings.invalid(
            format!("spec.disks[{index}].boot"),
            "mark at most one disk with boot: true",
        );
    }
}

/// One disk: each field from the spec, else from the size, else the default.
fn resolve_one(
    place: Place,
    base: Option<&SizedDisk>,
    over: Option<&Disk>,
    size_is_known: bool,
    classes: &Known<StorageClass>,
    findings: &mut Findings,
) -> Option<Candidate> {
    let name = over
        .map(|disk| &disk.name)
        .or(base.map(|base| &base.name))?
        .clone();
    let size_path = place.field("size");
    let size = match (over.and_then(|disk| disk.size.as_deref()), base) {
        (Some(text), _) => checked_amount(&size_path, text, text.parse(), findings),
        (None, Some(base)) => Some(base.size),
        (None, None) if size_is_known => {
            findings.invalid(
                size_path,
                format!("is missing: give the size of disk {name:?}, such as 20Gi"),
            );
            None
        }
        (None, None) => None,
    };
    let asked = over.and_then(|disk| disk.storage_class.as_deref());
    let storage_class = storage_class(
        place,
        &name,
        asked.or(base.and_then(|b| b.storage_class.as_deref())),
        classes,
        findings,
    );
    let type_ = over.and_then(|disk| disk.type_).unwrap_or(DiskType::Disk);
    let bus = over.and_then(|disk| disk.bus).unwrap_or(match type_ {
        DiskType::Disk => DiskBus::Virtio,
        DiskType::Cdrom => DiskBus::Sata,
    });
    if type_ == DiskType::Cdrom && bus == DiskBus::Virtio {
        findings.invalid(
            place.field("bus"),
            "a cdrom cannot be on the virtio bus: use sata or scsi",
        );
    }
    let source = over.and_then(|disk| disk.source.as_ref());
    if source.is_some_and(|source| given_sources(source) != 1) {
        findings.invalid(
            place.field("source"),
            "give exactly one of http, registry, pvc, snapshot, ref and blank",
        );
    }
    Some(Candidate {
        marked_boot: over.and_then(|disk| disk.boot).unwrap_or_default(),
        resolved: ResolvedDisk {
            name,
            size: size?,
            storage_class,
            access_mode: over
                .and_then(|disk| disk.access_mode)
                .or(base.and_then(|base| base.access_mode))
                .unwrap_or(AccessMode::ReadWriteOnce),
            volume_mode: over
                .and_then(|disk| disk.volume_mode)
                .or(base.and_then(|base| base.volume_mode))
                .unwrap_or(VolumeMode::Filesystem),
            type_,
            bus,
            source: source.cloned(),
            boot_order: None,
        },
    })
}

fn given_sources(source: &DiskSource) -> usize {
    let DiskSource {
        http,
        registry,
        pvc,
        snapshot,
        reference,
        blank,
    } = source;
    [
        http.is_some(),
        registry.is_some(),
        pvc.is_some(),
        snapshot.is_some(),
        reference.is_some(),
        blank.is_some(),
    ]
    .into_iter()
    .filter(|&given| given)
    .count()
}

fn storage_class(
    place: Place,
    disk: &str,
    asked: Option<&str>,
    classes: &Known<StorageClass>,
    findings: &mut Findings,
) -> Option<String> {
    let path = place.field("storageClass");
    let not_found =
        |message| SpecError::new(ErrorType::StorageClassNotFound, path.clone(), message);
    let named = asked.filter(|&name| name != DEFAULT_STORAGE_CLASS);
    match (named, classes.get(named.unwrap_or(DEFAULT_STORAGE_CLASS))) {
        (_, Lookup::Found(class)) => class.metadata.name.clone(),
        (Some(name), Lookup::Missing) => {
            findings.error(not_found(format!(
                "no StorageClass is named {name:?}: create it, or name another"
            )));
            None
        }
        (Some(name), Lookup::Unknown) => {
            findings.note(&path, format!("StorageClass {name:?} is not checked"));
            Some(name.to_owned())
        }
        (None, Lookup::Missing | Lookup::Unknown) => match classes.default_class() {
            Lookup::Found(class) => class.metadata.name.clone(),
            Lookup::Missing => {
                findings.error(not_found(format!(
                    "disk {disk:?} names no StorageClass and the cluster has no default one: name one, or mark one as default"
                )));
                None
            }
            Lookup::Unknown => {
                findings.note(&path, "the StorageClass is left to the cluster's default");
                None
            }
        },
    }
}

/// An amount of memory or storage, or a report of what is wrong with it.
pub(super) fn checked_amount(
    path: &str,
    text: &str,
    parsed: Result<Quantity, ParseError>,
    findings: &mut Findings,
) -> Option<Quantity> {
    match parsed {
        Err(error) => {
            findings.invalid(path, format!("{text:?} {error}"));
            None
        }
        Ok(amount) if amount < Quantity::MEBIBYTE => {
            findings.invalid(
                path,
                format!("{text:?} is less than 1Mi: give a quantity such as 4Gi"),
            );
            None
        }
        Ok(amount) => Some(amount),
    }
}

/// Turns the kinds of devices to boot from into KubeVirt's numbers.
pub(super) fn number_for_boot(
    order: Option<&[BootDevice]>,
    disks: &mut [Candidate],
    interfaces: &mut [ResolvedInterface],
    findings: &mut Findings,
) {
    let bootable = disks
        .iter()
        .any(|disk| disk.resolved.type_ == DiskType::Disk);
    let other = order.unwrap_or_default().iter().any(|device| match device {
        BootDevice::Disk => false,
        BootDevice::Network => true,
        BootDevice::Cdrom => disks
            .iter()
            .any(|disk| disk.resolved.type_ == DiskType::Cdrom),
    });
    if !bootable && !other && findings.errors.is_empty() {
        findings.invalid(
            "spec.disks",
            "there is nothing to boot from: add a disk, or put network into bootOrder",
        );
    }
    let mut numbers = 1..;
    let Some(order) = order else {
        if let Some(index) = boot_disk(disks) {
            disks[index].resolved.boot_order = numbers.next();
        }
        return;
    };
    for device in order {
        match device {
            BootDevice::Disk => {
                let first = boot_disk(disks);
                let rest = (0..disks.len()).filter(|&index| Some(index) != first);
                for index in first.into_iter().chain(rest) {
                    if disks[index].resolved.type_ == DiskType::Disk {
                        disks[index].resolved.boot_order = numbers.next();
                    }
                }
            }
            BootDevice::Network => {
                for interface in interfaces.iter_mut() {
                    interface.boot_order = numbers.next();
                }
            }
            BootDevice::Cdrom => {
                for disk in disks
                    .iter_mut()
                    .filter(|disk| disk.resolved.type_ == DiskType::Cdrom)
                {
                    disk.resolved.boot_order = numbers.next();
                }
            }
        }
    }
}

/// The disk that is marked, else the one named root, else the first.
fn boot_disk(disks: &[Candidate]) -> Option<usize> {
    let is_disk = |disk: &Candidate| disk.resolved.type_ == DiskType::Disk;
    disks
        .iter()
        .position(|disk| disk.marked_boot && is_disk(disk))
        .or_else(|| {
            disks
                .iter()
                .position(|disk| disk.resolved.name == naming::ROOT_DISK && is_disk(disk))
        })
        .or_else(|| disks.iter().position(is_disk))
}
