//! Readiness of a running instance, from its `Ready` condition.
//!
//! virt-controller copies the `Ready` condition of the launcher pod. When a node becomes unreachable, the
//! node lifecycle controller sets that condition to False with an empty reason, and the instance stays in
//! phase Running; a kubelet always sets a reason. So the condition distinguishes a lost node from a guest
//! that is not ready, without the right to read nodes.

use std::time::Duration;

use api::{ObservedCondition, condition, kubevirt::ObservedInstance};
use k8s_openapi::jiff::SignedDuration;

use super::{failure::GRACE_PERIOD, reason, view::View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Also for an instance without the condition.
    Ready,
    /// virt-controller has not observed the running guest yet.
    Unconfirmed,
    /// Not ready within the grace period, with the time that is left of it.
    Settling(Duration),
    NotReady,
    NodeLost,
}

impl Readiness {
    pub(super) fn of(view: &View<'_>, instance: &ObservedInstance) -> Self {
        let Some(ready) = ready_condition(instance).filter(|ready| !ready.is_true()) else {
            return Self::Ready;
        };
        if ready.reason == "GuestNotRunning" {
            return Self::Unconfirmed;
        }
        let since = ready.last_transition_time.as_ref();
        let left = since.map_or(SignedDuration::ZERO, |since| {
            let elapsed = view.input.now.0.duration_since(since.0);
            GRACE_PERIOD.saturating_sub(elapsed).min(GRACE_PERIOD)
        });
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() && !is_reported(view) => Self::Settling(left),
            _ if ready.reason.is_empty() => Self::NodeLost,
            _ => Self::NotReady,
        }
    }
}

/// KubeVirt's explanation of why the instance is not ready.
pub(super) fn explanation(instance: &ObservedInstance) -> Option<&str> {
    let ready = ready_condition(instance)?;
    [&ready.message, &ready.reason]
        .into_iter()
        .find(|message| !message.is_empty())
        .map(String::as_str)
}

/// Whether it was reported as not ready: another reason does not make it ready.
fn is_reported(view: &View<'_>) -> bool {
    matches!(
        view.old_reason(),
        Some(reason::NODE_LOST | reason::GUEST_NOT_READY)
    )
}

fn ready_condition(instance: &ObservedInstance) -> Option<&ObservedCondition> {
    condition(&instance.status.conditions, "Ready")
}
