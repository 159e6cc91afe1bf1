//! The modes of disks that exist. A claim's access mode and volume mode never change, so they are the
//! truth for the VirtualMachine, whatever the spec lists: one that is told to migrate with a disk that
//! only one node can mount blocks every drain of its node.

use api::{AccessMode, Machine, VolumeMode, core::ObservedClaim};

use super::ownership::{is_deleted, name};
use crate::{
    machine::{Observed, ResolvedMachine},
    naming,
};

/// The access mode that counts of a claim: the widest for a guest that writes.
pub(crate) fn access_mode(claim: &ObservedClaim) -> Option<AccessMode> {
    let modes = &claim.spec.access_modes;
    let shared = modes
        .iter()
        .find(|mode| **mode == AccessMode::ReadWriteMany);
    shared.or(modes.first()).copied()
}

/// The Machine with the modes that its claims have.
pub(super) fn resolved(observed: &Observed<'_>, machine: &ResolvedMachine) -> ResolvedMachine {
    let mut machine = machine.clone();
    for disk in &mut machine.disks {
        let Some(claim) = claim(observed, &disk.name) else {
            continue;
        };
        disk.access_mode = access_mode(claim).unwrap_or(disk.access_mode);
        disk.volume_mode = claim.spec.volume_mode.unwrap_or(disk.volume_mode);
    }
    machine
}

/// What the spec lists and claims do not have, one sentence each.
pub(super) fn ignored(observed: &Observed<'_>) -> Vec<String> {
    let disks = observed.machine.spec.disks.iter().flatten();
    disks
        .filter_map(|disk| Some((&disk.name, claim(observed, &disk.name)?)))
        .flat_map(|(disk, claim)| ignored_modes(observed.machine, disk, claim))
        .map(|Ignored { field, message }| format!("{field}: {message}"))
        .collect()
}

/// A mode that is listed for a disk whose claim has another.
pub(crate) struct Ignored {
    /// The field that lists it.
    pub(crate) field: String,
    /// What holds instead, and what to do.
    pub(crate) message: String,
}

/// The modes that a Machine lists for a disk and that its claim does not have.
pub(crate) fn ignored_modes(machine: &Machine, disk: &str, claim: &ObservedClaim) -> Vec<Ignored> {
    let mut disks = machine.spec.disks.iter().flatten().enumerate();
    let Some((index, listed)) = disks.find(|(_, listed)| listed.name == disk) else {
        return Vec::new();
    };
    let claim_name = name(&claim.metadata);
    let ignored = |field: &str, has: String| Ignored {
        field: format!("spec.disks[{index}].{field}"),
        message: format!(
            "disk {disk:?} stays {has}, as its PersistentVolumeClaim {claim_name} is and cannot \
             change: set {has}, or add another disk and copy the data"
        ),
    };
    let access = (listed.access_mode, access_mode(claim));
    let volume = (listed.volume_mode, claim.spec.volume_mode);
    let mut all = Vec::new();
    if let (Some(listed), Some(has)) = access
        && !claim.spec.access_modes.contains(&listed)
    {
        all.push(ignored("accessMode", access_mode_name(has).to_owned()));
    }
    if let (Some(listed), Some(has)) = volume
        && listed != has
    {
        all.push(ignored("volumeMode", volume_mode_name(has).to_owned()));
    }
    all
}

fn access_mode_name(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadWriteMany => "ReadWriteMany",
        AccessMode::ReadOnlyMany => "ReadOnlyMany",
    }
}

fn volume_mode_name(mode: VolumeMode) -> &'static str {
    match mode {
        VolumeMode::Filesystem => "Filesystem",
        VolumeMode::Block => "Block",
    }
}

fn claim<'a>(observed: &Observed<'a>, disk: &str) -> Option<&'a ObservedClaim> {
    let wanted = naming::claim(name(&observed.machine.metadata), disk);
    let mut claims = observed.claims.iter();
    claims
        .find(|claim| name(&claim.metadata) == wanted && !is_deleted(&claim.metadata))
        .copied()
}
