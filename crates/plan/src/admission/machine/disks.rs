//! Disks that are there already: they may grow, and never shrink.
//!
//! A size that a Machine asks for itself cannot be taken back, as the schema lets sizes only grow. So
//! one that a disk cannot have now is refused. A disk that was never made can still become anything.

use api::{Machine, ObjectMeta, cdi::ObservedDataVolume, core::ObservedClaim};

use super::{Change, ReviewContext};
use crate::{
    Quantity,
    admission::Verdict,
    machine::{Fixed, Obstacle, ResolvedDisk, Standing, ignored_modes},
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
        let there = There::of(disk, new, context);
        // What goes is made anew, and what is not ours is none of ours to measure.
        if there.standing(disk, new) != Some(Standing::Usable) {
            continue;
        }
        let Some(claim) = there.claim else {
            if let Some(volume) = there.volume {
                check_unmade(disk, volume, verdict);
            }
            continue;
        };
        check_modes(old, new, disk, claim, verdict);
        let mut planned = before.iter().flat_map(|before| &before.disks);
        let planned = planned.find(|before| before.name == disk.name);
        let size = given(disk, claim, there.volume, planned.map(|disk| disk.size));
        match size.filter(|size| disk.size < *size) {
            Some(size) => shrink(old, new, disk, size, verdict),
            None => grow((old, new), disk, (claim, size), context, verdict),
        }
    }
}

/// The modes of a claim never change. One that a change lists itself is refused; one that was listed
/// before is only told of, so that the rest of the Machine can still be changed.
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
        let message = format!("{}: {}", ignored.field, ignored.message);
        if is_new {
            verdict.refuse(ignored.field, message);
        } else {
            verdict.warn(message);
        }
    }
}

/// Disks of an earlier Machine of this name, which a new one takes over only if it is told to.
fn check_left_behind(change: &Change<'_>, context: &ReviewContext, verdict: &mut Verdict) {
    for disk in &change.now.disks {
        let there = There::of(disk, change.new, context);
        if let Some((kind, metadata)) = there.object(disk)
            && Standing::of(metadata, change.new) == Standing::LeftBehind
        {
            let name = metadata.name.as_deref().unwrap_or_default();
            let obstacle = Obstacle::left_behind(kind, name);
            verdict.warn(format!("spec.disks: {}", obstacle.message));
        }
    }
}

/// What is there of a disk.
struct There<'a> {
    claim: Option<&'a ObservedClaim>,
    volume: Option<&'a ObservedDataVolume>,
}

impl<'a> There<'a> {
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

    /// What decides whose the disk is: a claim that CDI has made is its DataVolume's.
    fn object(&self, disk: &ResolvedDisk) -> Option<(&'static str, &'a ObjectMeta)> {
        let volume = self.volume.filter(|_| disk.source.is_some());
        let volume = volume.map(|volume| ("DataVolume", &volume.metadata));
        let claim = self.claim;
        volume.or(claim.map(|claim| ("PersistentVolumeClaim", &claim.metadata)))
    }

    fn standing(&self, disk: &ResolvedDisk, machine: &Machine) -> Option<Standing> {
        let (_, metadata) = self.object(disk)?;
        Some(Standing::of(metadata, machine))
    }
}

/// What a claim asks for.
pub(super) fn asked(claim: &ObservedClaim) -> Option<Quantity> {
    claim.spec.resources.requests.storage.parse().ok()
}

/// The size of a disk as its Machine knows it.
///
/// CDI asks for more than it was told, to have room for a file system around the disk; how much more
/// is a setting of the cluster. What it was told is in its DataVolume, and what the disk has grown
/// to since is what was planned, once the claim has room for it.
fn given(
    disk: &ResolvedDisk,
    claim: &ObservedClaim,
    volume: Option<&ObservedDataVolume>,
    planned: Option<Quantity>,
) -> Option<Quantity> {
    let asked = asked(claim)?;
    // CDI can be set to clean up its DataVolumes.
    if volume.is_none() && disk.source.is_none() {
        return Some(asked);
    }
    let told = volume.and_then(told);
    told.max(planned.filter(|planned| *planned <= asked))
}

/// What CDI was told to make.
fn told(volume: &ObservedDataVolume) -> Option<Quantity> {
    let spec = volume.spec.value();
    let told = spec.pointer("/storage/resources/requests/storage")?;
    told.as_str()?.parse().ok()
}

/// A disk that CDI has not come to make can be smaller, but not by this DataVolume: nobody can change
/// one.
fn check_unmade(disk: &ResolvedDisk, volume: &ObservedDataVolume, verdict: &mut Verdict) {
    let ResolvedDisk { name, size, .. } = disk;
    if let Some(told) = told(volume).filter(|told| size < told) {
        let of = volume.metadata.name.as_deref().unwrap_or_default();
        verdict.warn(format!(
            "spec.disks: disk {name:?} becomes {told}, as DataVolume {of:?} says: list it under another name to have it made with {size}"
        ));
    }
}

/// A size that a change asks for itself is refused; one that a smaller template or class brings is
/// not, since the rest of that size can be had.
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
    match newly_given(old, new, name) {
        Some(field) => {
            let message = format!(
                "{field}: disk {name:?} has {size} and cannot shrink to {less}: ask for {size} or more"
            );
            verdict.refuse(field, message);
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
    let Some(asked) = asked(claim).filter(|asked| more > asked) else {
        return;
    };
    let size = size.unwrap_or(asked);
    let Some(fixed) = Fixed::of(claim, &context.surroundings.storage_classes) else {
        return;
    };
    let why = format!("disk {name:?} cannot grow from {size} to {more}: {fixed}");
    match (newly_given(old, new, name), given_size(new, name)) {
        (Some(field), _) => {
            let message = format!("{field}: {why}");
            verdict.refuse(field, message);
        }
        (None, Some((index, _))) => verdict.warn(format!("spec.disks[{index}].size: {why}")),
        (None, None) => verdict.warn(format!("spec.disks: {why}, or ask for {size}")),
    }
}

/// The field of a disk's size, if a change gives it one that the spec did not give before.
pub(super) fn newly_given(old: &Machine, new: &Machine, disk: &str) -> Option<String> {
    let (index, size) = given_size(new, disk)?;
    let before = given_size(old, disk);
    let is_new = before.is_none_or(|(_, before)| before != size);
    is_new.then(|| format!("spec.disks[{index}].size"))
}

/// Where the spec itself gives the size of a disk, and what it gives.
fn given_size<'a>(machine: &'a Machine, disk: &str) -> Option<(usize, &'a str)> {
    let mut disks = machine.spec.disks.iter().flatten().enumerate();
    let (index, given) = disks.find(|(_, given)| given.name == disk)?;
    Some((index, given.size.as_deref()?))
}
