//! Reconcile planner for Machines: computes the next actions and the status from observed state.
//!
//! [`plan()`] is a pure function. Once its actions have been executed and observed, it returns no further
//! ones. The actions are in an order in which a crash after any of them is harmless. It never plans a
//! write to a foreign object.

pub(super) mod adoption;
mod claim_modes;
mod class;
pub(crate) mod class_snapshot;
mod cloud_init;
pub(crate) mod compare;
mod data_loss;
mod delete;
mod disks;
pub(super) mod ledger;
mod networks;
mod ownership;
mod replace;
mod tampering;
mod vm;

pub(super) use self::disks::is_retained;
pub use self::{
    adoption::{claims_of, controlled_by_other, is_controlled_by_other},
    replace::never_started,
    tampering::label_repair_event,
};
pub(crate) use self::{
    claim_modes::ignored_modes,
    data_loss::record,
    disks::{NotExpandable, Standing},
};

use std::time::Duration;

use api::{
    MachineStatus, PowerState, Time,
    core::Secret,
    kubevirt::{InstancePhase, ObservedInstance},
    labels,
};

use self::{
    adoption::{KeptSpec, Stage},
    ownership::{annotation, is_terminating, name, uid},
    vm::{ExistingVm, Pause},
};
use super::{
    Action, ErrorType, Kind, Observed, Obstacle, Part, ResolvedMachine, SpecError, Step, build,
    cluster,
    digest_key::Digest,
    elided, protection,
    status::{self, ClassMismatch, Resolved, StatusInput},
};
use crate::{
    Event,
    managed::{ANOTHER_CLIENT, repaired},
};

/// Next actions and status of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Actions, in order. The Machine is reconciled again after them.
    pub steps: Vec<Step>,
    /// Equal to the Machine's status if no status write is needed.
    pub status: MachineStatus,
    /// Events to record after the status write.
    pub events: Vec<Event>,
    /// Requeue delay, for changes that come with time alone.
    pub requeue_after: Option<Duration>,
    /// Also reported in the status.
    pub obstacles: Vec<Obstacle>,
    /// Errors of the spec, also reported in the status.
    pub errors: Vec<SpecError>,
    /// The next action needs cloud-init data that was elided from the cached Machine.
    pub needs_cloud_init: bool,
    /// How the spec of an adopted VirtualMachine differs from the Machine's, which is not applied.
    pub differences: Vec<String>,
}

pub fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    if protection::blocks_deletion(observed.machine) {
        return wait_for_permission(observed, now);
    }
    if is_terminating(&observed.machine.metadata) {
        let delete::Removal {
            steps,
            waiting_for,
            retry_after,
        } = delete::plan(observed);
        return PlanBuilder {
            steps,
            obstacles: waiting_for,
            retry_after,
            ..PlanBuilder::default()
        }
        .finish(observed, Resolved::Terminating, now);
    }
    match class::resolve_sized(observed, may_change_size(observed)) {
        Err(errors) => {
            let mut builder = PlanBuilder::default();
            builder
                .steps
                .extend(disks::remove_owner_references(observed));
            let plan = builder.finish(observed, Resolved::Invalid(&errors), now);
            Plan { errors, ..plan }
        }
        Ok(sized) => {
            let machine = adoption::with_adopted_claims(observed, sized.resolution.machine);
            let mut builder = PlanBuilder {
                class_mismatch: sized.class_mismatch,
                ..PlanBuilder::default()
            };
            builder.reconcile(observed, &machine, sized.class_snapshot, now);
            builder.defer_secret_write(observed);
            // Disks that an adopted VirtualMachine does not have are not created.
            let kept = builder.kept_spec.as_ref().and(observed.virtual_machine);
            let kept = kept.map(ExistingVm::of);
            let kept = kept.map(|existing| adoption::with_attached_claims(&machine, &existing));
            builder.finish(
                observed,
                Resolved::Valid(kept.as_ref().unwrap_or(&machine)),
                now,
            )
        }
    }
}

/// The plan while its protection blocks the deletion of a Machine: the status follows what is observed, and
/// nothing is written to its children. Changes of the spec do not count as observed.
fn wait_for_permission(observed: &Observed<'_>, now: &Time) -> Plan {
    let mut builder = PlanBuilder {
        keeps_observed_generation: true,
        ..PlanBuilder::default()
    };
    match class::resolve_sized(observed, may_change_size(observed)) {
        Err(errors) => {
            let plan = builder.finish(observed, Resolved::Invalid(&errors), now);
            Plan { errors, ..plan }
        }
        Ok(sized) => {
            let machine = adoption::with_adopted_claims(observed, sized.resolution.machine);
            builder.class_mismatch = sized.class_mismatch;
            if observed.virtual_machine.is_none() {
                builder.obstacles.push(Obstacle::waiting(
                    Part::VirtualMachine,
                    "VirtualMachine is gone, and is not recreated because the Machine is deleted",
                ));
            }
            builder.finish(observed, Resolved::Valid(&machine), now)
        }
    }
}

/// A running guest keeps its size unless a restart is requested.
fn may_change_size(observed: &Observed<'_>) -> bool {
    let existing = observed.virtual_machine.map(ExistingVm::of);
    let runs = |instance: &ObservedInstance| is_running(instance) && !never_started(instance);
    !observed.instance.is_some_and(runs) || vm::is_restart_due(observed, existing.as_ref())
}

/// Whether a guest runs or is starting.
pub fn is_running(instance: &ObservedInstance) -> bool {
    !instance.status.phase.is_final() && !is_terminating(&instance.metadata)
}

#[derive(Default)]
struct PlanBuilder {
    steps: Vec<Step>,
    obstacles: Vec<Obstacle>,
    class_mismatch: Option<ClassMismatch>,
    restart_required: Option<String>,
    retry_after: Option<Duration>,
    /// Whether the present generation does not count as observed: the deletion policy of a removed disk is not
    /// recorded yet, or nothing is written.
    keeps_observed_generation: bool,
    needs_cloud_init: bool,
    vm_is_outdated: bool,
    /// Modes in `spec.disks` that differ from those of the claims.
    ignored_modes: Vec<String>,
    /// Present while the spec of an adopted VirtualMachine stays as it is.
    kept_spec: Option<KeptSpec>,
    differences: Vec<String>,
}

impl PlanBuilder {
    /// Drops the write of the Secret and everything after it if the data was elided from the cached
    /// Machine. The controller then reads the whole Machine.
    fn defer_secret_write(&mut self, observed: &Observed<'_>) {
        if elided::elided(&observed.machine.metadata).is_none() {
            return;
        }
        let is_secret = |step: &Step| matches!(step.action, Action::WriteSecret(_));
        if let Some(place) = self.steps.iter().position(is_secret) {
            self.steps.truncate(place);
            self.needs_cloud_init = true;
        }
    }

    /// Steps of a Machine that is not being deleted: networks, storage, the VirtualMachine, its instance.
    fn reconcile(
        &mut self,
        observed: &Observed<'_>,
        machine: &ResolvedMachine,
        class_snapshot: Option<String>,
        now: &Time,
    ) {
        let stage = Stage::of(observed);
        if let Stage::Adopt(_) | Stage::Keep | Stage::Apply = stage
            && !observed.installed.kubevirt
        {
            self.obstacles.push(kubevirt_is_missing(observed));
            return;
        }
        match stage {
            Stage::None => {}
            Stage::Adopt(request) => return self.adopt(observed, machine, request),
            Stage::Keep => return self.keep_adopted(observed, machine),
            Stage::Apply if self.may_apply(observed, machine) => {}
            Stage::Apply => return,
        }
        // Nothing is created beside a VirtualMachine that may be adopted later.
        if let Some(obstacle) = adoption::foreign(observed) {
            self.obstacles.push(obstacle);
            return;
        }
        self.ensure_finalizer(observed);
        self.steps.extend(disks::remove_owner_references(observed));
        let removal_records = disks::record_removed(observed, machine);
        self.keeps_observed_generation = !removal_records.is_empty();
        self.steps.extend(removal_records);
        if !observed.installed.kubevirt {
            self.obstacles.push(kubevirt_is_missing(observed));
            return;
        }
        if observed.installed.kubevirt_is_removed {
            self.obstacles.push(Obstacle::waiting(
                Part::VirtualMachine,
                status::kubevirt_is_removed(),
            ));
            return;
        }
        self.obstacles
            .extend(networks::obstacles(observed, machine));
        self.ignored_modes = claim_modes::ignored(observed);
        let machine = &claim_modes::with_claim_modes(observed, machine);
        let objects = build(machine);
        if let Some(obstacle) = ledger::obstacle(observed, machine) {
            self.obstacles.push(obstacle);
        } else {
            self.steps
                .extend(objects.ledger.and_then(|it| ledger::step(observed, it)));
            if let Some(awaited) = ledger::awaited_address(observed, machine, now) {
                self.retry_after = awaited.retry_after;
                let obstacle = Obstacle::waiting(Part::Network, awaited.message);
                self.obstacles.push(obstacle);
            }
        }
        self.steps.extend(networks::definitions(
            observed,
            machine,
            objects.attachments,
        ));
        let disks = disks::reconcile(observed, machine, objects.volumes);
        self.steps.extend(disks.steps);
        self.obstacles.extend(disks.obstacles);
        if let Some(obstacle) = vm::obstacle(observed) {
            self.obstacles.push(obstacle);
            return;
        }
        let existing = observed.virtual_machine.map(ExistingVm::of);
        let is_in_the_way =
            |obstacle: &Obstacle| matches!(obstacle.part, Part::Network | Part::Storage);
        if existing.is_none() && self.obstacles.iter().any(is_in_the_way) {
            return;
        }
        let cloud_init =
            self.reconcile_cloud_init(observed, machine, existing.as_ref(), objects.cloud_init);
        let desired = vm::desired(
            objects.virtual_machine,
            observed,
            existing.as_ref(),
            class_snapshot,
            cloud_init,
        );
        self.vm_is_outdated = existing.as_ref().is_some_and(|existing| {
            annotation(&existing.vm.metadata, labels::APPLIED)
                != annotation(&desired.metadata, labels::APPLIED)
        });
        let template = &desired.spec.template;
        let replacement = replace::replacement(observed, template, machine.power_state, now);
        self.steps
            .extend(vm::step(desired, existing.as_ref(), machine));
        match restart(observed, existing.as_ref()) {
            Some(restart) => self.steps.push(restart),
            None => self.steps.extend(replacement.step),
        }
        self.steps.extend(power(observed, machine.power_state));
        let removed = disks::delete_removed_disks(observed, machine, existing.as_ref());
        self.obstacles.extend(removed.obstacles);
        let waits = [removed.retry_after, replacement.requeue_after];
        self.retry_after = waits.into_iter().flatten().min();
        let reads = |step: &Step| step.action == Action::ObserveReferences;
        if self.steps.is_empty() || !removed.steps.iter().any(reads) {
            self.steps.extend(removed.steps);
        }
    }

    /// Writes the cloud-init Secret, and returns the digest to record on the VirtualMachine. A ledger that
    /// has lost its address changes neither.
    fn reconcile_cloud_init(
        &mut self,
        observed: &Observed<'_>,
        machine: &ResolvedMachine,
        existing: Option<&ExistingVm<'_>>,
        secret: Option<Secret>,
    ) -> Option<String> {
        let recorded = existing.and_then(ExistingVm::cloud_init);
        if machine.awaits_address() {
            return recorded.map(str::to_owned);
        }
        let on_secret = observed.cloud_init_secret.digest();
        let digest = vm::cloud_init_digest(machine);
        let digest = digest.map(|plain| Digest::new(plain, observed.digest_key, on_secret));
        if let Some(secret) = secret {
            let step = cloud_init::step(observed, existing, secret, digest.as_ref());
            self.steps.extend(step);
        }
        self.check_cloud_init(observed, recorded, digest.as_ref());
        let keeps_running = !vm::is_restart_due(observed, existing);
        let may_run = observed.instance.is_some() || machine.power_state != PowerState::Stopped;
        digest.map(|digest| digest.to_record(recorded, may_run && keeps_running))
    }

    /// Adds the finalizer before anything is created for the Machine.
    fn ensure_finalizer(&mut self, observed: &Observed<'_>) {
        if observed.surroundings.cluster.is_some() {
            self.steps.extend(cluster::place(observed));
            return;
        }
        let finalizers = observed.machine.metadata.finalizers.as_deref();
        let mut finalizers = finalizers.unwrap_or_default().iter();
        if !finalizers.any(|found| found == labels::FINALIZER) {
            self.steps.push(Step {
                action: Action::AddFinalizer,
                reason: "its children must be deleted before it".to_owned(),
                // A Machine with a VirtualMachine had the finalizer before.
                event: observed.virtual_machine.map(|_| {
                    let message =
                        repaired(ANOTHER_CLIENT, "metadata.finalizers", labels::FINALIZER);
                    Event::normal("DriftCorrected", message)
                }),
            });
        }
    }

    fn check_cloud_init(
        &mut self,
        observed: &Observed<'_>,
        on_vm: Option<&str>,
        desired: Option<&Digest<'_>>,
    ) {
        let Some(instance) = observed.instance else {
            return;
        };
        let is_final = instance.status.phase.is_final() || is_terminating(&instance.metadata);
        let matches = match (annotation(&instance.metadata, labels::CLOUD_INIT), desired) {
            (Some(recorded), Some(desired)) => desired.matches_on_instance(recorded, on_vm),
            (recorded, desired) => recorded.is_none() && desired.is_none(),
        };
        if !is_final && !matches {
            self.restart_required = Some(
                "the cloud-init data has changed: the guest reads it after a restart".to_owned(),
            );
        }
    }

    fn finish(self, observed: &Observed<'_>, resolved: Resolved<'_>, now: &Time) -> Plan {
        let report = status::report(StatusInput {
            observed,
            resolved,
            obstacles: &self.obstacles,
            class_mismatch: self.class_mismatch.as_ref(),
            restart_required: self.restart_required.as_deref(),
            keeps_observed_generation: self.keeps_observed_generation,
            vm_is_outdated: self.vm_is_outdated,
            ignored_modes: &self.ignored_modes,
            kept_spec: self.kept_spec.as_ref(),
            now,
        });
        Plan {
            steps: self.steps,
            status: report.status,
            events: report.events,
            requeue_after: [report.requeue_after, self.retry_after]
                .into_iter()
                .flatten()
                .min(),
            obstacles: self.obstacles,
            errors: Vec::new(),
            needs_cloud_init: self.needs_cloud_init,
            differences: self.differences,
        }
    }
}

fn kubevirt_is_missing(observed: &Observed<'_>) -> Obstacle {
    Obstacle::error(
        Part::VirtualMachine,
        ErrorType::KubeVirtApiError,
        status::kubevirt_is_missing(observed),
    )
}

/// Deletes the instance that is recorded for a restart. KubeVirt starts the next one, because the
/// VirtualMachine's run strategy is Always.
fn restart(observed: &Observed<'_>, existing: Option<&ExistingVm<'_>>) -> Option<Step> {
    let instance = observed.instance?;
    let noted = annotation(&existing?.vm.metadata, labels::RESTARTED_INSTANCE)?;
    let is_due = instance.metadata.uid.as_deref() == Some(noted)
        && !is_terminating(&instance.metadata)
        && !vm::is_restart_due(observed, existing);
    is_due.then(|| Step {
        action: Action::Delete {
            kind: Kind::VirtualMachineInstance,
            name: name(&instance.metadata).to_owned(),
            uid: uid(&instance.metadata),
            resource_version: None,
        },
        reason: "spec.restartedAt requests a restart".to_owned(),
        event: Some(Event::normal(
            "Restarted",
            "Restarting, as spec.restartedAt asks",
        )),
    })
}

/// Pauses or unpauses a running instance.
fn power(observed: &Observed<'_>, desired: PowerState) -> Option<Step> {
    let instance = observed.instance.filter(|instance| {
        instance.status.phase == InstancePhase::Running && !is_terminating(&instance.metadata)
    })?;
    let pause = Pause::of(&instance.status.conditions);
    let name = name(&instance.metadata).to_owned();
    let (action, reason, event) = match (desired, pause) {
        (PowerState::Paused, Pause::None) => (
            Action::Pause { name },
            "spec.powerState is Paused",
            Event::normal("Paused", "Paused, as spec.powerState asks"),
        ),
        (PowerState::Running, Pause::ByUser) => (
            Action::Unpause { name },
            "spec.powerState is Running",
            Event::normal("Unpaused", "Unpaused, as spec.powerState asks"),
        ),
        _ => return None,
    };
    Some(Step {
        action,
        reason: reason.to_owned(),
        event: Some(event),
    })
}
