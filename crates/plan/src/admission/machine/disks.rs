//! Review of existing disks: they may grow, and never shrink.
//!
//! The schema lets sizes only grow, so a size cannot be undone: one that a disk cannot have is refused. A
//! disk that was never created is not restricted.

use api::{Machine, ObjectMeta, cdi::ObservedDataVolume, core::ObservedClaim};

use super::{Change, ReviewContext};
use crate::{
    Quantity,
    admission::Verdict,
    machine::{NotExpandable, Obstacle, ResolvedDisk, Standing, ignored_modes},
    naming,
};

pub(super) fn check(change: &Change<'_>, context: &ReviewContext, verdict: &mut Verdict) {
    match change.old {
        Some(old) => check_sizes(old, change, context, verdict),
        None => check_left_behind(change, context, verdict),
    }
}

fn check_sizes(old: &Machine, change: &Change<'_>, context: &ReviewContext, verdict: &mut Verdict) {
    let Change {
        new, before, now, ..
    } = change;
    for disk in &now.disks {
        let existing = ExistingDisk::of(disk, new, context);
        // A terminating disk will be created again, and foreign disks are not compared.
        if existing.standing(disk, new) != Some(Standing::Usable) {
            continue;
        }
        let Some(claim) = existing.claim else {
            if let Some(volume) = existing.volume {
                check_unmade(disk, volume, verdict);
            }
            continue;
        };
        check_modes(old, new, disk, claim, verdict);
        let mut planned = before.iter().flat_map(|before| &before.disks);
        let planned = planned.find(|before| before.name == disk.name);
        let size = effective_size(disk, claim, existing.volume, planned.map(|disk| disk.size));
        match size.filter(|size| disk.size < *size) {
            Some(size) => shrink(old, new, disk, size, verdict),
            None => grow((old, new), disk, (claim, size), context, verdict),
        }
    }
}

/// The modes of a claim never change. A mode that the change introduces is refused. One that was listed
/// before is a warning, so that the rest of the Machine can be changed.
fn check_modes(
    old: &Machine,
    new: &Machine,
    disk: &ResolvedDisk,
    claim: &ObservedClaim,
    verdict: &mut Verdict,
) {
    let before = ignored_modes(old, &disk.name, claim);
    let modes = |machine: &Machine| {
        let mut disks = machine.spec.disks.iter().flatten();
        let listed = disks.find(|listed| listed.name == disk.name);
        listed.map(|listed| (listed.access_mode, listed.volume_mode))
    };
    let is_new = before.is_empty() || modes(old) != modes(new);
    for ignored in ignored_modes(new, &disk.name, claim) {
        if is_new {
            verdict.refuse(ignored.field, ignored.message);
        } else {
            verdict.warn(format!("{}: {}", ignored.field, ignored.message));
        }
    }
}

/// Warns of disks of an earlier Machine of this name, which a new one adopts only on request.
fn check_left_behind(change: &Change<'_>, context: &ReviewContext, verdict: &mut Verdict) {
    for disk in &change.now.disks {
        let existing = ExistingDisk::of(disk, change.new, context);
        if let Some((kind, metadata)) = existing.object(disk)
            && Standing::of(metadata, change.new) == Standing::LeftBehind
        {
            let name = metadata.name.as_deref().unwrap_or_default();
            let obstacle = Obstacle::left_behind(kind, name);
            verdict.warn(format!("spec.disks: {}", obstacle.message));
        }
    }
}

/// The claim and DataVolume of a disk, if they exist.
struct ExistingDisk<'a> {
    claim: Option<&'a ObservedClaim>,
    volume: Option<&'a ObservedDataVolume>,
}

impl<'a> ExistingDisk<'a> {
    fn of(disk: &ResolvedDisk, machine: &Machine, context: &'a ReviewContext) -> Self {
        let machine = machine.metadata.name.as_deref().unwrap_or_default();
        let name = naming::claim(machine, &disk.name);
        let is_it = |metadata: &ObjectMeta| metadata.name.as_ref() == Some(&name);
        Self {
            claim: context.claims.iter().find(|claim| is_it(&claim.metadata)),
            volume: context
                .data_volumes
                .iter()
                .find(|volume| is_it(&volume.metadata)),
        }
    }

    /// The object that decides the ownership: a claim that CDI created belongs to its DataVolume.
    fn object(&self, disk: &ResolvedDisk) -> Option<(&'static str, &'a ObjectMeta)> {
        let volume = self.volume.filter(|_| disk.source.is_data_volume());
        let volume = volume.map(|volume| ("DataVolume", &volume.metadata));
        let claim = self.claim;
        volume.or(claim.map(|claim| ("PersistentVolumeClaim", &claim.metadata)))
    }

    fn standing(&self, disk: &ResolvedDisk, machine: &Machine) -> Option<Standing> {
        let (_, metadata) = self.object(disk)?;
        Some(Standing::of(metadata, machine))
    }
}

/// The size that a claim requests.
pub(super) fn requested_size(claim: &ObservedClaim) -> Option<Quantity> {
    claim.spec.resources.requests.storage.parse().ok()
}

/// The size of a disk from the user's point of view.
///
/// CDI requests a larger claim than the DataVolume states, for the overhead of a file system, which is
/// configured per cluster. The DataVolume has the stated size. If the disk was expanded since, the size of
/// the previous spec counts, once the claim is large enough for it.
fn effective_size(
    disk: &ResolvedDisk,
    claim: &ObservedClaim,
    volume: Option<&ObservedDataVolume>,
    planned: Option<Quantity>,
) -> Option<Quantity> {
    let requested = requested_size(claim)?;
    // CDI can be configured to delete finished DataVolumes.
    if volume.is_none() && !disk.source.is_data_volume() {
        return Some(requested);
    }
    let stated = volume.and_then(data_volume_size);
    stated.max(planned.filter(|planned| *planned <= requested))
}

/// The size that a DataVolume states.
fn data_volume_size(volume: &ObservedDataVolume) -> Option<Quantity> {
    let spec = volume.spec.value();
    let stated = spec.pointer("/storage/resources/requests/storage")?;
    stated.as_str()?.parse().ok()
}

/// Warns that a disk which CDI has not created yet gets the size of its DataVolume, which is immutable.
fn check_unmade(disk: &ResolvedDisk, volume: &ObservedDataVolume, verdict: &mut Verdict) {
    let ResolvedDisk { name, size, .. } = disk;
    if let Some(stated) = data_volume_size(volume).filter(|stated| size < stated) {
        let of = volume.metadata.name.as_deref().unwrap_or_default();
        verdict.warn(format!(
            "spec.disks: disk {name:?} becomes {stated}, as DataVolume {of:?} says: list it under another name to create it with {size}"
        ));
    }
}

/// Refuses a smaller size that the change sets itself. One that comes from a smaller template or class is a
/// warning, because the rest of that size applies.
fn shrink(
    old: &Machine,
    new: &Machine,
    disk: &ResolvedDisk,
    size: Quantity,
    verdict: &mut Verdict,
) {
    let ResolvedDisk {
        name, size: less, ..
    } = disk;
    match newly_set_size(old, new, name) {
        Some(field) => {
            let problem = format!(
                "disk {name:?} has {size} and cannot shrink to {less}: ask for {size} or more"
            );
            verdict.refuse(field, problem);
        }
        None => verdict.warn(format!(
            "spec.disks: disk {name:?} keeps its {size}, since disks do not shrink, and does not become {less}"
        )),
    }
}

fn grow(
    (old, new): (&Machine, &Machine),
    disk: &ResolvedDisk,
    (claim, size): (&ObservedClaim, Option<Quantity>),
    context: &ReviewContext,
    verdict: &mut Verdict,
) {
    let ResolvedDisk {
        name, size: more, ..
    } = disk;
    let Some(requested) = requested_size(claim).filter(|requested| more > requested) else {
        return;
    };
    let size = size.unwrap_or(requested);
    let Some(not_expandable) = NotExpandable::of(claim, &context.surroundings.storage_classes)
    else {
        return;
    };
    let why = format!("disk {name:?} cannot grow from {size} to {more}: {not_expandable}");
    match (newly_set_size(old, new, name), listed_size(new, name)) {
        (Some(field), _) => verdict.refuse(field, why),
        (None, Some((index, _))) => verdict.warn(format!("spec.disks[{index}].size: {why}")),
        (None, None) => verdict.warn(format!("spec.disks: {why}, or ask for {size}")),
    }
}

/// The field of a disk's size, if the change sets it to a new value.
pub(super) fn newly_set_size(old: &Machine, new: &Machine, disk: &str) -> Option<String> {
    let (index, size) = listed_size(new, disk)?;
    let before = listed_size(old, disk);
    let is_new = before.is_none_or(|(_, before)| before != size);
    let field = match size {
        ListedSize::Quantity(_) => "size",
        ListedSize::Gibibytes(_) => "sizeGB",
    };
    is_new.then(|| format!("spec.disks[{index}].{field}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListedSize<'a> {
    Quantity(&'a str),
    Gibibytes(i32),
}

/// Index and size of a disk in the spec, if the spec sets its size.
fn listed_size<'a>(machine: &'a Machine, disk: &str) -> Option<(usize, ListedSize<'a>)> {
    let mut disks = machine.spec.disks.iter().flatten().enumerate();
    let (index, given) = disks.find(|(_, given)| given.name == disk)?;
    let quantity = given.size.as_deref().map(ListedSize::Quantity);
    let size = quantity.or_else(|| given.size_gb.map(ListedSize::Gibibytes));
    Some((index, size?))
}
