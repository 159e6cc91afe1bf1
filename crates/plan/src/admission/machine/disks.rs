//! Disks that are there already: they may grow, and never shrink.
//!
//! A size that a Machine asks for itself cannot be taken back, as the schema lets sizes only grow. So
//! one that a disk cannot have now is refused.

use std::collections::BTreeMap;

use api::{Machine, core::ObservedClaim, labels};

use super::Facts;
use crate::{
    Quantity,
    admission::Verdict,
    machine::{
        Lookup, Obstacle, ResolvedDisk, ResolvedMachine, surroundings::disks_of,
        switches::is_switched_on,
    },
};

pub(super) fn check(
    (old, before): (&Machine, Option<&ResolvedMachine>),
    (new, now): (&Machine, &ResolvedMachine),
    facts: &Facts,
    verdict: &mut Verdict,
) {
    let claims: BTreeMap<&str, &ObservedClaim> = disks_of(new, &facts.claims).collect();
    let before = before.map(|before| before.disks.as_slice());
    for disk in &now.disks {
        let claim = claims.get(disk.name.as_str()).copied();
        let planned = before
            .unwrap_or_default()
            .iter()
            .find(|before| before.name == disk.name);
        // What was planned and is not had can be taken back.
        let Some(size) = claim.and_then(asked).or(planned.map(|disk| disk.size)) else {
            continue;
        };
        if disk.size < size {
            shrink(old, new, disk, size, verdict);
        } else if let Some(claim) = claim {
            grow((old, new), disk, claim, facts, verdict);
        }
    }
}

/// Disks of an earlier Machine of this name, which a new one takes over only if it is told to.
pub(super) fn check_left_behind(
    new: &Machine,
    now: &ResolvedMachine,
    facts: &Facts,
    verdict: &mut Verdict,
) {
    if is_switched_on(&new.metadata, labels::ADOPT_DISKS) {
        return;
    }
    for (disk, claim) in disks_of(new, &facts.claims) {
        let metadata = &claim.metadata;
        // What has an owner, or is deleted already, goes with it.
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let stays = owners.is_empty() && metadata.deletion_timestamp.is_none();
        if stays && now.disks.iter().any(|wanted| wanted.name == disk) {
            let name = metadata.name.as_deref().unwrap_or_default();
            let obstacle = Obstacle::left_behind("PersistentVolumeClaim", name);
            verdict.warn(format!("spec.disks: {}", obstacle.message));
        }
    }
}

fn asked(claim: &ObservedClaim) -> Option<Quantity> {
    claim.spec.resources.requests.storage.parse().ok()
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
    claim: &ObservedClaim,
    facts: &Facts,
    verdict: &mut Verdict,
) {
    let ResolvedDisk {
        name, size: more, ..
    } = disk;
    let Some(size) = asked(claim).filter(|size| more > size) else {
        return;
    };
    let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
    if let Lookup::Found(found) = facts.surroundings.storage_classes.get(class)
        && found.allow_volume_expansion != Some(true)
    {
        let why = format!(
            "disk {name:?} cannot grow from {size} to {more}: StorageClass {class:?} does not allow it"
        );
        match (newly_given(old, new, name), given_size(new, name)) {
            (Some(field), _) => {
                let message = format!("{field}: {why}; set allowVolumeExpansion in it first");
                verdict.refuse(field, message);
            }
            (None, Some((index, _))) => verdict.warn(format!(
                "spec.disks[{index}].size: {why}; set allowVolumeExpansion in it"
            )),
            (None, None) => verdict.warn(format!(
                "spec.disks: {why}; set allowVolumeExpansion in it, or ask for {size}"
            )),
        }
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
