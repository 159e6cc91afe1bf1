//! The `Ready` condition, which summarizes the others, and the target phase.

use api::{Phase, condition};

use super::{
    super::ErrorType,
    addresses::MAX_ADDRESSES,
    failure::{Failure, Failures},
    guest::{Guest, StopCause, failed_starts},
    part_conditions, readiness, reason,
    view::View,
    volumes,
};

/// Value of the `Ready` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadyReport {
    pub(super) ready: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl ReadyReport {
    pub(super) fn not_ready(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            ready: false,
            reason,
            message: message.into(),
        }
    }
}

/// The target phase, which may need several transitions, and the `Ready` condition.
///
/// Failures take precedence over the state of the guest, but an invalid spec does not turn a running guest
/// into a failed one.
pub(super) fn evaluate(view: &View<'_>, guest: Guest, failures: &Failures) -> (Phase, ReadyReport) {
    let phase = guest.phase(view.has_run());
    match failures.all.first() {
        Some(failure) => (phase_of_failure(view, phase), of_failure(failure)),
        None if is_stopped_by_removal(view, guest) => {
            let nothing_yet = guest == Guest::Absent && !was_created(view);
            let phase = if nothing_yet { Phase::Pending } else { phase };
            let ready = ReadyReport::not_ready(
                reason::KUBEVIRT_BEING_REMOVED,
                super::kubevirt_is_removed(),
            );
            (phase, ready)
        }
        None => (phase, of_guest(view, guest, phase)),
    }
}

/// Whether a guest that should run does not, because KubeVirt is being removed.
fn is_stopped_by_removal(view: &View<'_>, guest: Guest) -> bool {
    let is_up_or_stopped = matches!(
        guest,
        Guest::Running
            | Guest::NotReady
            | Guest::Paused
            | Guest::Lost
            | Guest::Off
            | Guest::Stopping {
                cause: StopCause::Requested,
                ..
            }
    );
    view.input.observed.installed.kubevirt_is_removed && !is_up_or_stopped
}

fn of_failure(failure: &Failure) -> ReadyReport {
    ReadyReport::not_ready(failure.error_type.as_str(), failure.message.clone())
}

fn phase_of_failure(view: &View<'_>, phase: Phase) -> Phase {
    let observed = view.input.observed;
    let only_kubevirt_is_missing =
        view.input.resolved.machine().is_some() && !observed.installed.kubevirt;
    match phase {
        Phase::Running => Phase::Running,
        _ if only_kubevirt_is_missing && !was_created(view) => Phase::Pending,
        _ => Phase::Failed,
    }
}

/// Whether a VirtualMachine or its disks were created before. A Machine that failed because KubeVirt was
/// missing had some.
fn was_created(view: &View<'_>) -> bool {
    let is_known_to_be = view.old_reason() == Some(ErrorType::KubeVirtApiError.as_str());
    view.old.is_some_and(|old| match old.phase {
        None | Some(Phase::Pending) => false,
        Some(Phase::Failed) => is_known_to_be || old.vm_name.is_some(),
        Some(Phase::Creating | Phase::Running | Phase::Stopped) => true,
    })
}

fn of_guest(view: &View<'_>, guest: Guest, phase: Phase) -> ReadyReport {
    let no = |reason, message: &str| ReadyReport::not_ready(reason, message);
    match guest {
        Guest::Absent | Guest::Starting => on_its_way(view, guest, phase),
        Guest::Running => ReadyReport {
            ready: true,
            reason: reason::RUNNING,
            message: runs_on(view),
        },
        Guest::Paused => no(reason::PAUSED, &paused(view)),
        Guest::NotReady => no(reason::GUEST_NOT_READY, &not_ready(view)),
        Guest::Lost => no(reason::NODE_LOST, &node_lost(view)),
        Guest::Stopping { cause, .. } => match cause {
            StopCause::Requested => {
                no(reason::STOPPING, "the guest is shutting down, as requested")
            }
            StopCause::Evicted => no(
                reason::EVICTED,
                "the guest is shutting down, because its pod is evicted, as by a drain of its node; \
                 KubeVirt starts it again on another node",
            ),
            StopCause::GuestShutdown | StopCause::Other | StopCause::Crashed => no(
                reason::STOPPED_BY_OTHER,
                "another client is stopping the guest although spec.powerState is not Stopped; \
                 KubeVirt starts it again: set spec.powerState to Stopped to stop it",
            ),
        },
        Guest::Ended(cause) => match cause {
            StopCause::Requested | StopCause::Other => no(
                reason::STOPPED_BY_OTHER,
                "another client stopped the guest although spec.powerState is not Stopped; \
                 KubeVirt starts it again: set spec.powerState to Stopped to stop it",
            ),
            StopCause::GuestShutdown => no(
                reason::GUEST_SHUTDOWN,
                "the guest shut itself down; KubeVirt starts it again: set spec.powerState to Stopped \
                 to stop it",
            ),
            StopCause::Evicted => no(
                reason::EVICTED,
                "the guest was stopped, because its pod was evicted, as by a drain of its node; \
                 KubeVirt starts it again on another node",
            ),
            StopCause::Crashed => no(reason::CRASHED, &crashed(view)),
        },
        Guest::Off => no(reason::STOPPED, "the machine is stopped, as requested"),
    }
}

fn on_its_way(view: &View<'_>, guest: Guest, phase: Phase) -> ReadyReport {
    let (reason, usual) = match (phase, guest) {
        (Phase::Creating, Guest::Absent) => (
            reason::CREATING,
            "the operator is creating the virtual machine",
        ),
        (Phase::Creating, _) => (
            reason::CREATING,
            "the VirtualMachine is created, the guest is starting",
        ),
        (_, Guest::Absent) => (
            reason::STARTING,
            "the operator is recreating the VirtualMachine",
        ),
        _ => (reason::STARTING, "the guest is starting"),
    };
    let reason = volumes::unfilled(view).map_or(reason, |unfilled| unfilled.reason);
    let refusal = view.input.observed.refusal;
    let machine = view.input.resolved.machine();
    let message = waiting_for(view)
        .or_else(|| refusal.map(|refusal| refusal.message.clone()))
        .or_else(|| machine.and_then(|machine| part_conditions::unbound(view, machine)))
        .unwrap_or_else(|| usual.to_owned());
    ReadyReport::not_ready(reason, message)
}

/// The obstacles, as one message.
pub(super) fn waiting_for(view: &View<'_>) -> Option<String> {
    let obstacles = view.input.obstacles.iter();
    let messages: Vec<&str> = obstacles
        .map(|obstacle| obstacle.message.as_str())
        .collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn node_of<'a>(view: &View<'a>) -> Option<&'a str> {
    view.instance.and_then(|it| it.status.node_name.as_deref())
}

fn runs_on(view: &View<'_>) -> String {
    let runs = match node_of(view) {
        Some(node) => format!("Running on {node}"),
        None => "Running".to_owned(),
    };
    match super::collect_addresses(view, view.instance) {
        Some(addresses) if addresses.has_more => format!(
            "{runs}; the guest reports more than {MAX_ADDRESSES} IP addresses: status.ipAddresses \
             has the first {MAX_ADDRESSES}"
        ),
        _ => runs,
    }
}

fn not_ready(view: &View<'_>) -> String {
    let place = node_of(view).map_or(String::new(), |node| format!(" on {node}"));
    match view.instance.and_then(readiness::explanation) {
        Some(message) => {
            format!("the guest runs{place}, but KubeVirt reports it as not ready: {message}")
        }
        None => format!("the guest runs{place}, but KubeVirt reports it as not ready"),
    }
}

fn node_lost(view: &View<'_>) -> String {
    let node = node_of(view).unwrap_or_default();
    format!(
        "Node {node:?} does not answer, and the guest may still run there: repair the node; or, \
         once it is powered off, taint it with node.kubernetes.io/out-of-service:NoExecute, and \
         KubeVirt starts the guest on another node"
    )
}

fn paused(view: &View<'_>) -> String {
    let conditions = view.instance.map(|it| it.status.conditions.as_slice());
    let message = condition(conditions.unwrap_or_default(), "Paused").map(|it| it.message.as_str());
    match (view.desired_power_state(), message) {
        (api::PowerState::Paused, _) => "the guest is paused, as requested".to_owned(),
        (_, Some(message)) if !message.is_empty() => {
            format!("the guest is paused, though spec.powerState says otherwise: {message}")
        }
        _ => "the guest is paused, though spec.powerState says otherwise".to_owned(),
    }
}

fn crashed(view: &View<'_>) -> String {
    match failed_starts(view) {
        ..=1 => "the guest crashed, or could not start; KubeVirt starts it again".to_owned(),
        times => {
            format!("the guest failed to start {times} times in a row; KubeVirt starts it again")
        }
    }
}
