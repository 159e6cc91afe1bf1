//! Deletion of a Machine: delete the VirtualMachine and wait for it, then delete the disks, then remove
//! the finalizer. NetworkConfigurations notice by themselves.
//!
//! - The Machine need not resolve: every Machine can be deleted.
//! - A disk is deleted only after a live read in which no VirtualMachine and no instance refers to it.
//! - An orphaning deletion (`kubectl delete --cascade=orphan`) keeps all children.

use std::{collections::BTreeSet, time::Duration};

use api::{DeletionPolicy, Machine, ObjectMeta, labels};

use super::{
    adoption::is_adopted,
    data_loss, disks, ledger,
    ownership::{
        add_child_labels, child_labels, controller, is_own_disk, is_own_vm, is_terminating, name,
        remove_owner, uid,
    },
};
use crate::{
    Event,
    machine::{
        Action, Age, ErrorType, Kind, LiveReferences, MetadataChange, Observed, Obstacle, Part,
        References, Step, disk_name::disk_name, switches::is_switched_on,
    },
    managed, naming,
};

/// Finalizer of the garbage collector until it has orphaned the dependents.
const ORPHAN_FINALIZER: &str = "orphan";

/// Remaining steps of a deletion.
#[derive(Default)]
pub(super) struct Removal {
    pub(super) steps: Vec<Step>,
    pub(super) waiting_for: Vec<Obstacle>,
    pub(super) retry_after: Option<Duration>,
}

pub(super) fn plan(observed: &Observed<'_>) -> Removal {
    let mut removal = Removal::default();
    if !has_finalizer(observed, labels::FINALIZER) {
        if has_finalizer(observed, labels::FORMER_FINALIZER) {
            removal.waiting_for.push(of_go_operator());
        }
        return removal;
    }
    // First: a foreground deletion would delete every object with an owner reference to the Machine.
    removal.steps = disks::remove_owner_references(observed);
    if !removal.steps.is_empty() {
        return removal;
    }
    let vm = observed.virtual_machine.map(|vm| &vm.metadata);
    if is_orphaned(observed, vm) {
        removal.orphan(observed, vm);
    } else {
        removal.stop(observed);
    }
    removal
}

fn has_finalizer(observed: &Observed<'_>, finalizer: &str) -> bool {
    let finalizers = observed.machine.metadata.finalizers.as_deref();
    let mut finalizers = finalizers.unwrap_or_default().iter();
    finalizers.any(|found| found == finalizer)
}

/// Whether the VirtualMachine and the disks are to be kept. The garbage collector may have removed the
/// owner reference and its finalizer before either was observed.
fn is_orphaned(observed: &Observed<'_>, vm: Option<&ObjectMeta>) -> bool {
    // In another cluster than the Machine's it never has one.
    let is_local = observed.surroundings.cluster.is_none();
    let lost_its_owner = is_local
        && vm.is_some_and(|vm| is_own_vm(vm, observed.machine) && controller(vm).is_none());
    observed.orphaned || has_finalizer(observed, ORPHAN_FINALIZER) || lost_its_owner
}

impl Removal {
    fn stop(&mut self, observed: &Observed<'_>) {
        let vm = observed
            .virtual_machine
            .filter(|vm| is_own_vm(&vm.metadata, observed.machine));
        if let Some(vm) = vm {
            self.stop_vm(observed, &vm.metadata);
            return;
        }
        self.observe_unconfirmed(observed);
        self.recover_recorded(observed);
        if !self.steps.is_empty() {
            return;
        }
        let Some(live) = self.live_references(observed) else {
            return;
        };
        if let Some(vm) = hidden_vm(observed, live) {
            if is_orphaned(observed, Some(vm)) {
                self.orphan(observed, Some(vm));
            } else {
                self.relabel(observed, vm);
            }
            return;
        }
        self.stop_instance(observed, live);
        if self.steps.is_empty() && self.waiting_for.is_empty() {
            self.clean_up(observed, live);
        }
    }

    fn stop_vm(&mut self, observed: &Observed<'_>, vm: &ObjectMeta) {
        let templated = retained_in_templates(observed);
        if !templated.is_empty() && !is_terminating(vm) {
            self.waiting_for.extend(templated);
            return;
        }
        self.wait_for("VirtualMachine", vm);
        if !is_terminating(vm) {
            let message = format!("Stopping and deleting VirtualMachine {}", name(vm));
            let event = Some(Event::normal("Deleting", message));
            self.delete(Kind::VirtualMachine, vm, event);
        }
        // KubeVirt deletes the instance with its VirtualMachine.
        let instance = observed.instance.map(|instance| &instance.metadata);
        if let Some(instance) =
            instance.filter(|instance| controller(instance) == vm.uid.as_deref())
        {
            self.wait_for("VirtualMachineInstance", instance);
        }
    }

    /// Deletes an instance whose VirtualMachine no longer exists.
    fn stop_instance(&mut self, observed: &Observed<'_>, live: &References) {
        let Some(instance) = observed.instance.map(|instance| &instance.metadata) else {
            return;
        };
        let has_vm = controller(instance).is_some_and(|uid| live.has_virtual_machine(uid));
        if has_vm || observed.virtual_machine.is_some() || !is_labelled(instance, observed) {
            return;
        }
        self.wait_for("VirtualMachineInstance", instance);
        if !is_terminating(instance) && live.has_instance(name(instance)) {
            self.delete(Kind::VirtualMachineInstance, instance, None);
        }
    }

    /// Reads the disks that may exist although no cache shows them. Nothing would delete them after the
    /// finalizer is removed.
    fn observe_unconfirmed(&mut self, observed: &Observed<'_>) {
        for (kind, name) in &observed.unconfirmed_disks {
            let action = Action::ObserveDisk {
                kind: *kind,
                name: (*name).to_owned(),
            };
            if !disks::is_cached(observed, *kind, name) {
                self.steps.push(Step {
                    action,
                    reason: "its create got no answer, and it is not in the cache".to_owned(),
                    event: None,
                });
            }
        }
    }

    /// Reads recorded claims that no cache shows. A claim that lost its labels gets them back and is then
    /// deleted or retained like the others.
    fn recover_recorded(&mut self, observed: &Observed<'_>) {
        let labels = child_labels(observed);
        let status = observed.machine.status.as_ref();
        for recorded in status
            .and_then(|it| it.disks.as_ref())
            .into_iter()
            .flatten()
        {
            let kind = Kind::PersistentVolumeClaim;
            if !recorded.uuid.is_empty()
                && !observed.lost_claims.contains(&recorded.uuid.as_str())
                && !disks::is_cached(observed, kind, &recorded.pvc_name)
            {
                let recover = data_loss::recover(recorded, Some(labels.clone()));
                self.steps.push(recover);
            }
        }
    }

    /// A live read that this plan may rely on. Without one, the plan requests it.
    fn live_references<'a>(&mut self, observed: &Observed<'a>) -> Option<&'a References> {
        let Some(LiveReferences { found, age }) = observed.references else {
            self.steps.push(observe_references());
            return None;
        };
        let Age::Stale { retry_after } = age else {
            return Some(found);
        };
        for (_, disk) in disks_to_delete(observed) {
            self.waiting_for.extend(in_use(observed, disk, found));
        }
        if self.waiting_for.is_empty() || retry_after.is_zero() {
            self.steps.push(observe_references());
        } else {
            self.retry_after = Some(retry_after);
        }
        None
    }

    /// Restores the labels of our VirtualMachine, which caches do not show without them. The next plan
    /// deletes it.
    fn relabel(&mut self, observed: &Observed<'_>, vm: &ObjectMeta) {
        self.wait_for("VirtualMachine", vm);
        self.steps.push(Step {
            action: Action::ChangeMetadata {
                kind: Kind::VirtualMachine,
                name: name(vm).to_owned(),
                uid: uid(vm),
                change: add_child_labels(observed),
            },
            reason: "another client removed its labels".to_owned(),
            event: None,
        });
    }

    fn wait_for(&mut self, kind: &str, metadata: &ObjectMeta) {
        let message = format!("waiting for {kind} {} to be deleted", name(metadata));
        self.waiting_for
            .push(Obstacle::waiting(Part::VirtualMachine, message));
    }

    fn delete(&mut self, kind: Kind, metadata: &ObjectMeta, event: Option<Event>) {
        // An orphaning deletion may have removed the VirtualMachine's owner, and a stale cache does not
        // show it. An instance changes all the time, and is deleted whoever owns it.
        let is_vm = kind == Kind::VirtualMachine;
        let version = metadata.resource_version.clone().filter(|_| is_vm);
        self.steps.push(Step {
            action: Action::Delete {
                kind,
                name: name(metadata).to_owned(),
                uid: uid(metadata),
                resource_version: version,
            },
            reason: "the Machine is deleted".to_owned(),
            event,
        });
    }

    fn clean_up(&mut self, observed: &Observed<'_>, live: &References) {
        let kept = RetainedDisks::of(observed);
        self.steps
            .extend(disks::retain(observed, &|disk| kept.has(disk)));
        for (kind, disk) in disks_to_delete(observed) {
            if let Some(in_use) = in_use(observed, disk, live) {
                self.waiting_for.push(in_use);
            } else {
                let step = disks::delete(kind, disk, "the Machine is deleted");
                self.steps.push(step);
            }
        }
        if !self.waiting_for.is_empty() {
            return;
        }
        self.steps.extend(ledger::delete(observed));
        self.steps.push(Step {
            action: Action::DeleteSecret {
                name: naming::cloud_init_secret(name(&observed.machine.metadata)),
            },
            reason: "the Machine is deleted".to_owned(),
            event: None,
        });
        self.steps.push(Step {
            action: Action::RemoveFinalizer,
            reason: "its children are deleted".to_owned(),
            event: None,
        });
    }

    /// Keeps all children and removes the finalizer.
    fn orphan(&mut self, observed: &Observed<'_>, vm: Option<&ObjectMeta>) {
        let vm = vm.filter(|vm| is_own_vm(vm, observed.machine) && !is_terminating(vm));
        let machine = observed.machine.metadata.uid.as_deref();
        // The garbage collector removes the references that it knows of, and then its finalizer.
        let collector_is_done = !has_finalizer(observed, ORPHAN_FINALIZER);
        if let Some(vm) = vm
            && collector_is_done
            && managed::is_owned_by(vm, machine)
        {
            self.steps.push(remove_owner(
                Kind::VirtualMachine,
                vm,
                machine,
                "it outlives the Machine",
            ));
        }
        if let Some(vm) = vm
            && observed.surroundings.cluster.is_some()
            && !is_retained_vm(vm)
        {
            self.steps.push(retain_vm(vm));
        }
        self.steps.extend(disks::retain(observed, &|_| true));
        let disks = disks::own_disks(observed).map(|(kind, disk)| (kind.as_str(), name(disk)));
        let left: Vec<String> = vm
            .map(|vm| (Kind::VirtualMachine.as_str(), name(vm)))
            .into_iter()
            .chain(disks)
            .map(|(kind, name)| format!("{kind} {name}"))
            .collect();
        let message = if left.is_empty() {
            "Deleted with --cascade=orphan: there was nothing to keep".to_owned()
        } else {
            format!(
                "Deleted with --cascade=orphan: kept {}; nothing manages or deletes them from now on",
                left.join(", ")
            )
        };
        self.steps.push(Step {
            action: Action::RemoveFinalizer,
            reason: "--cascade=orphan keeps its children".to_owned(),
            event: Some(Event::normal("Orphaned", message)),
        });
    }
}

/// Marks a VirtualMachine that outlives its Machine on purpose: in another cluster, what has no Machine is
/// reported.
fn retain_vm(vm: &ObjectMeta) -> Step {
    let label = (labels::RETAINED.to_owned(), Some("true".to_owned()));
    let change = MetadataChange {
        labels: [label].into(),
        ..MetadataChange::default()
    };
    let reason = "it outlives the Machine";
    disks::change_metadata(Kind::VirtualMachine, vm, change, reason)
}

fn is_retained_vm(vm: &ObjectMeta) -> bool {
    let labels = vm.labels.as_ref();
    labels.is_some_and(|all| all.contains_key(labels::RETAINED))
}

/// The disks that outlive the Machine.
struct RetainedDisks<'a> {
    machine: &'a Machine,
    all: bool,
    listed: BTreeSet<&'a str>,
}

impl<'a> RetainedDisks<'a> {
    fn of(observed: &Observed<'a>) -> Self {
        let Machine { spec, .. } = observed.machine;
        let listed = spec.disks.iter().flatten();
        Self {
            machine: observed.machine,
            all: spec.deletion_policy == Some(DeletionPolicy::Retain),
            listed: listed.map(|disk| disk.name.as_str()).collect(),
        }
    }

    fn has(&self, disk: &ObjectMeta) -> bool {
        !disks::is_to_be_deleted(disk)
            && !disks::is_installer(self.machine, disk)
            && (self.all || self.was_removed(disk))
    }

    /// Whether a disk was removed from `spec.disks` so shortly before the deletion that its deletion
    /// policy is not recorded.
    fn was_removed(&self, disk: &ObjectMeta) -> bool {
        let disk_name = disk_name(name(&self.machine.metadata), disk);
        is_switched_on(disk, labels::LISTED_DISK)
            && disk_name.is_some_and(|disk| !self.listed.contains(disk))
    }
}

/// Obstacles to deleting an adopted VirtualMachine: KubeVirt deletes the disks that its templates created
/// with it, also those that the Machine retains.
fn retained_in_templates(observed: &Observed<'_>) -> Vec<Obstacle> {
    let Some(vm) = observed
        .virtual_machine
        .filter(|vm| is_adopted(&vm.metadata))
    else {
        return Vec::new();
    };
    let spec = vm.spec.value();
    let templates = spec["dataVolumeTemplates"].as_array();
    let templates = templates.into_iter().flatten();
    let templates: BTreeSet<&str> = templates
        .filter_map(|template| template["metadata"]["name"].as_str())
        .collect();
    let kept = RetainedDisks::of(observed);
    let claims = observed.claims.iter().map(|claim| &claim.metadata);
    claims
        .filter(|claim| is_own_disk(claim, observed.machine) && templates.contains(name(claim)))
        .filter(|claim| disks::is_retained(claim) || kept.has(claim))
        .map(|claim| {
            Obstacle::error(
                Part::Storage,
                ErrorType::DiskInUse,
                format!(
                    "PersistentVolumeClaim {} is to be kept, and KubeVirt deletes it with VirtualMachine {}, whose dataVolumeTemplates created it: remove metadata.ownerReferences from the VirtualMachine to keep both, or set spec.deletionPolicy of this Machine to Delete",
                    name(claim),
                    name(&vm.metadata)
                ),
            )
        })
        .collect()
}

/// The disks that are deleted with the Machine.
fn disks_to_delete<'a>(observed: &Observed<'a>) -> impl Iterator<Item = (Kind, &'a ObjectMeta)> {
    let kept = RetainedDisks::of(observed);
    disks::own_disks(observed).filter(move |(_, disk)| !disks::is_retained(disk) && !kept.has(disk))
}

/// The Machine was not adopted before it was deleted.
fn of_go_operator() -> Obstacle {
    let message = format!(
        "the Go operator deletes this Machine and its VirtualMachine (finalizer {}): without that \
         operator, remove the finalizer, and the VirtualMachine and its disks stay",
        labels::FORMER_FINALIZER
    );
    Obstacle::waiting(Part::VirtualMachine, message)
}

pub(super) fn observe_references() -> Step {
    Step {
        action: Action::ObserveReferences,
        reason: "a disk is deleted only while no VirtualMachine or instance refers to it"
            .to_owned(),
        event: None,
    }
}

/// The obstacle to deleting a disk, if it is in use.
pub(super) fn in_use(
    observed: &Observed<'_>,
    disk: &ObjectMeta,
    live: &References,
) -> Option<Obstacle> {
    let users: Vec<String> = live
        .users(name(disk))
        .map(|(kind, name)| format!("{} {name}", kind.as_str()))
        .collect();
    (!users.is_empty()).then(|| {
        Obstacle::in_use(
            name(disk),
            &users.join(" and "),
            is_terminating(&observed.machine.metadata),
        )
    })
}

/// The existing VirtualMachine of this Machine if the cache, which is selected by label, does not show it.
fn hidden_vm<'a>(observed: &Observed<'_>, live: &'a References) -> Option<&'a ObjectMeta> {
    let machine = observed.machine;
    let vm_name = machine.spec.name.as_deref();
    let vm = live.virtual_machine(vm_name.unwrap_or_else(|| name(&machine.metadata)))?;
    (observed.virtual_machine.is_none() && is_own_vm(vm, machine)).then_some(vm)
}

/// Whether an instance without its VirtualMachine belongs to the Machine.
fn is_labelled(metadata: &ObjectMeta, observed: &Observed<'_>) -> bool {
    let found = metadata.labels.as_ref();
    let machine = found.and_then(|entries| entries.get(labels::MACHINE));
    machine.map(String::as_str) == observed.machine.metadata.name.as_deref()
}
