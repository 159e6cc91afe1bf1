//! What is to be done for a Machine, and what to tell of it.
//!
//! [`plan()`] is a function of what is observed: the same observation gives the same plan, and an
//! observation of what the plan asks for gives an empty one. Writes are in an order in which a crash
//! after any of them is harmless. Nothing is planned for an object that is not the Machine's own.

mod claimed;
mod class;
pub(crate) mod class_snapshot;
mod cloud_init;
pub(crate) mod compare;
mod delete;
mod disks;
mod loss;
mod networks;
mod ownership;
mod replace;
mod tampering;
mod vm;

pub(super) use self::disks::is_retained;
pub(crate) use self::{
    claimed::ignored_modes,
    disks::{Fixed, Standing},
    loss::record,
};
pub use self::{replace::never_started, tampering::label_repair_event};

use std::time::Duration;

use api::{
    MachineStatus, PowerState, Time,
    kubevirt::{InstancePhase, ObservedInstance},
    labels,
};

use self::{
    ownership::{annotation, is_deleted, name, uid},
    vm::{Pause, Present},
};
use super::{
    Action, ErrorType, Kind, Observed, Obstacle, Part, ResolvedMachine, SpecError, Step, build,
    digest_key::Digest,
    elided,
    status::{self, Behind, Facts},
};
use crate::Event;

/// What is to be done for a Machine, and what to tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes, in order. After them, look and plan again.
    pub steps: Vec<Step>,
    /// The status of what was observed; the same as the Machine's when it need not be written.
    pub status: MachineStatus,
    /// What to tell people once the status is written.
    pub events: Vec<Event>,
    /// When to look again, although nothing may have changed.
    pub requeue_after: Option<Duration>,
    /// What is in the way; the status tells of it.
    pub obstacles: Vec<Obstacle>,
    /// What is wrong with the spec; the status tells of it.
    pub errors: Vec<SpecError>,
    /// The next write needs cloud-init data that the cached Machine does without.
    pub needs_cloud_init: bool,
}

/// Plans the next writes for a Machine.
pub fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    if is_deleted(&observed.machine.metadata) {
        let delete::Removal {
            steps,
            waits_for,
            retry_in,
        } = delete::plan(observed);
        return Outcome {
            steps,
            obstacles: waits_for,
            retry_in,
            ..Outcome::default()
        }
        .tell(observed, Ok(None), now);
    }
    match class::resolve_sized(observed, may_change_size(observed)) {
        Err(errors) => {
            let mut outcome = Outcome::default();
            outcome.steps.extend(disks::disown(observed));
            outcome.tell(observed, Err(errors), now)
        }
        Ok(sized) => {
            let machine = sized.resolution.machine;
            let mut outcome = Outcome {
                class_behind: sized.behind,
                ..Outcome::default()
            };
            outcome.keep(observed, &machine, sized.taken, now);
            outcome.hold_back_elided(observed);
            outcome.tell(observed, Ok(Some(&machine)), now)
        }
    }
}

/// A guest that runs keeps the size it has, unless a restart was asked for.
fn may_change_size(observed: &Observed<'_>) -> bool {
    let present = observed.virtual_machine.map(Present::of);
    let runs = |instance: &ObservedInstance| is_running(instance) && !never_started(instance);
    !observed.instance.is_some_and(runs) || vm::is_restart_due(observed, present.as_ref())
}

/// Whether a guest runs, or is about to.
pub fn is_running(instance: &ObservedInstance) -> bool {
    !instance.status.phase.is_final() && !is_deleted(&instance.metadata)
}

#[derive(Default)]
struct Outcome {
    steps: Vec<Step>,
    obstacles: Vec<Obstacle>,
    class_behind: Option<Behind>,
    restart_required: Option<String>,
    retry_in: Option<Duration>,
    /// Whether it is not recorded yet what becomes of a disk that was removed.
    removal_is_pending: bool,
    needs_cloud_init: bool,
    vm_is_behind: bool,
    /// What the spec lists of disks and their claims do not have.
    ignored_modes: Vec<String>,
}

impl Outcome {
    /// The Secret cannot be written from a digest: what comes before it is done, then the whole Machine
    /// is asked for.
    fn hold_back_elided(&mut self, observed: &Observed<'_>) {
        if elided::elided(&observed.machine.metadata).is_none() {
            return;
        }
        let is_secret = |step: &Step| matches!(step.action, Action::WriteSecret(_));
        if let Some(place) = self.steps.iter().position(is_secret) {
            self.steps.truncate(place);
            self.needs_cloud_init = true;
        }
    }

    /// The steps of a Machine that is to be, in the order of the reference: networks, storage, the
    /// VirtualMachine, and then what concerns its instance.
    fn keep(
        &mut self,
        observed: &Observed<'_>,
        machine: &ResolvedMachine,
        taken: Option<String>,
        now: &Time,
    ) {
        self.hold(observed);
        self.steps.extend(disks::disown(observed));
        let marks = disks::mark_removed(observed, machine);
        self.removal_is_pending = !marks.is_empty();
        self.steps.extend(marks);
        if !observed.installed.kubevirt {
            self.obstacles.push(Obstacle::error(
                Part::VirtualMachine,
                ErrorType::KubeVirtApiError,
                "KubeVirt is not installed: the Machine goes on by itself once it is",
            ));
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
        self.ignored_modes = claimed::ignored(observed);
        let machine = &claimed::resolved(observed, machine);
        let objects = build(machine);
        let disks = disks::keep(observed, machine, objects.volumes);
        self.steps.extend(disks.steps);
        self.obstacles.extend(disks.obstacles);
        if let Some(obstacle) = vm::obstacle(observed) {
            self.obstacles.push(obstacle);
            return;
        }
        let present = observed.virtual_machine.map(Present::of);
        let is_in_the_way =
            |obstacle: &Obstacle| matches!(obstacle.part, Part::Network | Part::Storage);
        if present.is_none() && self.obstacles.iter().any(is_in_the_way) {
            return;
        }
        let on_secret = observed.cloud_init_secret.digest();
        let digest = vm::cloud_init_digest(machine);
        let digest = digest.map(|plain| Digest::new(plain, observed.digest_key, on_secret));
        let recorded = present.as_ref().and_then(Present::cloud_init);
        if let Some(secret) = objects.cloud_init {
            let digest = digest.as_ref();
            self.steps
                .extend(cloud_init::step(observed, present.as_ref(), secret, digest));
        }
        self.tell_of_cloud_init(observed, recorded, digest.as_ref());
        let runs_on = !vm::is_restart_due(observed, present.as_ref());
        let may_run = observed.instance.is_some() || machine.power_state != PowerState::Stopped;
        let cloud_init = digest.map(|digest| digest.to_record(recorded, may_run && runs_on));
        let wanted = vm::wanted(
            objects.virtual_machine,
            observed,
            present.as_ref(),
            taken,
            cloud_init,
        );
        self.vm_is_behind = present.as_ref().is_some_and(|present| {
            annotation(&present.vm.metadata, labels::APPLIED)
                != annotation(&wanted.metadata, labels::APPLIED)
        });
        let domain = &wanted.spec.template.spec.domain;
        let replacement = replace::replacement(observed, domain, machine.power_state, now);
        self.steps
            .extend(vm::step(wanted, present.as_ref(), machine));
        match restart(observed, present.as_ref()) {
            Some(restart) => self.steps.push(restart),
            None => self.steps.extend(replacement.step),
        }
        self.steps.extend(power(observed, machine.power_state));
        let removed = disks::drop_removed(observed, machine, present.as_ref());
        self.obstacles.extend(removed.obstacles);
        let waits = [removed.retry_in, replacement.requeue_after];
        self.retry_in = waits.into_iter().flatten().min();
        let reads = |step: &Step| step.action == Action::ObserveReferences;
        if self.steps.is_empty() || !removed.steps.iter().any(reads) {
            self.steps.extend(removed.steps);
        }
    }

    /// A Machine is held before anything is made for it.
    fn hold(&mut self, observed: &Observed<'_>) {
        let finalizers = observed.machine.metadata.finalizers.as_deref();
        let held = finalizers.unwrap_or_default().iter();
        if !held.into_iter().any(|held| held == labels::FINALIZER) {
            self.steps.push(Step {
                action: Action::AddFinalizer,
                reason: "what is made for it is to be removed with it".to_owned(),
                // A Machine that has a VirtualMachine had it before.
                event: observed.virtual_machine.map(|_| {
                    let message = format!(
                        "metadata.finalizers was changed by somebody else: put back {}",
                        labels::FINALIZER
                    );
                    Event::normal("PutBack", message)
                }),
            });
        }
    }

    fn tell_of_cloud_init(
        &mut self,
        observed: &Observed<'_>,
        on_vm: Option<&str>,
        wanted: Option<&Digest<'_>>,
    ) {
        let Some(instance) = observed.instance else {
            return;
        };
        let is_final = instance.status.phase.is_final() || is_deleted(&instance.metadata);
        let matches = match (annotation(&instance.metadata, labels::CLOUD_INIT), wanted) {
            (Some(recorded), Some(wanted)) => wanted.matches_on_instance(recorded, on_vm),
            (recorded, wanted) => recorded.is_none() && wanted.is_none(),
        };
        if !is_final && !matches {
            self.restart_required = Some(
                "cloud-init's data has changed: the guest finds it after a restart".to_owned(),
            );
        }
    }

    fn tell(
        self,
        observed: &Observed<'_>,
        resolved: Result<Option<&ResolvedMachine>, Vec<SpecError>>,
        now: &Time,
    ) -> Plan {
        let (resolved, errors) = match resolved {
            Ok(resolved) => (resolved, Vec::new()),
            Err(errors) => (None, errors),
        };
        let told = status::tell(Facts {
            observed,
            resolved: resolved.ok_or(errors.as_slice()),
            obstacles: &self.obstacles,
            class_behind: self.class_behind.as_ref(),
            restart_required: self.restart_required.as_deref(),
            removal_is_pending: self.removal_is_pending,
            vm_is_behind: self.vm_is_behind,
            ignored_modes: &self.ignored_modes,
            now,
        });
        Plan {
            steps: self.steps,
            status: told.status,
            events: told.events,
            requeue_after: [told.requeue_after, self.retry_in]
                .into_iter()
                .flatten()
                .min(),
            obstacles: self.obstacles,
            errors,
            needs_cloud_init: self.needs_cloud_init,
        }
    }
}

/// Ends the instance that a restart was noted for. With its VirtualMachine set to run, KubeVirt
/// starts the next one.
fn restart(observed: &Observed<'_>, present: Option<&Present<'_>>) -> Option<Step> {
    let instance = observed.instance?;
    let noted = annotation(&present?.vm.metadata, labels::RESTARTED_INSTANCE)?;
    let is_due = instance.metadata.uid.as_deref() == Some(noted)
        && !is_deleted(&instance.metadata)
        && !vm::is_restart_due(observed, present);
    is_due.then(|| Step {
        action: Action::Delete {
            kind: Kind::VirtualMachineInstance,
            name: name(&instance.metadata).to_owned(),
            uid: uid(&instance.metadata),
            resource_version: None,
        },
        reason: "a restart was asked for".to_owned(),
        event: Some(Event::normal(
            "Restarted",
            "Restarting, as spec.restartedAt asks",
        )),
    })
}

/// Holds or lets go of the CPUs. Whether there is an instance at all is up to KubeVirt.
fn power(observed: &Observed<'_>, wanted: PowerState) -> Option<Step> {
    let instance = observed.instance.filter(|instance| {
        instance.status.phase == InstancePhase::Running && !is_deleted(&instance.metadata)
    })?;
    let pause = Pause::of(&instance.status.conditions);
    let name = name(&instance.metadata).to_owned();
    let (action, reason, event) = match (wanted, pause) {
        (PowerState::Paused, Pause::None) => (
            Action::Pause { name },
            "spec.powerState is Paused",
            Event::normal("Paused", "Paused, as spec.powerState asks"),
        ),
        (PowerState::Running, Pause::Asked) => (
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
