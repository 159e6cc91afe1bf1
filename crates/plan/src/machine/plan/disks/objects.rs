//! Claims and DataVolumes of a Machine, and steps that delete them or change only their metadata.

use api::ObjectMeta;

use crate::{
    machine::{
        Action, Kind, MetadataChange, Observed, Step,
        plan::{
            ownership::{data_volume, is_own_disk, is_terminating, name, remove_owner, uid},
            tampering,
        },
    },
    managed,
};

/// Claims and DataVolumes with this Machine's label, DataVolumes first.
pub(super) fn objects<'a>(observed: &Observed<'a>) -> impl Iterator<Item = (Kind, &'a ObjectMeta)> {
    let volumes = observed
        .data_volumes
        .iter()
        .map(|volume| (Kind::DataVolume, &volume.metadata));
    let claims = observed
        .claims
        .iter()
        .map(|claim| (Kind::PersistentVolumeClaim, &claim.metadata));
    volumes.chain(claims)
}

/// Whether the cache has a claim or DataVolume.
pub(in crate::machine::plan) fn is_cached(
    observed: &Observed<'_>,
    kind: Kind,
    desired: &str,
) -> bool {
    objects(observed).any(|(found, disk)| found == kind && name(disk) == desired)
}

/// Disks that belong to this Machine and are not terminating, DataVolumes first. Claims that are deleted
/// with their DataVolume are left out.
pub(in crate::machine::plan) fn own_disks<'a>(
    observed: &Observed<'a>,
) -> impl Iterator<Item = (Kind, &'a ObjectMeta)> {
    let machine = observed.machine;
    let volumes: Vec<&str> = observed
        .data_volumes
        .iter()
        .filter_map(|volume| volume.metadata.uid.as_deref())
        .collect();
    objects(observed).filter(move |(_, metadata)| {
        let follows = data_volume(metadata).is_some_and(|volume| volumes.contains(&volume));
        is_own_disk(metadata, machine) && !is_terminating(metadata) && !follows
    })
}

pub(in crate::machine::plan) fn change_metadata(
    kind: Kind,
    disk: &ObjectMeta,
    change: MetadataChange,
    reason: &str,
) -> Step {
    Step {
        action: Action::ChangeMetadata {
            kind,
            name: name(disk).to_owned(),
            uid: uid(disk),
            change,
        },
        reason: reason.to_owned(),
        event: None,
    }
}

/// Deletes a disk, unless it has changed since it was observed.
pub(in crate::machine::plan) fn delete(kind: Kind, metadata: &ObjectMeta, reason: &str) -> Step {
    Step {
        action: Action::Delete {
            kind,
            name: name(metadata).to_owned(),
            uid: uid(metadata),
            resource_version: metadata.resource_version.clone(),
        },
        reason: reason.to_owned(),
        event: None,
    }
}

/// Removes the owner references that earlier versions set on disks.
pub(in crate::machine::plan) fn remove_owner_references(observed: &Observed<'_>) -> Vec<Step> {
    let machine = observed.machine.metadata.uid.as_deref();
    objects(observed)
        .filter(|(_, disk)| managed::is_owned_by(disk, machine) && !is_terminating(disk))
        .map(|(kind, disk)| {
            let field = ["metadata.ownerReferences".to_owned()];
            let why = ", since the garbage collector must not delete disks";
            Step {
                event: tampering::removed(kind, disk, field, why),
                ..remove_owner(
                    kind,
                    disk,
                    machine,
                    "the garbage collector must not delete disks",
                )
            }
        })
        .collect()
}
