//! Disks that were removed from `spec.disks`: the deletionPolicy at that moment decides whether they are
//! retained, or deleted once nothing uses them.

use std::{collections::BTreeSet, time::Duration};

use api::{DeletionPolicy, Machine, ObjectMeta, labels};

use super::{
    objects::{change_metadata, delete, objects, own_disks},
    retain::{is_retained, retained},
};
use crate::{
    Event, conditions,
    machine::{
        Age, DiskOrigin, Kind, LiveReferences, MetadataChange, Observed, Obstacle, ResolvedDisk,
        ResolvedMachine, Step,
        disk_name::disk_name,
        plan::{
            data_loss::is_recorded,
            delete::{in_use, observe_references},
            ownership::{annotation, data_volume, is_own_disk, is_terminating, name},
            tampering,
            vm::ExistingVm,
        },
        switches::is_switched_on,
    },
    naming,
};

/// Whether a disk was removed under `deletionPolicy: Delete`.
pub(in crate::machine::plan) fn is_to_be_deleted(disk: &ObjectMeta) -> bool {
    is_switched_on(disk, labels::DELETE_WHEN_DETACHED) && !is_retained(disk)
}

fn to_be_deleted() -> MetadataChange {
    let value = Some("true".to_owned());
    MetadataChange {
        annotations: [(labels::DELETE_WHEN_DETACHED.to_owned(), value)].into(),
        ..MetadataChange::default()
    }
}

/// Whether a volume is that of the Machine's installer image, which contains no user's data.
pub(in crate::machine::plan) fn is_installer(machine: &Machine, disk: &ObjectMeta) -> bool {
    name(disk) == naming::claim(name(&machine.metadata), naming::INSTALLER_DISK)
        && is_switched_on(disk, labels::INSTALLER)
}

/// What happens to a disk that was removed from `spec.disks`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disposition {
    /// Delete it once no one uses it.
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
        if is_installer(observed.machine, disk) {
            return Self::Delete;
        }
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
pub(in crate::machine::plan) fn record_removed(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
) -> Vec<Step> {
    let of = name(&observed.machine.metadata);
    let reported: Vec<&str> = own_disks(observed).map(|(_, disk)| name(disk)).collect();
    let mut steps = Vec::new();
    for (kind, object) in objects(observed) {
        let Some(disk) = disk_name(of, object) else {
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
        (labels::LISTED_DISK, desired.origin != DiskOrigin::Listed),
        (labels::INSTALLER, desired.origin != DiskOrigin::Installer),
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

#[derive(Default)]
pub(in crate::machine::plan) struct Removed {
    pub(in crate::machine::plan) steps: Vec<Step>,
    pub(in crate::machine::plan) obstacles: Vec<Obstacle>,
    pub(in crate::machine::plan) retry_after: Option<Duration>,
}

/// Deletes the disks that were removed under `deletionPolicy: Delete`, once nothing uses them.
pub(in crate::machine::plan) fn delete_removed_disks(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    existing: Option<&ExistingVm<'_>>,
) -> Removed {
    let mut removed = Removed::default();
    let of = name(&observed.machine.metadata);
    let volumes = observed.instance.map(|i| i.status.volume_status.as_slice());
    let plugged = volumes.unwrap_or_default().iter();
    let mut attached: BTreeSet<&str> = plugged.map(|volume| volume.name.as_str()).collect();
    attached.extend(machine.disks.iter().map(|desired| desired.name.as_str()));
    attached.extend(existing.into_iter().flat_map(ExistingVm::volume_names));
    let disks: Vec<_> = own_disks(observed)
        .filter(|(_, metadata)| {
            let disk = disk_name(of, metadata);
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
            None if is_fresh => {
                let is_installer = is_installer(observed.machine, metadata);
                removed
                    .steps
                    .push(delete_removed(kind, metadata, is_installer));
            }
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

fn delete_removed(kind: Kind, metadata: &ObjectMeta, is_installer: bool) -> Step {
    let (why, reason) = if is_installer {
        ("the installer image was ejected", "the image was ejected")
    } else {
        (
            "the disk was removed from the Machine while its deletionPolicy was Delete",
            "the disk was removed while the policy was Delete",
        )
    };
    let message = format!("Deleting {} {}: {why}", kind.as_str(), name(metadata));
    Step {
        event: Some(Event::normal("DiskDeleted", message)),
        ..delete(kind, metadata, reason)
    }
}
