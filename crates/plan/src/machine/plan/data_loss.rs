//! Detection of data loss.
//!
//! `status.disks` records the claim of every disk that was bound and filled. If a recorded claim was
//! deleted, no empty one replaces it until a user confirms with [`labels::RECREATE_DISK`]. A claim that is
//! not in the cache is read from the API server first: it may only have lost its labels.

use std::collections::BTreeMap;

use api::{
    DiskStatus, Machine,
    cdi::DataVolumePhase,
    core::{ClaimPhase, ObservedClaim},
    labels,
};

use super::ownership::{annotation, data_volume, is_terminating, name, uid};
use crate::machine::{
    Action, DiskOrigin, ErrorType, MetadataChange, Observed, Obstacle, Part, ResolvedDisk, Step,
    switches::is_switched_on,
};

/// Result of comparing a disk with its record.
pub(super) enum Loss {
    /// The claim is the recorded one, nothing is recorded, or a user has confirmed the loss.
    None,
    /// The claim is not in the cache. The step reads it from the API server.
    Unconfirmed(Box<Step>),
    /// The data is lost, and a user has to decide.
    Lost(Obstacle),
}

impl Loss {
    pub(super) fn of(
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        claim: Option<&ObservedClaim>,
        labels: Option<BTreeMap<String, String>>,
    ) -> Self {
        let Some(recorded) = recorded(observed.machine, &disk.name) else {
            return Self::None;
        };
        if disk.origin == DiskOrigin::Installer {
            // CDI imports the image again.
            return Self::None;
        }
        let Some(claim) = claim else {
            let is_read = observed.lost_claims.contains(&recorded.uuid.as_str());
            return match (is_confirmed(observed.machine, &recorded.uuid), is_read) {
                (true, _) => Self::None,
                (false, true) => Self::Lost(deleted(disk, recorded)),
                (false, false) => Self::Unconfirmed(Box::new(recover(recorded, labels))),
            };
        };
        if uid(&claim.metadata) != recorded.uuid {
            return if is_accepted(observed.machine, recorded) {
                Self::None
            } else {
                Self::Lost(replaced(disk, recorded, claim))
            };
        }
        if claim.status.phase == ClaimPhase::Lost {
            Self::Lost(without_volume(disk, recorded))
        } else if is_terminating(&claim.metadata) {
            Self::Lost(being_deleted(disk, recorded))
        } else {
            Self::None
        }
    }
}

/// The record of a disk.
fn recorded<'a>(machine: &'a Machine, disk: &str) -> Option<&'a DiskStatus> {
    let status = machine.status.as_ref()?;
    let mut disks = status.disks.iter().flatten();
    disks.find(|recorded| recorded.name == disk && !recorded.uuid.is_empty())
}

pub(super) fn is_recorded(machine: &Machine, disk: &str) -> bool {
    recorded(machine, disk).is_some()
}

/// Whether a user has confirmed the loss of a claim's data.
fn is_confirmed(machine: &Machine, claim: &str) -> bool {
    let confirmed = annotation(&machine.metadata, labels::RECREATE_DISK).unwrap_or_default();
    confirmed.split(',').any(|uid| uid.trim() == claim)
}

/// Whether another claim may replace the recorded one.
fn is_accepted(machine: &Machine, recorded: &DiskStatus) -> bool {
    is_confirmed(machine, &recorded.uuid) || is_switched_on(&machine.metadata, labels::ADOPT_DISKS)
}

/// The new record of a disk.
pub(crate) fn record(
    observed: &Observed<'_>,
    machine_name: &str,
    disk: &ResolvedDisk,
) -> Option<DiskStatus> {
    if disk.origin == DiskOrigin::Installer {
        return None;
    }
    let claim_name = disk.claim(machine_name);
    let before = recorded(observed.machine, &disk.name);
    let mut claims = observed.claims.iter();
    let claim = claims.find(|claim| name(&claim.metadata) == claim_name);
    let Some(claim) = claim else {
        return before.cloned();
    };
    if let Some(before) = before
        && before.uuid != uid(&claim.metadata)
        && !is_accepted(observed.machine, before)
    {
        return Some(before.clone());
    }
    // A DataVolume that does not own the claim is irrelevant: CDI fills only claims that it creates.
    let owner = data_volume(&claim.metadata);
    let mut volumes = observed.data_volumes.iter();
    let volume = volumes.find(|volume| owner.is_some() && volume.metadata.uid.as_deref() == owner);
    let is_filled = volume.is_none_or(|volume| volume.status.phase == DataVolumePhase::Succeeded);
    let is_own = super::ownership::is_own_disk(&claim.metadata, observed.machine);
    if claim.status.phase != ClaimPhase::Bound || !is_filled || !is_own {
        return before
            .filter(|before| before.uuid == uid(&claim.metadata))
            .cloned();
    }
    let requested = &claim.spec.resources.requests.storage;
    let size = claim.status.capacity.get("storage").unwrap_or(requested);
    let size: Option<crate::Quantity> = size.parse().ok();
    Some(DiskStatus {
        name: disk.name.clone(),
        pvc_name: claim_name,
        uuid: uid(&claim.metadata),
        size: size.and_then(|size| i64::try_from(size.nanos() / 1_000_000_000).ok()),
        device: None,
    })
}

/// Reads the recorded claim, and restores the labels by which the cache selects it.
pub(super) fn recover(recorded: &DiskStatus, labels: Option<BTreeMap<String, String>>) -> Step {
    let labels = labels.into_iter().flatten();
    Step {
        action: Action::RecoverClaim {
            name: recorded.pvc_name.clone(),
            uid: recorded.uuid.clone(),
            change: MetadataChange {
                labels: labels.map(|(name, value)| (name, Some(value))).collect(),
                ..MetadataChange::default()
            },
        },
        reason: "it is recorded in status.disks and not in the cache".to_owned(),
        event: None,
    }
}

fn lost(message: String) -> Obstacle {
    Obstacle::error(Part::Storage, ErrorType::DataLost, message)
}

fn confirm(recorded: &DiskStatus) -> String {
    format!(
        "annotate this Machine with {}: {:?}",
        labels::RECREATE_DISK,
        recorded.uuid
    )
}

fn deleted(disk: &ResolvedDisk, recorded: &DiskStatus) -> Obstacle {
    lost(format!(
        "PersistentVolumeClaim {}, which contained the data of disk {:?}, was deleted: restore it with \
         its labels from a backup and annotate this Machine with {}: \"true\"; or, to start over with a new disk, {}, \
         or give the disk another name in spec.disks",
        recorded.pvc_name,
        disk.name,
        labels::ADOPT_DISKS,
        confirm(recorded),
    ))
}

fn replaced(disk: &ResolvedDisk, recorded: &DiskStatus, claim: &ObservedClaim) -> Obstacle {
    lost(format!(
        "PersistentVolumeClaim {}, which contained the data of disk {:?}, was deleted, and another \
         client created one of its name (UID {}): to use its data, {}",
        recorded.pvc_name,
        disk.name,
        uid(&claim.metadata),
        confirm(recorded),
    ))
}

fn without_volume(disk: &ResolvedDisk, recorded: &DiskStatus) -> Obstacle {
    lost(format!(
        "PersistentVolumeClaim {} of disk {:?} is Lost: its PersistentVolume is gone. Restore the \
         volume; or, to start over with a new disk, give it another name in spec.disks",
        recorded.pvc_name, disk.name,
    ))
}

fn being_deleted(disk: &ResolvedDisk, recorded: &DiskStatus) -> Obstacle {
    lost(format!(
        "another client is deleting PersistentVolumeClaim {}, which contains the data of disk {:?}; \
         its data is lost once no pod uses it: copy the data before the guest stops",
        recorded.pvc_name, disk.name,
    ))
}

#[cfg(test)]
mod tests;
