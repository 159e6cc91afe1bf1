//! The end of a Machine: stop the VirtualMachine, wait until it is gone, then disks, then the
//! finalizer. Networks let go of it by themselves, once it is gone.
//!
//! Nothing here depends on whether the Machine resolves: a Machine can always be deleted.

use api::{
    DeletionPolicy, ObjectMeta,
    cdi::{DataVolume, DataVolumeSpec},
    core::PersistentVolumeClaim,
    labels,
};

use super::{
    disks::{self, Disks},
    ours::{controller, is_deleted, is_owned, name, uid},
};
use crate::{
    Event,
    machine::{Action, Kind, Object, Observed, Obstacle, Part, Step},
    managed, naming,
};

/// What is left to do until a Machine may go.
pub(super) struct Removal {
    pub(super) steps: Vec<Step>,
    pub(super) waits_for: Vec<Obstacle>,
}

pub(super) fn plan(observed: &Observed<'_>) -> Removal {
    let mut removal = Removal {
        steps: Vec::new(),
        waits_for: Vec::new(),
    };
    let finalizers = observed.machine.metadata.finalizers.as_deref();
    let is_held = finalizers
        .unwrap_or_default()
        .iter()
        .any(|finalizer| finalizer == labels::FINALIZER);
    if !is_held {
        return removal;
    }
    removal.stop(observed);
    if removal.steps.is_empty() && removal.waits_for.is_empty() {
        removal.clean_up(observed);
    }
    removal
}

impl Removal {
    fn stop(&mut self, observed: &Observed<'_>) {
        let vm = observed
            .virtual_machine
            .filter(|vm| is_owned(&vm.metadata, observed.machine));
        if let Some(vm) = vm {
            self.wait_for("VirtualMachine", &vm.metadata);
            if !is_deleted(&vm.metadata) {
                let message = format!(
                    "Stopping and deleting VirtualMachine {}",
                    name(&vm.metadata)
                );
                self.delete(
                    Kind::VirtualMachine,
                    &vm.metadata,
                    Some(Event::normal("Deleting", message)),
                );
            }
        }
        let Some(instance) = observed.instance else {
            return;
        };
        // Its VirtualMachine takes it along; without one it has to be told itself.
        let owner = controller(&instance.metadata);
        let is_ours = match observed.virtual_machine {
            Some(found) => owner == found.metadata.uid.as_deref() && vm.is_some(),
            None => is_labelled(&instance.metadata, observed),
        };
        if !is_ours {
            return;
        }
        self.wait_for("VirtualMachineInstance", &instance.metadata);
        if vm.is_none() && !is_deleted(&instance.metadata) {
            self.delete(Kind::VirtualMachineInstance, &instance.metadata, None);
        }
    }

    fn wait_for(&mut self, kind: &str, metadata: &ObjectMeta) {
        let message = format!("waits until {kind} {} is gone", name(metadata));
        self.waits_for
            .push(Obstacle::waiting(Part::VirtualMachine, message));
    }

    fn delete(&mut self, kind: Kind, metadata: &ObjectMeta, event: Option<Event>) {
        self.steps.push(Step {
            action: Action::Delete {
                kind,
                name: name(metadata).to_owned(),
                uid: uid(metadata),
                resource_version: None,
            },
            reason: "the Machine is deleted".to_owned(),
            event,
        });
    }

    fn clean_up(&mut self, observed: &Observed<'_>) {
        let retain = observed.machine.spec.deletion_policy == Some(DeletionPolicy::Retain);
        if retain {
            // That the disks are free is seen before the Machine goes, and they with it.
            let released = release_disks(observed, &|_| true);
            self.steps.extend(released.steps);
            self.waits_for.extend(released.obstacles);
            if !self.steps.is_empty() || !self.waits_for.is_empty() {
                return;
            }
        } else {
            for (kind, metadata) in disks::own_disks(observed) {
                self.steps
                    .push(disks::delete(kind, metadata, "the Machine is deleted"));
            }
        }
        self.steps.push(Step {
            action: Action::DeleteSecret {
                name: naming::cloud_init_secret(name(&observed.machine.metadata)),
            },
            reason: "the Machine is deleted".to_owned(),
            event: None,
        });
        self.steps.push(Step {
            action: Action::RemoveFinalizer,
            reason: "nothing of it is left".to_owned(),
            event: None,
        });
    }
}

/// Whether an instance without its VirtualMachine is the Machine's.
fn is_labelled(metadata: &ObjectMeta, observed: &Observed<'_>) -> bool {
    let found = metadata.labels.as_ref();
    let machine = found.and_then(|entries| entries.get(labels::MACHINE));
    machine.map(String::as_str) == observed.machine.metadata.name.as_deref()
}

/// Disks that are kept must not have the Machine for an owner, or the garbage collector takes them
/// with it. Those that `concerns` picks by name are let go.
pub(super) fn release_disks(observed: &Observed<'_>, concerns: &dyn Fn(&str) -> bool) -> Disks {
    let mut released = Disks::default();
    let is_held = |metadata: &ObjectMeta| {
        is_owned(metadata, observed.machine) && !is_deleted(metadata) && concerns(name(metadata))
    };
    let mut release = |object: Object, metadata: &ObjectMeta| {
        released.steps.push(Step {
            action: Action::Apply {
                object,
                uid: uid(metadata),
                created_at: managed::created_at(metadata),
            },
            reason: "the disk outlives the Machine".to_owned(),
            event: None,
        });
    };
    for claim in &observed.claims {
        if is_held(&claim.metadata) {
            let metadata = without_owner(&claim.metadata);
            let object = PersistentVolumeClaim::new(metadata, claim.spec.clone());
            release(Object::Claim(object), &claim.metadata);
        }
    }
    let mut unreadable = Vec::new();
    for volume in &observed.data_volumes {
        if !is_held(&volume.metadata) {
            continue;
        }
        match serde_json::from_value::<DataVolumeSpec>(volume.spec.value()) {
            Ok(spec) => {
                let mut object = DataVolume::new("", spec);
                object.metadata = without_owner(&volume.metadata);
                release(Object::DataVolume(object), &volume.metadata);
            }
            Err(_) => unreadable.push(format!(
                "waits until DataVolume {} no longer has the Machine for an owner, which is not known how to change: remove its ownerReferences",
                name(&volume.metadata)
            )),
        }
    }
    let waits = unreadable
        .into_iter()
        .map(|message| Obstacle::waiting(Part::Storage, message));
    released.obstacles.extend(waits);
    released
}

/// What we own of a disk's metadata, but the owner.
fn without_owner(metadata: &ObjectMeta) -> ObjectMeta {
    let ours = |entries: &Option<std::collections::BTreeMap<String, String>>, names: &[&str]| {
        let entries = entries.iter().flatten();
        entries
            .filter(|(name, _)| names.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: Some(ours(
            &metadata.labels,
            &[labels::MANAGED_BY, labels::MACHINE],
        )),
        annotations: Some(ours(
            &metadata.annotations,
            &[labels::MACHINE_UID, labels::LISTED_DISK],
        )),
        ..ObjectMeta::default()
    }
}
