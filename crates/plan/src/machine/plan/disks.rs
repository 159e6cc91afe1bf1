//! Disks: created once, expanded on request, never shrunk, deleted only if the policy says so and
//! nothing uses them.

mod growth;
mod objects;
mod removed;
mod retain;
mod standing;

use std::collections::BTreeMap;

use api::{
    ObjectMeta,
    cdi::{DataVolume, DataVolumeSpec, ObservedDataVolume},
    core::{ObservedClaim, PersistentVolumeClaim},
    labels,
};

use self::growth::grown;
pub(in crate::machine) use self::retain::is_retained;
pub(crate) use self::{growth::NotExpandable, standing::Standing};
pub(super) use self::{
    objects::{change_metadata, delete, is_cached, own_disks, remove_owner_references},
    removed::{delete_removed_disks, is_installer, is_to_be_deleted, record_removed},
    retain::retain,
};
use super::{
    data_loss::{Loss, is_recorded},
    ownership::{annotation, is_of_predecessor, is_own_disk, is_own_vm, name, uid},
    tampering,
    vm::ExistingVm,
};
use crate::{
    Event,
    machine::{
        Action, ErrorType, Kind, MetadataChange, Object, Observed, Obstacle, Part, ResolvedDisk,
        ResolvedMachine, Step, VolumeObject,
    },
    managed,
};

#[derive(Default)]
pub(super) struct Disks {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
}

/// Creates missing disks and updates those that differ from the desired state.
pub(super) fn reconcile(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    volumes: Vec<VolumeObject>,
) -> Disks {
    let mut disks = Disks::default();
    for (disk, volume) in machine.disks.iter().zip(volumes) {
        disks.reconcile_disk(observed, disk, volume);
    }
    disks
}

impl Disks {
    fn reconcile_disk(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        volume: VolumeObject,
    ) {
        let claim_name = disk.claim(name(&observed.machine.metadata));
        let claim = find_claim(observed, &claim_name);
        let labels = match &volume {
            VolumeObject::Claim(desired) => &desired.metadata.labels,
            VolumeObject::DataVolume(desired) => &desired.metadata.labels,
        };
        match Loss::of(observed, disk, claim, labels.clone()) {
            Loss::None => {}
            Loss::Unconfirmed(read) => {
                let message = format!("PersistentVolumeClaim {claim_name} is not in the cache");
                let waits = Obstacle::waiting(Part::Storage, message);
                self.steps.push(*read);
                self.obstacles.push(waits);
                return;
            }
            Loss::Lost(obstacle) => {
                self.obstacles.push(obstacle);
                return;
            }
        }
        match volume {
            VolumeObject::Claim(desired) => match claim {
                None => self.create(observed, Object::Claim(desired), &disk.name),
                Some(claim) => {
                    if self.is_usable(observed, "PersistentVolumeClaim", &claim.metadata) {
                        self.reconcile_claim(observed, disk, desired, claim);
                    }
                }
            },
            VolumeObject::DataVolume(desired) => {
                let found = observed
                    .data_volumes
                    .iter()
                    .find(|volume| name(&volume.metadata) == claim_name);
                match (found, claim) {
                    // CDI can be configured to delete finished DataVolumes: the claim is enough.
                    (None, Some(claim)) => {
                        if self.is_usable(observed, "PersistentVolumeClaim", &claim.metadata) {
                            self.record(observed, &desired.metadata, claim);
                            self.grow(observed, disk, claim);
                        }
                    }
                    (None, None) if !observed.installed.cdi => {
                        self.obstacles.push(Obstacle::error(
                            Part::Storage,
                            ErrorType::KubeVirtApiError,
                            format!(
                                "disk {:?} has a source, and CDI, which would fill it, is not installed: install CDI, or leave the source out",
                                disk.name
                            ),
                        ));
                    }
                    (None, None) => self.create(observed, Object::DataVolume(desired), &disk.name),
                    (Some(found), claim) => {
                        if self.is_usable(observed, "DataVolume", &found.metadata) {
                            self.reconcile_data_volume(observed, desired, found);
                            if let Some(claim) = claim {
                                self.grow(observed, disk, claim);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Records the Machine on a claim whose DataVolume is gone. The rest of the claim belongs to CDI.
    fn record(&mut self, observed: &Observed<'_>, desired: &ObjectMeta, claim: &ObservedClaim) {
        let machine = observed.machine.metadata.uid.as_deref();
        if annotation(&claim.metadata, labels::MACHINE_UID) == machine {
            return;
        }
        let all = |entries: &Option<BTreeMap<String, String>>| {
            let entries = entries.iter().flatten();
            entries
                .map(|(name, value)| (name.clone(), Some(value.clone())))
                .collect()
        };
        let change = MetadataChange {
            annotations: all(&desired.annotations),
            ..MetadataChange::default()
        };
        let kind = Kind::PersistentVolumeClaim;
        self.steps.push(change_metadata(
            kind,
            &claim.metadata,
            change,
            "it is this Machine's disk",
        ));
    }

    fn create(&mut self, observed: &Observed<'_>, object: Object, disk: &str) {
        let event = is_recorded(observed.machine, disk).then(|| {
            let message = format!(
                "Recreating disk {disk}, as the annotation {} requests: its previous data is lost",
                labels::RECREATE_DISK
            );
            Event::warning("DiskRecreated", message)
        });
        self.steps.push(Step {
            action: Action::Create(object),
            reason: format!("disk {disk} does not exist"),
            event,
        });
    }

    fn is_usable(&mut self, observed: &Observed<'_>, kind: &str, metadata: &ObjectMeta) -> bool {
        let name = name(metadata);
        let obstacle = match Standing::of(metadata, observed.machine) {
            Standing::Usable => return true,
            // Someone removed the record, but our VirtualMachine uses the disk.
            Standing::LeftBehind
                if annotation(metadata, labels::MACHINE_UID).is_none()
                    && is_in_own_vm(observed, name) =>
            {
                return true;
            }
            Standing::Terminating => Obstacle::waiting(
                Part::Storage,
                format!(
                    "{kind} {name:?} is being deleted: the operator recreates the disk afterwards"
                ),
            ),
            Standing::Foreign if is_of_predecessor(metadata, observed.machine) => {
                Obstacle::of_predecessor(Part::Storage, kind, name)
            }
            Standing::Foreign => Obstacle::foreign(Part::Storage, kind, name),
            Standing::LeftBehind => Obstacle::left_behind(kind, name),
        };
        self.obstacles.push(obstacle);
        false
    }

    fn reconcile_claim(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        mut desired: PersistentVolumeClaim,
        claim: &ObservedClaim,
    ) {
        let grows = self.growth(observed, disk, claim);
        if grows.is_none() && matches_desired(&desired.metadata, &claim.metadata) {
            return;
        }
        let repair_event = repair_event(
            observed,
            Kind::PersistentVolumeClaim,
            &desired.metadata,
            &claim.metadata,
        );
        // Immutable fields keep their values, and nothing shrinks.
        desired.spec = claim.spec.clone();
        if let Some(size) = grows {
            desired.spec.resources.requests.storage = size.to_string();
        }
        let event = repair_event.or_else(|| grows.map(|size| grown(disk, claim, size)));
        self.steps.push(Step {
            reason: match grows {
                Some(size) => format!("disk {} grows to {size}", disk.name),
                None => "its labels or annotations change".to_owned(),
            },
            action: Action::Apply {
                object: Object::Claim(desired),
                uid: uid(&claim.metadata),
                created_at: managed::created_at(&claim.metadata),
            },
            event,
        });
    }

    fn reconcile_data_volume(
        &mut self,
        observed: &Observed<'_>,
        mut desired: DataVolume,
        found: &ObservedDataVolume,
    ) {
        if matches_desired(&desired.metadata, &found.metadata) {
            return;
        }
        let event = repair_event(
            observed,
            Kind::DataVolume,
            &desired.metadata,
            &found.metadata,
        );
        // The spec is immutable, and an apply without it would remove it.
        if let Ok(spec) = serde_json::from_value::<DataVolumeSpec>(found.spec.value()) {
            desired.spec = spec;
        }
        self.steps.push(Step {
            action: Action::Apply {
                object: Object::DataVolume(desired),
                uid: uid(&found.metadata),
                created_at: managed::created_at(&found.metadata),
            },
            reason: "its labels or annotations change".to_owned(),
            event,
        });
    }
}

fn is_in_own_vm(observed: &Observed<'_>, claim: &str) -> bool {
    let vm = observed.virtual_machine;
    let vm = vm.filter(|vm| is_own_vm(&vm.metadata, observed.machine));
    vm.is_some_and(|vm| ExistingVm::of(vm).refers_to(claim))
}

/// The Event for changes that someone else made to a disk. A disk that is being adopted was not ours.
fn repair_event(
    observed: &Observed<'_>,
    kind: Kind,
    desired: &ObjectMeta,
    found: &ObjectMeta,
) -> Option<Event> {
    let machine = observed.machine;
    if !is_own_disk(found, machine) && !is_in_own_vm(observed, name(found)) {
        return None;
    }
    tampering::repair_event(kind, desired, found, machine)
}

fn matches_desired(desired: &ObjectMeta, found: &ObjectMeta) -> bool {
    let entries = |entries: &Option<BTreeMap<String, String>>,
                   has: &dyn Fn(&str) -> Option<String>| {
        let mut desired = entries.iter().flatten();
        desired.all(|(name, value)| has(name).as_ref() == Some(value))
    };
    let labels = found.labels.as_ref();
    entries(&desired.labels, &|name| labels?.get(name).cloned())
        && entries(&desired.annotations, &|name| {
            annotation(found, name).map(str::to_owned)
        })
}

fn find_claim<'a>(observed: &Observed<'a>, claim: &str) -> Option<&'a ObservedClaim> {
    let mut claims = observed.claims.iter();
    claims.find(|found| name(&found.metadata) == claim).copied()
}
