//! Disks: created once, expanded on request, never shrunk, deleted only if the policy says so and
//! nothing uses them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use api::{
    DeletionPolicy, Machine, ObjectMeta,
    cdi::{DataVolume, DataVolumeSpec, ObservedDataVolume},
    core::{
        ClaimPhase, ObservedClaim, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass,
        StorageRequest, VolumeResources,
    },
    labels,
};

use super::{
    data_loss::{Loss, is_recorded},
    delete::{in_use, observe_references},
    ownership::{
        annotation, data_volume, is_foreign, is_of_predecessor, is_own_disk, is_own_vm,
        is_terminating, name, remove_owner, uid,
    },
    tampering,
    vm::ExistingVm,
};
use crate::{
    Event, Quantity, conditions,
    machine::{
        Action, Age, ErrorType, Kind, Known, LiveReferences, Lookup, MetadataChange, Object,
        Observed, Obstacle, Part, ResolvedDisk, ResolvedMachine, Step, VolumeObject,
        switches::is_switched_on,
    },
    managed, naming,
    sizes::printed,
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
        let claim_name = naming::claim(name(&observed.machine.metadata), &disk.name);
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
            // Somebody removed the record, but our VirtualMachine uses the disk.
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

    /// Expands a claim that CDI created: we own nothing but its size.
    fn grow(&mut self, observed: &Observed<'_>, disk: &ResolvedDisk, claim: &ObservedClaim) {
        if is_terminating(&claim.metadata) {
            return;
        }
        let Some(size) = self.growth(observed, disk, claim) else {
            return;
        };
        let metadata = ObjectMeta {
            name: claim.metadata.name.clone(),
            namespace: claim.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let spec = PersistentVolumeClaimSpec {
            resources: VolumeResources {
                requests: StorageRequest {
                    storage: size.to_string(),
                },
            },
            ..PersistentVolumeClaimSpec::default()
        };
        self.steps.push(Step {
            action: Action::Apply {
                object: Object::Claim(PersistentVolumeClaim::new(metadata, spec)),
                uid: uid(&claim.metadata),
                created_at: None,
            },
            reason: format!("disk {} grows to {size}", disk.name),
            event: Some(grown(disk, claim, size)),
        });
    }

    /// The size to expand to, if the claim requests less and its StorageClass allows it.
    fn growth(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        claim: &ObservedClaim,
    ) -> Option<Quantity> {
        let requested: Quantity = claim.spec.resources.requests.storage.parse().ok()?;
        if disk.size <= requested {
            return None;
        }
        if let Some(not_expandable) =
            NotExpandable::of(claim, &observed.surroundings.storage_classes)
        {
            self.obstacles.push(Obstacle::error(
                Part::Storage,
                ErrorType::InvalidSpec,
                format!(
                    "disk {:?} cannot grow from {requested} to {}: {not_expandable}, or ask for {requested}",
                    disk.name, disk.size
                ),
            ));
            return None;
        }
        if claim.status.phase != ClaimPhase::Bound {
            self.obstacles.push(Obstacle::waiting(
                Part::Storage,
                format!("disk {:?} grows once its claim is bound", disk.name),
            ));
            return None;
        }
        Some(disk.size)
    }
}

/// Ownership of a claim or DataVolume with the name of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It belongs to the Machine, or the Machine may adopt it.
    Usable,
    Terminating,
    Foreign,
    /// An earlier Machine of the same name left it behind.
    LeftBehind,
}

impl Standing {
    pub(crate) fn of(metadata: &ObjectMeta, machine: &Machine) -> Self {
        if is_terminating(metadata) {
            Self::Terminating
        } else if is_own_disk(metadata, machine) {
            Self::Usable
        } else if is_foreign(metadata, machine) {
            Self::Foreign
        } else if is_switched_on(&machine.metadata, labels::ADOPT_DISKS) {
            Self::Usable
        } else {
            Self::LeftBehind
        }
    }
}

/// Why a claim cannot be expanded. The message includes the remedy.
pub(crate) enum NotExpandable<'a> {
    Forbidden(&'a str),
    ClassMissing(&'a str),
    /// It has no class: its volume was provisioned by hand.
    WithoutClass,
}

impl<'a> NotExpandable<'a> {
    /// The reason for which the API server would refuse to expand a claim.
    pub(crate) fn of(claim: &'a ObservedClaim, classes: &Known<StorageClass>) -> Option<Self> {
        let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
        if class.is_empty() {
            return Some(Self::WithoutClass);
        }
        match classes.get(class) {
            Lookup::Found(found) if found.allow_volume_expansion == Some(true) => None,
            Lookup::Found(_) => Some(Self::Forbidden(class)),
            Lookup::Missing => Some(Self::ClassMissing(class)),
            Lookup::Unknown => None,
        }
    }
}

impl fmt::Display for NotExpandable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(class) => write!(
                f,
                "StorageClass {class:?} does not allow it; set allowVolumeExpansion in it"
            ),
            Self::ClassMissing(class) => write!(
                f,
                "StorageClass {class:?} does not exist; create it with allowVolumeExpansion"
            ),
            Self::WithoutClass => f.write_str("its claim has no StorageClass; add another disk"),
        }
    }
}

fn is_in_own_vm(observed: &Observed<'_>, claim: &str) -> bool {
    let vm = observed.virtual_machine;
    let vm = vm.filter(|vm| is_own_vm(&vm.metadata, observed.machine));
    vm.is_some_and(|vm| ExistingVm::of(vm).refers_to(claim))
}

/// The Event for changes that somebody else made to a disk. A disk that is being adopted was not ours.
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

fn grown(disk: &ResolvedDisk, claim: &ObservedClaim, size: Quantity) -> Event {
    let from = &claim.spec.resources.requests.storage;
    let from = from.parse().map_or_else(|_| from.clone(), printed);
    let message = format!(
        "Growing disk {} from {from} to {}",
        disk.name,
        printed(size)
    );
    Event::normal("DiskResized", message)
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

/// Removes the owner references that earlier versions set on disks.
pub(super) fn remove_owner_references(observed: &Observed<'_>) -> Vec<Step> {
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

/// Labels disks of this Machine as retained, including claims of CDI.
pub(super) fn retain(observed: &Observed<'_>, concerns: &dyn Fn(&ObjectMeta) -> bool) -> Vec<Step> {
    let machine = observed.machine;
    objects(observed)
        .filter(|(_, disk)| {
            is_own_disk(disk, machine) && !is_terminating(disk) && !is_retained(disk)
        })
        .filter(|(_, disk)| concerns(disk))
        .map(|(kind, disk)| {
            change_metadata(kind, disk, retained(true), "the disk outlives the Machine")
        })
        .collect()
}

fn retained(is_retained: bool) -> MetadataChange {
    let value = is_retained.then(|| "true".to_owned());
    MetadataChange {
        labels: [(labels::RETAINED.to_owned(), value)].into(),
        ..MetadataChange::default()
    }
}

fn to_be_deleted() -> MetadataChange {
    let value = Some("true".to_owned());
    MetadataChange {
        annotations: [(labels::DELETE_WHEN_DETACHED.to_owned(), value)].into(),
        ..MetadataChange::default()
    }
}

fn change_metadata(kind: Kind, disk: &ObjectMeta, change: MetadataChange, reason: &str) -> Step {
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

/// Whether a disk was removed under `deletionPolicy: Delete`.
pub(super) fn is_to_be_deleted(disk: &ObjectMeta) -> bool {
    is_switched_on(disk, labels::DELETE_WHEN_DETACHED) && !is_retained(disk)
}

/// What happens to a disk that was removed from `spec.disks`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disposition {
    /// Delete it once nobody uses it.
    Delete,
    Retain,
    /// Retain it, because the policy at the time of the removal is not known.
    RetainUnknownPolicy,
}

impl Disposition {
    /// The policy at the time of the removal decides. It is known only if the spec that was last acted
    /// on, which still had the disk, is the previous generation.
    fn of(observed: &Observed<'_>, disk: &ObjectMeta) -> Self {
        let Machine {
            metadata,
            spec,
            status,
        } = observed.machine;
        let is_listed = is_switched_on(disk, labels::LISTED_DISK);
        if spec.deletion_policy != Some(DeletionPolicy::Delete) || !is_listed {
            return Self::Retain;
        }
        let status = status.as_ref();
        let acted_on = status.and_then(|status| status.observed_generation);
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let was_valid = conditions::find(conditions, "SpecValid")
            .is_some_and(|condition| condition.status == "True");
        let is_next = acted_on
            .zip(metadata.generation)
            .is_some_and(|(acted_on, now)| now.checked_sub(acted_on) == Some(1));
        if is_next && was_valid {
            Self::Delete
        } else {
            Self::RetainUnknownPolicy
        }
    }
}

/// Records once, on disks that were removed from the Machine, what happens to them, and clears the record
/// of those that are listed again.
pub(super) fn record_removed(observed: &Observed<'_>, machine: &ResolvedMachine) -> Vec<Step> {
    let prefix = naming::claim(name(&observed.machine.metadata), "");
    let reported: Vec<&str> = own_disks(observed).map(|(_, disk)| name(disk)).collect();
    let mut steps = Vec::new();
    for (kind, object) in objects(observed) {
        let Some(disk) = name(object).strip_prefix(&prefix) else {
            continue;
        };
        if !is_own_disk(object, observed.machine) || is_terminating(object) {
            continue;
        }
        let desired = machine.disks.iter().find(|desired| desired.name == disk);
        if let Some(desired) = desired {
            steps.extend(clear_removal_records(kind, object, desired));
            continue;
        }
        let is_recorded_for_deletion = is_switched_on(object, labels::DELETE_WHEN_DETACHED);
        if is_retained(object) || is_recorded_for_deletion {
            continue;
        }
        let disposition = Disposition::of(observed, object);
        let change = match disposition {
            Disposition::Delete => to_be_deleted(),
            Disposition::Retain | Disposition::RetainUnknownPolicy => retained(true),
        };
        let has_volume = observed
            .data_volumes
            .iter()
            .any(|volume| volume.metadata.name == object.name);
        let is_first = kind == Kind::DataVolume || !has_volume;
        let event =
            (disposition != Disposition::Delete && is_first && reported.contains(&name(object)))
                .then(|| released(observed, kind, disk, name(object), disposition));
        steps.push(Step {
            event,
            ..change_metadata(
                kind,
                object,
                change,
                "the disk was removed from the Machine",
            )
        });
    }
    steps
}

/// Clears the records of an earlier removal. Not by an apply: CDI copies annotations to its claims.
fn clear_removal_records(kind: Kind, object: &ObjectMeta, desired: &ResolvedDisk) -> Option<Step> {
    let mut change = MetadataChange::default();
    if is_retained(object) {
        change = retained(false);
    }
    let outdated = [
        (labels::DELETE_WHEN_DETACHED, true),
        (labels::LISTED_DISK, !desired.is_listed),
    ];
    for (name, is_outdated) in outdated {
        if is_outdated && annotation(object, name).is_some() {
            change.annotations.insert(name.to_owned(), None);
        }
    }
    (change != MetadataChange::default()).then(|| {
        let labels = change.labels.keys();
        let labels = labels.map(|name| tampering::field("labels", name));
        let annotations = change.annotations.keys();
        let annotations = annotations.map(|name| tampering::field("annotations", name));
        let why = ", since the disk is among the Machine's; to keep it when the Machine is deleted, set \
                   spec.deletionPolicy to Retain";
        // CDI copies labels and annotations of a DataVolume to its claim.
        let event = match data_volume(object) {
            Some(_) => None,
            None => tampering::removed(kind, object, labels.chain(annotations), why),
        };
        let reason = "the disk is among the Machine's again";
        Step {
            event,
            ..change_metadata(kind, object, change, reason)
        }
    })
}

/// The Event for a detached disk, with how to attach or delete it.
fn released(
    observed: &Observed<'_>,
    kind: Kind,
    disk: &str,
    object: &str,
    disposition: Disposition,
) -> Event {
    let namespace = observed.machine.metadata.namespace.as_deref();
    let namespace = namespace.unwrap_or_default();
    let why = match disposition {
        Disposition::RetainUnknownPolicy => {
            ", since it is not known which deletionPolicy was in force when it was removed"
        }
        Disposition::Retain | Disposition::Delete => "",
    };
    let message = format!(
        "Disk {disk} was removed: {} {object} is kept{why}, also when the Machine is deleted. To attach it again, list disk {disk} in spec.disks; to delete it: kubectl -n {namespace} delete {} {object}",
        kind.as_str(),
        kind.as_str().to_ascii_lowercase(),
    );
    Event::normal("DiskReleased", message)
}

/// Whether a disk is labelled to outlive its Machine.
pub(in crate::machine) fn is_retained(disk: &ObjectMeta) -> bool {
    let label = disk
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::RETAINED));
    label.is_some_and(|value| value == "true")
}

#[derive(Default)]
pub(super) struct Removed {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) retry_after: Option<Duration>,
}

/// Deletes the disks that were removed under `deletionPolicy: Delete`, once nothing uses them.
pub(super) fn delete_removed_disks(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    existing: Option<&ExistingVm<'_>>,
) -> Removed {
    let mut removed = Removed::default();
    let prefix = naming::claim(name(&observed.machine.metadata), "");
    let volumes = observed.instance.map(|i| i.status.volume_status.as_slice());
    let plugged = volumes.unwrap_or_default().iter();
    let mut attached: BTreeSet<&str> = plugged.map(|volume| volume.name.as_str()).collect();
    attached.extend(machine.disks.iter().map(|desired| desired.name.as_str()));
    attached.extend(existing.into_iter().flat_map(ExistingVm::volume_names));
    let disks: Vec<_> = own_disks(observed)
        .filter(|(_, metadata)| {
            let disk = name(metadata).strip_prefix(&prefix);
            // The status must drop the disk first. Otherwise it would be reported as lost if it is
            // listed again.
            disk.is_some_and(|disk| {
                is_to_be_deleted(metadata)
                    && !attached.contains(disk)
                    && !is_recorded(observed.machine, disk)
            })
        })
        .collect();
    if disks.is_empty() {
        return removed;
    }
    let Some(LiveReferences { found, age }) = observed.references else {
        removed.steps.push(observe_references());
        return removed;
    };
    let is_fresh = age == Age::Fresh;
    for (kind, metadata) in disks {
        match in_use(observed, metadata, found) {
            Some(user) => removed.obstacles.push(user),
            None if is_fresh => removed.steps.push(delete_removed(kind, metadata)),
            None => {}
        }
    }
    if let Age::Stale { retry_after } = age {
        if removed.obstacles.is_empty() || retry_after.is_zero() {
            removed.steps.push(observe_references());
        } else {
            removed.retry_after = Some(retry_after);
        }
    }
    removed
}

fn delete_removed(kind: Kind, metadata: &ObjectMeta) -> Step {
    let message = format!(
        "Deleting {} {}: the disk was removed from the Machine while its deletionPolicy was Delete",
        kind.as_str(),
        name(metadata)
    );
    Step {
        event: Some(Event::normal("DiskDeleted", message)),
        ..delete(
            kind,
            metadata,
            "the disk was removed while the policy was Delete",
        )
    }
}

/// Claims and DataVolumes with this Machine's label, DataVolumes first.
fn objects<'a>(observed: &Observed<'a>) -> impl Iterator<Item = (Kind, &'a ObjectMeta)> {
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
pub(super) fn is_cached(observed: &Observed<'_>, kind: Kind, desired: &str) -> bool {
    objects(observed).any(|(found, disk)| found == kind && name(disk) == desired)
}

/// Disks that belong to this Machine and are not terminating, DataVolumes first. Claims that are deleted
/// with their DataVolume are left out.
pub(super) fn own_disks<'a>(
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

/// Deletes a disk, unless it has changed since it was observed.
pub(super) fn delete(kind: Kind, metadata: &ObjectMeta, reason: &str) -> Step {
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
