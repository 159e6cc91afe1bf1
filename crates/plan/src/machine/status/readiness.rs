//! Readiness of a running instance: KubeVirt's `Ready` condition of it.
//!
//! virt-controller copies the `Ready` condition of the launcher pod. On a node that stops answering
//! the node lifecycle controller turns that condition to False and leaves its reason empty, while
//! the instance stays in phase Running; a kubelet always gives a reason. So the condition tells a
//! lost node from a guest that is not ready, without a right to read nodes.

use std::time::Duration;

use api::{ObservedCondition, condition, kubevirt::ObservedInstance};
use k8s_openapi::jiff::SignedDuration;

use super::{failure::GRACE, reason, view::View};

/// Readiness of an instance in phase Running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It is ready. An instance without the condition counts as ready.
    Ready,
    /// virt-controller has not yet observed that the guest runs.
    Unconfirmed,
    /// It has not been ready for less than the grace period, of which so much is left.
    Settling(Duration),
    /// It is not ready.
    NotReady,
    /// Its node does not answer.
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
            let elapsed = view.facts.now.0.duration_since(since.0);
            GRACE.saturating_sub(elapsed).min(GRACE)
        });
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() && !is_reported(view) => Self::Settling(left),
            _ if ready.reason.is_empty() => Self::NodeLost,
            _ => Self::NotReady,
        }
    }
}

/// The instance's own words for why it is not ready.
pub(super) fn explanation(instance: &ObservedInstance) -> Option<&str> {
    let ready = ready_condition(instance)?;
    [&ready.message, &ready.reason]
        .into_iter()
        .find(|words| !words.is_empty())
        .map(String::as_str)
}

/// An instance that was reported as not ready does not become ready by another reason for it.
fn is_reported(view: &View<'_>) -> bool {
    matches!(
        view.old_reason(),
        Some(reason::NODE_LOST | reason::GUEST_NOT_READY)
    )
}

fn ready_condition(instance: &ObservedInstance) -> Option<&ObservedCondition> {
    condition(&instance.status.conditions, "Ready")
}
