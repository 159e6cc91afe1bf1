//! DataVolumes that CDI fails to create or fill.
//!
//! CDI reports a failed attempt in the condition `Running` (False, with the importer's message) and an
//! object that it cannot create in the condition `Bound`. During the next attempt, `Running` is True
//! again: the failure stays reported until the volume is filled.

use api::{
    ObservedCondition,
    cdi::{DataVolumePhase, ObservedDataVolume},
    condition,
};

use super::{reason, view::View};
use crate::upstream_messages::UnboundCause;

/// Disks that are not filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfilled {
    /// Reason of the first one.
    pub(super) reason: &'static str,
    /// All of them, with CDI's messages.
    pub(super) message: String,
    /// Whether CDI is retrying all of them.
    pub(super) is_retrying: bool,
}

/// The failures that CDI reports for the Machine's volumes.
pub(super) fn unfilled(view: &View<'_>) -> Option<Unfilled> {
    let mut found: Option<Unfilled> = None;
    for volume in view.attached_volumes() {
        let Some((reason, message, is_retrying)) = problem(view, volume) else {
            continue;
        };
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let message = format!("DataVolume {name}: {message}");
        match &mut found {
            None => {
                found = Some(Unfilled {
                    reason,
                    message,
                    is_retrying,
                });
            }
            Some(found) => {
                found.message = format!("{}; {message}", found.message);
                found.is_retrying &= is_retrying;
            }
        }
    }
    found
}

/// Reason, message, and whether CDI is retrying.
fn problem(view: &View<'_>, volume: &ObservedDataVolume) -> Option<(&'static str, String, bool)> {
    let status = &volume.status;
    if matches!(
        status.phase,
        DataVolumePhase::Succeeded | DataVolumePhase::Failed
    ) {
        return None;
    }
    let failed = if status.phase.is_clone() {
        reason::CLONE_FAILED
    } else {
        reason::IMPORT_FAILED
    };
    let restarts = match status.restart_count {
        ..=0 => String::new(),
        count => format!(" (restarts: {count})"),
    };
    let running = condition(&status.conditions, "Running");
    if let Some(running) = running.filter(|running| is_failed_attempt(running)) {
        let message = format!(
            "cannot be filled, CDI tries again{restarts}: {}",
            running.message
        );
        return Some((failed, message, false));
    }
    let unbound = condition(&status.conditions, "Bound").filter(|bound| bound.is_false());
    if let Some(bound) = unbound {
        let reason = match UnboundCause::of(bound) {
            UnboundCause::Pending => None,
            UnboundCause::SourceNotFound => Some(reason::SOURCE_NOT_FOUND),
            UnboundCause::NotCreated => Some(reason::DISK_NOT_CREATED),
        };
        if let Some(reason) = reason {
            return Some((reason, bound.message.clone(), false));
        }
    }
    let has_failed = status.restart_count > 0 || view.old_reason() == Some(failed);
    let is_retried = has_failed && running.is_some_and(ObservedCondition::is_true);
    is_retried.then(|| (failed, format!("is being retried{restarts}"), true))
}

fn is_failed_attempt(running: &ObservedCondition) -> bool {
    running.is_false() && matches!(running.reason.as_str(), "Error" | "ImagePullFailed")
}
