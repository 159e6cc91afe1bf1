//! The disks: made once, grown when more is asked for, never shrunk, deleted only when the policy
//! says so and nothing uses them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use api::{
    DeletionPolicy, Machine, ObjectMeta,
    cdi::{DataVolume, DataVolumeSpec, ObservedDataVolume},
    core::{
        ObservedClaim, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass,
        StorageRequest, VolumeResources,
    },
    labels,
};

use super::{
    delete::{in_use, observe_references},
    loss::{Loss, is_recorded},
    ownership::{
        annotation, data_volume, is_deleted, is_of_predecessor, is_others, is_own_disk, is_own_vm,
        name, uid, without_owner,
    },
    tampering,
    vm::Present,
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

/// What is to be done about disks.
#[derive(Default)]
pub(super) struct Disks {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
}

/// Makes the disks that are missing, and changes those that are not as they should be.
pub(super) fn keep(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    volumes: Vec<VolumeObject>,
) -> Disks {
    let mut disks = Disks::default();
    for (disk, volume) in machine.disks.iter().zip(volumes) {
        disks.keep_one(observed, disk, volume);
    }
    disks
}

impl Disks {
    fn keep_one(&mut self, observed: &Observed<'_>, disk: &ResolvedDisk, volume: VolumeObject) {
        let claim_name = naming::claim(name(&observed.machine.metadata), &disk.name);
        let claim = find_claim(observed, &claim_name);
        let labels = match &volume {
            VolumeObject::Claim(wanted) => &wanted.metadata.labels,
            VolumeObject::DataVolume(wanted) => &wanted.metadata.labels,
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
            VolumeObject::Claim(wanted) => match claim {
                None => self.create(observed, Object::Claim(wanted), &disk.name),
                Some(claim) => {
                    if self.is_usable(observed, "PersistentVolumeClaim", &claim.metadata) {
                        self.keep_claim(observed, disk, wanted, claim);
                    }
                }
            },
            VolumeObject::DataVolume(wanted) => {
                let found = observed
                    .data_volumes
                    .iter()
                    .find(|volume| name(&volume.metadata) == claim_name);
                match (found, claim) {
                    // CDI can be set to clean up after itself: the claim is what matters.
                    (None, Some(claim)) => {
                        if self.is_usable(observed, "PersistentVolumeClaim", &claim.metadata) {
                            self.record(observed, &wanted.metadata, claim);
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
                    (None, None) => self.create(observed, Object::DataVolume(wanted), &disk.name),
                    (Some(found), claim) => {
                        if self.is_usable(observed, "DataVolume", &found.metadata) {
                            self.keep_data_volume(observed, wanted, found);
                            if let Some(claim) = claim {
                                self.grow(observed, disk, claim);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Records whose a claim of CDI is that lost its DataVolume. The rest of it is not ours to apply.
    fn record(&mut self, observed: &Observed<'_>, wanted: &ObjectMeta, claim: &ObservedClaim) {
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
            annotations: all(&wanted.annotations),
            ..MetadataChange::default()
        };
        let kind = Kind::PersistentVolumeClaim;
        self.steps.push(mark(
            kind,
            &claim.metadata,
            change,
            "it is this Machine's disk",
        ));
    }

    fn create(&mut self, observed: &Observed<'_>, object: Object, disk: &str) {
        let event = is_recorded(observed.machine, disk).then(|| {
            let message = format!(
                "Creating disk {disk} anew, as the annotation {} asks: what it held is lost",
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
            // Whose it is was erased, but our VirtualMachine has it.
            Standing::LeftBehind
                if annotation(metadata, labels::MACHINE_UID).is_none()
                    && is_in_own_vm(observed, name) =>
            {
                return true;
            }
            Standing::Going => Obstacle::waiting(
                Part::Storage,
                format!("{kind} {name:?} is being deleted: the disk is made anew once it is gone"),
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

    fn keep_claim(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        mut wanted: PersistentVolumeClaim,
        claim: &ObservedClaim,
    ) {
        let grows = self.growth(observed, disk, claim);
        if grows.is_none() && is_as_wanted(&wanted.metadata, &claim.metadata) {
            return;
        }
        let put_back = put_back(
            observed,
            Kind::PersistentVolumeClaim,
            &wanted.metadata,
            &claim.metadata,
        );
        // What cannot be changed stays as it is, and nothing shrinks.
        wanted.spec = claim.spec.clone();
        if let Some(size) = grows {
            wanted.spec.resources.requests.storage = size.to_string();
        }
        let event = put_back.or_else(|| grows.map(|size| grown(disk, claim, size)));
        self.steps.push(Step {
            reason: match grows {
                Some(size) => format!("disk {} is to grow to {size}", disk.name),
                None => "its labels or annotations are to change".to_owned(),
            },
            action: Action::Apply {
                object: Object::Claim(wanted),
                uid: uid(&claim.metadata),
                created_at: managed::created_at(&claim.metadata),
            },
            event,
        });
    }

    fn keep_data_volume(
        &mut self,
        observed: &Observed<'_>,
        mut wanted: DataVolume,
        found: &ObservedDataVolume,
    ) {
        if is_as_wanted(&wanted.metadata, &found.metadata) {
            return;
        }
        let event = put_back(
            observed,
            Kind::DataVolume,
            &wanted.metadata,
            &found.metadata,
        );
        // Its spec cannot be changed, and must be given whole to be kept.
        if let Ok(spec) = serde_json::from_value::<DataVolumeSpec>(found.spec.value()) {
            wanted.spec = spec;
        }
        self.steps.push(Step {
            action: Action::Apply {
                object: Object::DataVolume(wanted),
                uid: uid(&found.metadata),
                created_at: managed::created_at(&found.metadata),
            },
            reason: "its labels or annotations are to change".to_owned(),
            event,
        });
    }

    /// Grows a claim that CDI made: only its size is ours.
    fn grow(&mut self, observed: &Observed<'_>, disk: &ResolvedDisk, claim: &ObservedClaim) {
        if is_deleted(&claim.metadata) {
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
            reason: format!("disk {} is to grow to {size}", disk.name),
            event: Some(grown(disk, claim, size)),
        });
    }

    /// The size to grow to, if the claim asks for less and its class lets it grow.
    fn growth(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        claim: &ObservedClaim,
    ) -> Option<Quantity> {
        let asked: Quantity = claim.spec.resources.requests.storage.parse().ok()?;
        if disk.size <= asked {
            return None;
        }
        if let Some(fixed) = Fixed::of(claim, &observed.surroundings.storage_classes) {
            self.obstacles.push(Obstacle::error(
                Part::Storage,
                ErrorType::InvalidSpec,
                format!(
                    "disk {:?} cannot grow from {asked} to {}: {fixed}, or ask for {asked}",
                    disk.name, disk.size
                ),
            ));
            return None;
        }
        if claim.status.phase != "Bound" {
            self.obstacles.push(Obstacle::waiting(
                Part::Storage,
                format!("disk {:?} grows once its claim is bound", disk.name),
            ));
            return None;
        }
        Some(disk.size)
    }
}

/// What a claim or DataVolume with the name of a disk is to a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its own, or its own to take.
    Usable,
    /// On its way out.
    Going,
    /// Somebody else's.
    Foreign,
    /// Nobody's any more: an earlier Machine of the name has left it.
    LeftBehind,
}

impl Standing {
    /// The standing of an object with this metadata.
    pub(crate) fn of(metadata: &ObjectMeta, machine: &Machine) -> Self {
        if is_deleted(metadata) {
            Self::Going
        } else if is_own_disk(metadata, machine) {
            Self::Usable
        } else if is_others(metadata, machine) {
            Self::Foreign
        } else if is_switched_on(&machine.metadata, labels::ADOPT_DISKS) {
            Self::Usable
        } else {
            Self::LeftBehind
        }
    }
}

/// Why a claim cannot grow; said with what helps.
pub(crate) enum Fixed<'a> {
    /// Its class does not allow it.
    Forbidden(&'a str),
    /// Its class is no more.
    ClassGone(&'a str),
    /// It has no class: its volume was not made for it.
    WithoutClass,
}

impl<'a> Fixed<'a> {
    /// Whether the API server would refuse that a claim grows.
    pub(crate) fn of(claim: &'a ObservedClaim, classes: &Known<StorageClass>) -> Option<Self> {
        let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
        if class.is_empty() {
            return Some(Self::WithoutClass);
        }
        match classes.get(class) {
            Lookup::Found(found) if found.allow_volume_expansion == Some(true) => None,
            Lookup::Found(_) => Some(Self::Forbidden(class)),
            Lookup::Missing => Some(Self::ClassGone(class)),
            Lookup::Unknown => None,
        }
    }
}

impl fmt::Display for Fixed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(class) => write!(
                f,
                "StorageClass {class:?} does not allow it; set allowVolumeExpansion in it"
            ),
            Self::ClassGone(class) => write!(
                f,
                "StorageClass {class:?} is gone; create it again with allowVolumeExpansion"
            ),
            Self::WithoutClass => f.write_str("its claim has no StorageClass; add another disk"),
        }
    }
}

/// Whether the VirtualMachine of this Machine refers to a claim.
fn is_in_own_vm(observed: &Observed<'_>, claim: &str) -> bool {
    let vm = observed.virtual_machine;
    let vm = vm.filter(|vm| is_own_vm(&vm.metadata, observed.machine));
    vm.is_some_and(|vm| Present::of(vm).refers_to(claim))
}

/// What somebody else changed of a disk. One that is being adopted was not the Machine's.
fn put_back(
    observed: &Observed<'_>,
    kind: Kind,
    wanted: &ObjectMeta,
    found: &ObjectMeta,
) -> Option<Event> {
    let machine = observed.machine;
    if !is_own_disk(found, machine) && !is_in_own_vm(observed, name(found)) {
        return None;
    }
    tampering::put_back(kind, wanted, found, machine)
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

/// Whether labels and annotations are as we want them.
fn is_as_wanted(wanted: &ObjectMeta, found: &ObjectMeta) -> bool {
    let entries = |entries: &Option<BTreeMap<String, String>>,
                   has: &dyn Fn(&str) -> Option<String>| {
        let mut wanted = entries.iter().flatten();
        wanted.all(|(name, value)| has(name).as_ref() == Some(value))
    };
    let labels = found.labels.as_ref();
    entries(&wanted.labels, &|name| labels?.get(name).cloned())
        && entries(&wanted.annotations, &|name| {
            annotation(found, name).map(str::to_owned)
        })
}

fn find_claim<'a>(observed: &Observed<'a>, claim: &str) -> Option<&'a ObservedClaim> {
    let mut claims = observed.claims.iter();
    claims.find(|found| name(&found.metadata) == claim).copied()
}

/// Removes the owner references that earlier versions gave to disks.
pub(super) fn disown(observed: &Observed<'_>) -> Vec<Step> {
    let machine = observed.machine.metadata.uid.as_deref();
    objects(observed)
        .filter(|(_, disk)| managed::is_owned_by(disk, machine) && !is_deleted(disk))
        .map(|(kind, disk)| {
            let field = ["metadata.ownerReferences".to_owned()];
            let why = ", since the garbage collector must not delete disks";
            Step {
                event: tampering::removed(kind, disk, field, why),
                ..without_owner(
                    kind,
                    disk,
                    machine,
                    "disks are not for the garbage collector",
                )
            }
        })
        .collect()
}

/// Marks disks of this Machine as kept on purpose, claims of CDI included.
pub(super) fn retain(observed: &Observed<'_>, concerns: &dyn Fn(&ObjectMeta) -> bool) -> Vec<Step> {
    let machine = observed.machine;
    objects(observed)
        .filter(|(_, disk)| is_own_disk(disk, machine) && !is_deleted(disk) && !is_retained(disk))
        .filter(|(_, disk)| concerns(disk))
        .map(|(kind, disk)| mark(kind, disk, retained(true), "the disk outlives the Machine"))
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

fn mark(kind: Kind, disk: &ObjectMeta, change: MetadataChange, reason: &str) -> Step {
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

/// Whether a disk was removed while the policy was to delete it.
pub(super) fn is_to_be_deleted(disk: &ObjectMeta) -> bool {
    is_switched_on(disk, labels::DELETE_WHEN_DETACHED) && !is_retained(disk)
}

/// What becomes of a disk that was removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is deleted, once nobody uses it.
    Delete,
    /// It is kept.
    Keep,
    /// It is kept, since it is not known what the policy was.
    KeepInDoubt,
}

impl Fate {
    /// The policy at the moment of removal decides. That moment is known only if the last spec that was
    /// acted on, which still had the disk, is the one before this.
    fn of(observed: &Observed<'_>, disk: &ObjectMeta) -> Self {
        let Machine {
            metadata,
            spec,
            status,
        } = observed.machine;
        let is_listed = is_switched_on(disk, labels::LISTED_DISK);
        if spec.deletion_policy != Some(DeletionPolicy::Delete) || !is_listed {
            return Self::Keep;
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
            Self::KeepInDoubt
        }
    }
}

/// Records on disks that are no longer among the Machine's what becomes of them, once; and forgets it of
/// those that are listed again.
pub(super) fn mark_removed(observed: &Observed<'_>, machine: &ResolvedMachine) -> Vec<Step> {
    let prefix = naming::claim(name(&observed.machine.metadata), "");
    let told: Vec<&str> = own_disks(observed).map(|(_, disk)| name(disk)).collect();
    let mut steps = Vec::new();
    for (kind, object) in objects(observed) {
        let Some(disk) = name(object).strip_prefix(&prefix) else {
            continue;
        };
        if !is_own_disk(object, observed.machine) || is_deleted(object) {
            continue;
        }
        let wanted = machine.disks.iter().find(|wanted| wanted.name == disk);
        if let Some(wanted) = wanted {
            steps.extend(unmark(kind, object, wanted));
            continue;
        }
        let is_marked = is_switched_on(object, labels::DELETE_WHEN_DETACHED);
        if is_retained(object) || is_marked {
            continue;
        }
        let fate = Fate::of(observed, object);
        let change = match fate {
            Fate::Delete => to_be_deleted(),
            Fate::Keep | Fate::KeepInDoubt => retained(true),
        };
        let has_volume = observed
            .data_volumes
            .iter()
            .any(|volume| volume.metadata.name == object.name);
        let is_first = kind == Kind::DataVolume || !has_volume;
        let event = (fate != Fate::Delete && is_first && told.contains(&name(object)))
            .then(|| released(observed, kind, disk, name(object), fate));
        steps.push(Step {
            event,
            ..mark(
                kind,
                object,
                change,
                "the disk was removed from the Machine",
            )
        });
    }
    steps
}

/// Removes from a disk of the Machine what is not so any more. Not by an apply: CDI has its own copies of
/// annotations on its claims.
fn unmark(kind: Kind, object: &ObjectMeta, wanted: &ResolvedDisk) -> Option<Step> {
    let mut change = MetadataChange::default();
    if is_retained(object) {
        change = retained(false);
    }
    let outdated = [
        (labels::DELETE_WHEN_DETACHED, true),
        (labels::LISTED_DISK, !wanted.is_listed),
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
            ..mark(kind, object, change, reason)
        }
    })
}

/// Says of a disk that is no longer a Machine's how to have it again, and how to delete it.
fn released(observed: &Observed<'_>, kind: Kind, disk: &str, object: &str, fate: Fate) -> Event {
    let namespace = observed.machine.metadata.namespace.as_deref();
    let namespace = namespace.unwrap_or_default();
    let why = match fate {
        Fate::KeepInDoubt => {
            ", since it is not known which deletionPolicy was in force when it was removed"
        }
        Fate::Keep | Fate::Delete => "",
    };
    let message = format!(
        "Disk {disk} was removed: {} {object} is kept{why}, also when the Machine is deleted. To attach it again, list disk {disk} in spec.disks; to delete it: kubectl -n {namespace} delete {} {object}",
        kind.as_str(),
        kind.as_str().to_ascii_lowercase(),
    );
    Event::normal("DiskReleased", message)
}

/// Whether a disk is kept on purpose, whatever becomes of its Machine.
pub(in crate::machine) fn is_retained(disk: &ObjectMeta) -> bool {
    let label = disk
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::RETAINED));
    label.is_some_and(|value| value == "true")
}

/// What is to be done about disks that were removed.
#[derive(Default)]
pub(super) struct Removed {
    pub(super) steps: Vec<Step>,
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) retry_in: Option<Duration>,
}

/// Deletes the disks that were removed while the policy said so, once nothing uses them.
pub(super) fn drop_removed(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    present: Option<&Present<'_>>,
) -> Removed {
    let mut removed = Removed::default();
    let prefix = naming::claim(name(&observed.machine.metadata), "");
    let volumes = observed.instance.map(|i| i.status.volume_status.as_slice());
    let plugged = volumes.unwrap_or_default().iter();
    let mut attached: BTreeSet<&str> = plugged.map(|volume| volume.name.as_str()).collect();
    attached.extend(machine.disks.iter().map(|wanted| wanted.name.as_str()));
    attached.extend(present.into_iter().flat_map(Present::volume_names));
    let disks: Vec<_> = own_disks(observed)
        .filter(|(_, metadata)| {
            let disk = name(metadata).strip_prefix(&prefix);
            // The status has to say first that the disk is no longer the Machine's: one that is listed
            // again would else be reported as lost.
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
    if let Age::Stale { retry_in } = age {
        if removed.obstacles.is_empty() || retry_in.is_zero() {
            removed.steps.push(observe_references());
        } else {
            removed.retry_in = Some(retry_in);
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

/// The claims and DataVolumes that carry this Machine's label, DataVolumes first.
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

/// Whether a cache holds a claim or DataVolume of this Machine's label.
pub(super) fn is_cached(observed: &Observed<'_>, kind: Kind, wanted: &str) -> bool {
    objects(observed).any(|(found, disk)| found == kind && name(disk) == wanted)
}

/// The disks of this very Machine that are not on their way out, DataVolumes first: their claims go
/// with them.
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
        is_own_disk(metadata, machine) && !is_deleted(metadata) && !follows
    })
}

/// Deletes a disk as it was seen.
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
