//! Access and volume modes of existing claims.
//!
//! The modes of a claim never change, so the VirtualMachine is built from them and not from the spec. A
//! VirtualMachine with `LiveMigrate` and a disk that only one node can mount blocks every drain of its node.

use api::{AccessMode, Machine, VolumeMode, core::ObservedClaim};

use super::ownership::{is_terminating, name};
use crate::machine::{Observed, ResolvedMachine, disk_name::disk_name};

/// The effective access mode of a claim: ReadWriteMany if it has that, else its first.
pub(crate) fn access_mode(claim: &ObservedClaim) -> Option<AccessMode> {
    let modes = &claim.spec.access_modes;
    let shared = modes
        .iter()
        .find(|mode| **mode == AccessMode::ReadWriteMany);
    shared.or(modes.first()).copied()
}

/// Replaces the modes of the disks by those of their claims.
pub(super) fn with_claim_modes(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
) -> ResolvedMachine {
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

/// Modes in the spec that differ from those of the claims, for the condition.
pub(super) fn ignored(observed: &Observed<'_>) -> Vec<String> {
    let disks = observed.machine.spec.disks.iter().flatten();
    disks
        .filter_map(|disk| Some((&disk.name, claim(observed, &disk.name)?)))
        .flat_map(|(disk, claim)| ignored_modes(observed.machine, disk, claim))
        .map(|IgnoredMode { field, message }| format!("{field}: {message}"))
        .collect()
}

/// A mode in the spec that differs from that of the existing claim.
pub(crate) struct IgnoredMode {
    pub(crate) field: String,
    /// The effective mode, and the remedy.
    pub(crate) message: String,
}

/// The modes that a Machine lists for a disk and that its claim does not have.
pub(crate) fn ignored_modes(
    machine: &Machine,
    disk: &str,
    claim: &ObservedClaim,
) -> Vec<IgnoredMode> {
    let mut disks = machine.spec.disks.iter().flatten().enumerate();
    let Some((index, listed)) = disks.find(|(_, listed)| listed.name == disk) else {
        return Vec::new();
    };
    let claim_name = name(&claim.metadata);
    let ignored = |field: &str, has: String| IgnoredMode {
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
    let machine = name(&observed.machine.metadata);
    let mut claims = observed.claims.iter();
    claims
        .find(|claim| {
            disk_name(machine, &claim.metadata) == Some(disk) && !is_terminating(&claim.metadata)
        })
        .copied()
}
