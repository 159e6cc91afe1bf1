//! Disks: those of the size, overridden and extended by name with those of the spec.

mod source;

use std::collections::BTreeMap;

use api::{AccessMode, Disk, DiskBus, VolumeMode, core::StorageClass};

use super::{
    Findings, amount, first_duplicate,
    sizing::{SizedDisk, SizedDisks, Sizing},
};
use crate::{
    Quantity,
    machine::{
        CloneSources, DiskOrigin, DiskType, ErrorType, Identity, Known, Lookup, ResolvedDisk,
        ResolvedSource, SizingSource, SpecError, Surroundings,
    },
    naming,
};

/// Stands for the cluster's default StorageClass.
const DEFAULT_STORAGE_CLASS: &str = "default";

/// Root disk of a Machine of the Viti stack whose class and spec have no disks.
const STACK_ROOT_DISK: i64 = 10 << 30;

pub(super) struct Disks {
    pub(super) found: Vec<Candidate>,
    /// False if a disk or the size has errors.
    pub(super) are_all: bool,
    /// Whether the size may have other disks, because its class is not known.
    pub(super) are_guessed: bool,
}

pub(super) struct Candidate {
    pub(super) resolved: ResolvedDisk,
    pub(super) marked_boot: bool,
}

/// Resolves the disks. If the size did not resolve, only the disks of the spec are checked, and a missing
/// size is not an error. A Machine of the Viti stack has a root disk even if neither lists one.
pub(super) fn resolve(
    own: &[Disk],
    size: Option<&Sizing>,
    is_of_stack: bool,
    identity: &Identity,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Disks {
    check_names(own, findings);
    let mut by_name = BTreeMap::new();
    for (index, disk) in own.iter().enumerate() {
        by_name.entry(disk.name.as_str()).or_insert(index);
    }
    let mut resolver = Resolver {
        machine: &identity.name,
        namespace: identity.namespace.as_deref(),
        classes: &surroundings.storage_classes,
        kept_classes: &surroundings.kept_classes,
        clone_sources: &surroundings.clone_sources,
        size,
        findings,
    };
    let mut disks = Disks {
        found: Vec::with_capacity(own.len() + 1),
        are_all: size.is_some(),
        are_guessed: size.is_some_and(|size| size.disks.are_guessed),
    };
    let mut add = |disk: Option<Candidate>| match disk {
        Some(disk) => disks.found.push(disk),
        None => disks.are_all = false,
    };
    let mut inherited = size
        .map(|size| inherited(own, &by_name, &size.disks))
        .unwrap_or_default();
    let root;
    if is_of_stack && own.is_empty() && inherited.is_empty() && size.is_some() {
        root = SizedDisk {
            name: naming::ROOT_DISK.to_owned(),
            size: Quantity::from_bytes(STACK_ROOT_DISK),
            storage_class: None,
            access_mode: None,
            volume_mode: None,
        };
        inherited.push(&root);
    }
    for base in &inherited {
        let over = by_name
            .remove(base.name.as_str())
            .map(|index| (index, &own[index]));
        add(resolver.resolve(Some(base), over));
    }
    for (index, disk) in own.iter().enumerate() {
        if by_name.get(disk.name.as_str()) == Some(&index) {
            add(resolver.resolve(None, Some((index, disk))));
        }
    }
    disks
}

/// The disks of the size: all, unless a boot disk of the spec replaces them.
fn inherited<'a>(
    own: &[Disk],
    by_name: &BTreeMap<&str, usize>,
    sized: &'a SizedDisks,
) -> Vec<&'a SizedDisk> {
    let replaced = sized.replaced_by_boot_disk && own.iter().any(|disk| disk.boot == Some(true));
    let disks = sized.disks.iter();
    disks
        .filter(|base| !replaced || by_name.contains_key(base.name.as_str()))
        .collect()
}

fn check_names(own: &[Disk], findings: &mut Findings) {
    for (index, disk) in own.iter().enumerate() {
        if let Err(why) = check_name(&disk.name) {
            findings.invalid(format!("spec.disks[{index}].name"), why);
        }
    }
    if let Some((index, name)) = first_duplicate(own.iter().map(|disk| disk.name.as_str())) {
        findings.invalid(
            format!("spec.disks[{index}].name"),
            format!("{name:?} is a duplicate: give each disk a unique name"),
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

pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    if name == naming::CLOUD_INIT_VOLUME {
        Err("is the name of the cloud-init volume: choose another")
    } else if naming::is_dns_label(name) {
        Ok(())
    } else {
        Err("must be a DNS label: lower case letters, digits and '-', at most 63 characters")
    }
}

const NVME: &str = "nvme";

/// Meaning of a disk's type.
struct Device<'a> {
    type_: DiskType,
    bus: Option<DiskBus>,
    storage_class: Option<&'a str>,
}

impl<'a> Device<'a> {
    fn of(type_: &'a str) -> Self {
        let device = |type_, bus, storage_class| Self {
            type_,
            bus,
            storage_class,
        };
        let bus = |bus| device(DiskType::Disk, Some(bus), None);
        match type_ {
            "" | "disk" => device(DiskType::Disk, None, None),
            "cdrom" => device(DiskType::Cdrom, None, None),
            "virtio" | NVME => bus(DiskBus::Virtio),
            "sata" => bus(DiskBus::Sata),
            "scsi" => bus(DiskBus::Scsi),
            class => device(DiskType::Disk, None, Some(class)),
        }
    }
}

struct Resolver<'a> {
    machine: &'a str,
    namespace: Option<&'a str>,
    classes: &'a Known<StorageClass>,
    kept_classes: &'a BTreeMap<String, String>,
    clone_sources: &'a CloneSources,
    size: Option<&'a Sizing>,
    findings: &'a mut Findings,
}

impl Resolver<'_> {
    /// Resolves one disk: each field from the spec, else from the size, else the default.
    fn resolve(
        &mut self,
        base: Option<&SizedDisk>,
        over: Option<(usize, &Disk)>,
    ) -> Option<Candidate> {
        let place = over.map_or(Place::Inherited, |(index, _)| Place::Own(index));
        let over = over.map(|(_, disk)| disk);
        let name = over
            .map(|disk| &disk.name)
            .or(base.map(|base| &base.name))?
            .clone();
        let size = self.size(place, &name, base, over);
        let device = self.device(place, over);
        let storage_class = over
            .and_then(|disk| disk.storage_class.as_deref())
            .or(device.storage_class)
            .or(base.and_then(|base| base.storage_class.as_deref()));
        let storage_class = self.storage_class(place, &name, storage_class);
        let access_mode = over
            .and_then(|disk| disk.access_mode)
            .or(base.and_then(|base| base.access_mode))
            .unwrap_or(AccessMode::ReadWriteOnce);
        let volume_mode = over
            .and_then(|disk| disk.volume_mode)
            .or(base.and_then(|base| base.volume_mode))
            .unwrap_or(VolumeMode::Filesystem);
        let source = over.and_then(|disk| disk.source.as_ref());
        if source.is_none() && access_mode == AccessMode::ReadOnlyMany {
            let Subject {
                path,
                disk,
                in_spec,
            } = self.subject(place, "accessMode", &name);
            self.findings.invalid(
                path,
                format!(
                    "{disk} is read-only and empty: give it a source, or use ReadWriteMany{in_spec}"
                ),
            );
        }
        let source = source.map_or(ResolvedSource::Empty, |source| {
            self.source(place, &name, source)
        });
        let type_ = device.type_;
        let bus = over.and_then(|disk| disk.bus).or(device.bus);
        let bus = bus.unwrap_or(match type_ {
            DiskType::Disk => DiskBus::Virtio,
            DiskType::Cdrom => DiskBus::Sata,
        });
        if type_ == DiskType::Cdrom && bus == DiskBus::Virtio {
            self.findings.invalid(
                place.field("bus"),
                "a cdrom cannot be on the virtio bus: use sata or scsi",
            );
        }
        Some(Candidate {
            marked_boot: over.and_then(|disk| disk.boot).unwrap_or_default(),
            resolved: ResolvedDisk {
                name,
                size: size?,
                storage_class,
                access_mode,
                volume_mode,
                type_,
                bus,
                source,
                boot_order: None,
                origin: match over {
                    Some(_) => DiskOrigin::Listed,
                    None => DiskOrigin::Size,
                },
                adopted_claim: None,
            },
        })
    }

    /// What a disk's type says, which may be a device, a bus or a StorageClass.
    fn device<'a>(&mut self, place: Place, over: Option<&'a Disk>) -> Device<'a> {
        let type_ = over.and_then(|disk| disk.type_.as_deref());
        let device = Device::of(type_.unwrap_or_default());
        let has = |given: bool, field: &str| given.then(|| place.field(field));
        if let Some(disk) = over {
            if let Some(path) = has(disk.bus.is_some() && device.bus.is_some(), "bus") {
                let message = "type names a bus: leave bus out, or use type disk";
                self.findings.invalid(path, message);
            }
            let both = disk.storage_class.is_some() && device.storage_class.is_some();
            if let Some(path) = has(both, "storageClass") {
                let message = "type names a StorageClass: leave storageClass out, or use type disk";
                self.findings.invalid(path, message);
            }
        }
        if type_ == Some(NVME) {
            self.findings.note(
                place.field("type"),
                "KubeVirt does not emulate NVMe: the disk is on the virtio bus",
            );
        }
        device
    }

    fn size(
        &mut self,
        place: Place,
        name: &str,
        base: Option<&SizedDisk>,
        over: Option<&Disk>,
    ) -> Option<Quantity> {
        let gibibytes = over.and_then(|disk| disk.size_gb);
        let text = over.and_then(|disk| disk.size.as_deref());
        if gibibytes.is_some() && text.is_some() {
            self.findings.invalid(
                place.field("sizeGB"),
                "size and sizeGB say the same thing: give one or the other",
            );
        }
        match (text, base) {
            (Some(text), _) => {
                amount::checked(&place.field("size"), amount::parsed(text), self.findings)
            }
            (None, _) if gibibytes.is_some() => {
                let size = amount::parsed(&format!("{}Gi", gibibytes.unwrap_or_default()));
                amount::checked(&place.field("sizeGB"), size, self.findings)
            }
            (None, Some(base)) => Some(base.size),
            (None, None) => {
                if let Some(size) = self.size {
                    let message =
                        format!("is missing: give the size of disk {name:?}, such as 20Gi");
                    self.findings.error(SpecError {
                        certain: !size.disks.are_guessed,
                        ..SpecError::invalid(place.field("size"), message)
                    });
                }
                None
            }
        }
    }

    fn storage_class(
        &mut self,
        place: Place,
        disk: &str,
        requested: Option<&str>,
    ) -> Option<String> {
        if let Some(kept) = self.kept_classes.get(disk) {
            return Some(kept.clone());
        }
        let named = requested.filter(|&name| name != DEFAULT_STORAGE_CLASS);
        let path = || place.field("storageClass");
        match (
            named,
            self.classes.get(named.unwrap_or(DEFAULT_STORAGE_CLASS)),
        ) {
            (_, Lookup::Found(class)) => class.metadata.name.clone(),
            (Some(name), Lookup::Missing) => {
                let Subject {
                    path,
                    disk,
                    in_spec,
                } = self.subject(place, "storageClass", disk);
                let of = match place {
                    Place::Own(_) => String::new(),
                    Place::Inherited => format!("{disk}: "),
                };
                let message = format!(
                    "{of}no StorageClass is named {name:?}: create it, or name another{in_spec}"
                );
                self.findings.error(not_found(path, message));
                None
            }
            (Some(name), Lookup::Unknown) => {
                self.findings
                    .note(path(), format!("StorageClass {name:?} is not checked"));
                Some(name.to_owned())
            }
            (None, Lookup::Missing | Lookup::Unknown) => match self.classes.default_class() {
                Lookup::Found(class) => class.metadata.name.clone(),
                Lookup::Missing => {
                    let Subject {
                        path,
                        disk,
                        in_spec,
                    } = self.subject(place, "storageClass", disk);
                    let message = format!(
                        "{disk} names no StorageClass and the cluster has no default one: mark one as default, or name one{in_spec}"
                    );
                    self.findings.error(not_found(path, message));
                    None
                }
                Lookup::Unknown => {
                    self.findings
                        .note(path(), "the StorageClass is left to the cluster's default");
                    None
                }
            },
        }
    }

    /// How a message refers to a field of a disk. A disk of the size is not in the spec, so its errors are
    /// reported at the field that names the size.
    fn subject(&self, place: Place, field: &str, disk: &str) -> Subject {
        match (place, self.size) {
            (Place::Inherited, Some(size)) => Subject {
                path: size.field.to_owned(),
                disk: match &size.source {
                    SizingSource::Class { name, .. } => {
                        format!("disk {disk:?} of MachineClass {name:?}")
                    }
                    source => format!("disk {disk:?} of {source}"),
                },
                in_spec: " for it in spec.disks",
            },
            (place, _) => Subject {
                path: place.field(field),
                disk: format!("disk {disk:?}"),
                in_spec: "",
            },
        }
    }
}

fn not_found(path: String, message: String) -> SpecError {
    SpecError::new(ErrorType::StorageClassNotFound, path, message).in_reference()
}

/// How a message refers to a field of a disk.
struct Subject {
    path: String,
    disk: String,
    /// Where the user can override it, if that is not the field itself.
    in_spec: &'static str,
}

/// Where a disk comes from.
#[derive(Clone, Copy)]
enum Place {
    /// `spec.disks` at this index.
    Own(usize),
    /// The size.
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
