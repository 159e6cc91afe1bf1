//! Adoption of claims, and of DataVolumes without another controller.

use std::collections::BTreeMap;

use api::{ObjectMeta, labels};

use crate::machine::{
    ErrorType, Kind, MetadataChange, Observed, Obstacle, Part, ResolvedMachine, Step, VolumeObject,
    build,
    plan::{
        data_loss::Loss,
        disks::change_metadata,
        ownership::{is_foreign, is_own_disk, name},
    },
};

#[derive(Default)]
pub(super) struct AdoptedDisks {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
}

/// Makes claims, and DataVolumes without another controller, those of the Machine.
pub(super) fn adopt_disks(observed: &Observed<'_>, machine: &ResolvedMachine) -> AdoptedDisks {
    let mut disks = AdoptedDisks::default();
    let own = &machine.identity.name;
    for (disk, volume) in machine.disks.iter().zip(build(machine).volumes) {
        let desired = match volume {
            VolumeObject::Claim(claim) => claim.metadata,
            VolumeObject::DataVolume(volume) => volume.metadata,
        };
        let claim_name = disk.claim(own);
        let mut claims = observed.claims.iter();
        let claim = claims.find(|claim| name(&claim.metadata) == claim_name);
        match Loss::of(observed, disk, claim.copied(), desired.labels.clone()) {
            Loss::None => {}
            Loss::Unconfirmed(read) => disks.steps.push(*read),
            Loss::Lost(obstacle) => disks.obstacles.push(obstacle),
        }
        let Some(claim) = claim else {
            disks.obstacles.push(Obstacle::error(
                Part::Storage,
                ErrorType::ForeignObject,
                format!(
                    "PersistentVolumeClaim {claim_name:?} of disk {:?} does not exist, or has no label {}={}",
                    disk.name,
                    labels::MANAGED_BY,
                    labels::MANAGER
                ),
            ));
            continue;
        };
        let mut volumes = observed.data_volumes.iter();
        let volume = volumes.find(|volume| {
            name(&volume.metadata) == claim_name && !is_foreign(&volume.metadata, observed.machine)
        });
        let objects = [
            Some((Kind::PersistentVolumeClaim, &claim.metadata)),
            volume.map(|volume| (Kind::DataVolume, &volume.metadata)),
        ];
        for (kind, found) in objects.into_iter().flatten() {
            if let Some(obstacle) = not_adoptable_disk(observed, kind, found) {
                disks.obstacles.push(obstacle);
                continue;
            }
            let change = MetadataChange {
                labels: missing(desired.labels.as_ref(), found.labels.as_ref()),
                annotations: missing(desired.annotations.as_ref(), found.annotations.as_ref()),
                ..MetadataChange::default()
            };
            if change != MetadataChange::default() {
                let reason = "it is this Machine's disk";
                disks
                    .steps
                    .push(change_metadata(kind, found, change, reason));
            }
        }
    }
    disks
}

/// Why a disk is not adopted: it belongs to someone else, such as another Machine.
fn not_adoptable_disk(observed: &Observed<'_>, kind: Kind, disk: &ObjectMeta) -> Option<Obstacle> {
    let machine = observed.machine;
    let label = disk
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::MACHINE));
    let is_of_other = label.is_some_and(|it| Some(it) != machine.metadata.name.as_ref());
    let is_foreign = !is_own_disk(disk, machine) && (is_of_other || is_foreign(disk, machine));
    is_foreign.then(|| Obstacle::foreign(Part::Storage, kind.as_str(), name(disk)))
}

/// The entries that an object lacks or has with other values.
pub(super) fn missing(
    desired: Option<&BTreeMap<String, String>>,
    found: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, Option<String>> {
    let desired = desired.into_iter().flatten();
    desired
        .filter(|(name, value)| found.and_then(|all| all.get(*name)) != Some(value))
        .map(|(name, value)| (name.clone(), Some(value.clone())))
        .collect()
}
