//! What the guest does, and if it ended, who ended it.

use api::{
    ObservedCondition, Phase, PowerState, condition,
    kubevirt::{InstancePhase, ObservedInstance, ObservedVirtualMachine},
};

use super::{super::plan::never_started, readiness::Readiness, reason, view::View};

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guest {
    /// There is no VirtualMachine.
    Absent,
    /// It is on its way.
    Starting,
    /// It runs.
    Running,
    /// It runs, and KubeVirt reports that it is not ready.
    NotReady,
    /// It is up, with its CPUs held.
    Paused,
    /// Its node does not answer.
    Lost,
    /// It is on its way down.
    Stopping {
        /// Who wanted it.
        end: End,
        /// Whether it was up.
        up: bool,
    },
    /// It is down, though it should be up.
    Ended(End),
    /// It is down, as it should be.
    Off,
}

/// Why a guest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The Machine asks for it.
    Asked,
    /// It was shut down from inside.
    GuestShutdown,
    /// Somebody stopped it, past the Machine.
    Other,
    /// Its node is being emptied.
    Evicted,
    /// It crashed, or could not start.
    Crashed,
}

impl Guest {
    pub(super) fn of(view: &View<'_>) -> Self {
        match (view.instance, view.vm) {
            (Some(instance), _) => of_instance(view, instance),
            (None, Some(vm)) => without_instance(view, vm),
            (None, None) => Self::Absent,
        }
    }

    /// The phase that says so. A machine that ran before is not created again, it is started.
    pub(super) fn phase(self, has_run: bool) -> Phase {
        match self {
            Self::Running
            | Self::NotReady
            | Self::Paused
            | Self::Lost
            | Self::Stopping { up: true, .. } => Phase::Running,
            Self::Absent | Self::Starting | Self::Stopping { up: false, .. } if !has_run => {
                Phase::Creating
            }
            Self::Ended(End::Crashed) => Phase::Failed,
            Self::Absent | Self::Starting | Self::Stopping { .. } | Self::Ended(_) | Self::Off => {
                Phase::Stopped
            }
        }
    }
}

fn of_instance(view: &View<'_>, instance: &ObservedInstance) -> Guest {
    let status = &instance.status;
    let is_unwanted = view.wanted() == PowerState::Stopped;
    let is_deleted = instance.metadata.deletion_timestamp.is_some();
    let up = status.phase == InstancePhase::Running;
    match status.phase {
        phase if phase.is_final() && is_unwanted => Guest::Off,
        phase if phase.is_final() => match end_of(view, instance, is_deleted) {
            End::Asked => Guest::Starting,
            end => Guest::Ended(end),
        },
        _ if is_unwanted => Guest::Stopping {
            end: End::Asked,
            up,
        },
        // Evicted or deleted, a pod on a node that does not answer stays where it is.
        InstancePhase::Running
            if view.old_reason() == Some(reason::NODE_LOST)
                && (is_deleted || is_taken_away(instance)) =>
        {
            Guest::Lost
        }
        // No guest stops with it, and the next one is made from the VirtualMachine.
        _ if is_deleted && never_started(instance) => starting(view),
        _ if is_deleted => Guest::Stopping {
            end: end_of(view, instance, is_deleted),
            up,
        },
        // Nobody deleted the instance, but its pod is on its way out.
        InstancePhase::Running if is_taken_away(instance) => Guest::Stopping {
            end: End::Evicted,
            up,
        },
        InstancePhase::Running if is_paused(instance) => Guest::Paused,
        InstancePhase::Running => match Readiness::of(view, instance) {
            Readiness::Ready => Guest::Running,
            Readiness::Settling(_) if view.old_reason() == Some(reason::RUNNING) => Guest::Running,
            Readiness::Settling(_) | Readiness::Unconfirmed => starting(view),
            Readiness::NotReady => Guest::NotReady,
            Readiness::NodeLost => Guest::Lost,
        },
        InstancePhase::Unknown if status.node_name.is_some() => Guest::Lost,
        _ => starting(view),
    }
}

/// Who ends an instance that should run. KubeVirt deletes one that came to its end by itself, and
/// calls one that was deleted Failed, so what was told of it before is held on to while it goes.
fn end_of(view: &View<'_>, instance: &ObservedInstance, is_deleted: bool) -> End {
    if view.is_restarted(instance) {
        return End::Asked;
    }
    if instance.status.evacuation_node_name.is_some() {
        return End::Evicted;
    }
    // A guest whose pod is evicted shuts down as one that is told to from inside.
    let is_final = instance.status.phase.is_final();
    let was_evicted = matches!(view.old_reason(), Some(reason::EVICTED | reason::NODE_LOST));
    if is_final && was_evicted {
        return End::Evicted;
    }
    if is_deleted {
        match view.old_reason() {
            Some(reason::STOPPING) => return End::Asked,
            Some(reason::STOPPED_BY_OTHER) => return End::Other,
            Some(reason::EVICTED | reason::NODE_LOST) => return End::Evicted,
            _ => {}
        }
    }
    match instance.status.phase {
        InstancePhase::Succeeded => End::GuestShutdown,
        InstancePhase::Failed => End::Crashed,
        _ => End::Other,
    }
}

fn without_instance(view: &View<'_>, vm: &ObservedVirtualMachine) -> Guest {
    if view.wanted() == PowerState::Stopped {
        Guest::Off
    } else if vm.status.printable_status == "CrashLoopBackOff" {
        Guest::Ended(End::Crashed)
    } else if is_halted(vm) && view.facts.vm_is_behind {
        // It was stopped as asked, and the start is still to be written.
        starting(view)
    } else if vm.metadata.deletion_timestamp.is_some() || is_halted(vm) {
        Guest::Ended(End::Other)
    } else {
        starting(view)
    }
}

/// On its way; but a machine that crashed is not said to be well before it is.
fn starting(view: &View<'_>) -> Guest {
    let has_failed = failed_starts(view) > 0;
    if has_failed && view.old_reason() == Some(reason::CRASHED) {
        Guest::Ended(End::Crashed)
    } else {
        Guest::Starting
    }
}

/// How many starts failed in a row.
pub(super) fn failed_starts(view: &View<'_>) -> i64 {
    view.vm
        .and_then(|vm| vm.status.start_failure)
        .map_or(0, |failure| failure.consecutive_fail_count)
}

fn is_taken_away(instance: &ObservedInstance) -> bool {
    condition(&instance.status.conditions, "Ready")
        .is_some_and(|ready| ready.is_false() && ready.reason == "PodTerminating")
}

fn is_paused(instance: &ObservedInstance) -> bool {
    condition(&instance.status.conditions, "Paused").is_some_and(ObservedCondition::is_true)
}

fn is_halted(vm: &ObservedVirtualMachine) -> bool {
    let spec = vm.spec.value();
    spec.get("runStrategy").is_some_and(|run| run == "Halted")
}
