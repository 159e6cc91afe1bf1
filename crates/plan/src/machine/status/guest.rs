//! State of the guest, and who stopped it.

use api::{
    ObservedCondition, Phase, PowerState, condition,
    kubevirt::{InstancePhase, ObservedInstance, ObservedVirtualMachine},
};

use super::{super::plan::never_started, readiness::Readiness, reason, view::View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guest {
    /// There is no VirtualMachine.
    Absent,
    Starting,
    Running,
    /// It runs, and KubeVirt reports that it is not ready.
    NotReady,
    Paused,
    /// Its node is unreachable.
    Lost,
    Stopping {
        cause: StopCause,
        /// Whether it was running.
        up: bool,
    },
    /// It is stopped although it should run.
    Ended(StopCause),
    /// It is stopped as requested.
    Off,
}

/// Why a guest stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// The Machine requests it.
    Requested,
    /// It was shut down from inside the guest.
    GuestShutdown,
    /// Someone stopped it without changing the Machine.
    Other,
    /// Its node is being drained.
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

    /// The phase of a Machine with this guest. A machine that ran before is starting, not Creating.
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
            Self::Ended(StopCause::Crashed) => Phase::Failed,
            Self::Absent | Self::Starting | Self::Stopping { .. } | Self::Ended(_) | Self::Off => {
                Phase::Stopped
            }
        }
    }
}

fn of_instance(view: &View<'_>, instance: &ObservedInstance) -> Guest {
    let status = &instance.status;
    let should_stop = view.desired_power_state() == PowerState::Stopped;
    let is_terminating = instance.metadata.deletion_timestamp.is_some();
    let up = status.phase == InstancePhase::Running;
    match status.phase {
        phase if phase.is_final() && should_stop => Guest::Off,
        phase if phase.is_final() => match end_of(view, instance, is_terminating) {
            StopCause::Requested => Guest::Starting,
            cause => Guest::Ended(cause),
        },
        _ if should_stop => Guest::Stopping {
            cause: StopCause::Requested,
            up,
        },
        // An evicted or deleted pod stays on a node that is unreachable.
        InstancePhase::Running
            if view.old_reason() == Some(reason::NODE_LOST)
                && (is_terminating || is_pod_terminating(instance)) =>
        {
            Guest::Lost
        }
        // No guest stops with it, and KubeVirt creates the next one from the VirtualMachine.
        _ if is_terminating && never_started(instance) => starting(view),
        _ if is_terminating => Guest::Stopping {
            cause: end_of(view, instance, is_terminating),
            up,
        },
        // No one deleted the instance, but its pod is terminating.
        InstancePhase::Running if is_pod_terminating(instance) => Guest::Stopping {
            cause: StopCause::Evicted,
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

/// Who stops an instance that should run. KubeVirt deletes an instance that ended by itself, and reports a
/// deleted one as Failed, so the reason that was reported first is kept while the instance terminates.
fn end_of(view: &View<'_>, instance: &ObservedInstance, is_terminating: bool) -> StopCause {
    if view.is_ended_by_operator(instance) {
        return StopCause::Requested;
    }
    if instance.status.evacuation_node_name.is_some() {
        return StopCause::Evicted;
    }
    if view.is_halted_by_other(instance) {
        return StopCause::Other;
    }
    // A guest whose pod is evicted shuts down like one that is shut down from inside.
    let is_final = instance.status.phase.is_final();
    let was_evicted = matches!(view.old_reason(), Some(reason::EVICTED | reason::NODE_LOST));
    if is_final && was_evicted {
        return StopCause::Evicted;
    }
    if is_terminating {
        match view.old_reason() {
            Some(reason::STOPPING) => return StopCause::Requested,
            Some(reason::STOPPED_BY_OTHER) => return StopCause::Other,
            Some(reason::EVICTED | reason::NODE_LOST) => return StopCause::Evicted,
            _ => {}
        }
    }
    match instance.status.phase {
        InstancePhase::Succeeded => StopCause::GuestShutdown,
        InstancePhase::Failed => StopCause::Crashed,
        _ => StopCause::Other,
    }
}

fn without_instance(view: &View<'_>, vm: &ObservedVirtualMachine) -> Guest {
    if view.desired_power_state() == PowerState::Stopped {
        Guest::Off
    } else if vm.status.printable_status == "CrashLoopBackOff" {
        Guest::Ended(StopCause::Crashed)
    } else if is_halted(vm) && view.input.vm_is_outdated {
        // It was stopped as requested, and the start has not been written yet.
        starting(view)
    } else if vm.metadata.deletion_timestamp.is_some() || is_halted(vm) {
        Guest::Ended(StopCause::Other)
    } else {
        starting(view)
    }
}

/// Starting, unless the last start crashed: that is reported until a start succeeds.
fn starting(view: &View<'_>) -> Guest {
    let has_failed = failed_starts(view) > 0;
    if has_failed && view.old_reason() == Some(reason::CRASHED) {
        Guest::Ended(StopCause::Crashed)
    } else {
        Guest::Starting
    }
}

/// Number of consecutive failed starts.
pub(super) fn failed_starts(view: &View<'_>) -> i64 {
    view.vm
        .and_then(|vm| vm.status.start_failure)
        .map_or(0, |failure| failure.consecutive_fail_count)
}

fn is_pod_terminating(instance: &ObservedInstance) -> bool {
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
