//! Kubernetes Events of an installation.
//!
//! Events follow changes of the status: a status is written once, so each Event is sent once.

use api::kubevirt::install::{InstallPhase, KubeVirtStatus};

use super::{
    action::{Action, Step},
    progress, status,
};
use crate::{Event, conditions::bounded};

/// Parts of a report that no condition holds in a form that programs can read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Details<'a> {
    /// Whether the message of `Progressing` names a pod's problem or finalizers.
    pub(super) is_blocked: bool,
    /// Notes in the message of `Available`.
    pub(super) notes: &'a [String],
}

/// The Events of a change from one status to the next. No Events without a new status.
pub(super) fn of_status_change(
    old: Option<&KubeVirtStatus>,
    new: Option<&KubeVirtStatus>,
    details: Details<'_>,
) -> Vec<Event> {
    let Some(new) = new else {
        return Vec::new();
    };
    let mut events = Vec::new();
    let was =
        |field: fn(&KubeVirtStatus) -> &Option<String>| old.and_then(|old| field(old).as_ref());
    let reason = |status: Option<&KubeVirtStatus>, type_: &str| {
        let conditions = status.and_then(|status| status.conditions.clone());
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let condition = conditions.find(|condition| condition.type_ == type_);
        condition.and_then(|condition| condition.reason)
    };
    let available = status::message(Some(new), "Available");
    if new.target_deployment_id.as_ref() != was(|old| &old.target_deployment_id)
        && new.observed_deployment_id != new.target_deployment_id
    {
        events.push(Event::normal("DeploymentStarted", available));
    }
    if new.observed_deployment_id.as_ref() != was(|old| &old.observed_deployment_id) {
        let version = new
            .observed_kube_virt_version
            .as_deref()
            .unwrap_or_default();
        let message = format!("Version {version} is deployed");
        events.push(Event::normal("Deployed", message));
    }
    let message = status::message(Some(new), "Progressing");
    let before = status::message(old, "Progressing");
    // Counts of ready pods change all the time.
    if details.is_blocked && !progress::is_same_but_for_numbers(message, before) {
        events.push(Event::warning("Waiting", message));
    }
    for type_ in ["Degraded", "Synchronized"] {
        let now = reason(Some(new), type_);
        let message = status::message(Some(new), type_);
        let event = match now.as_deref() {
            Some("Stalled") => "Stalled",
            Some("RolloutFailed") => "FailedUpdate",
            Some("RolledBack") => "RolledBack",
            Some("DeletionFailed") => "DeletionFailed",
            Some("ExistingDeployment") => "ExistingDeployment",
            Some("DeploymentFailed") if type_ == "Degraded" => "DeploymentFailed",
            _ => continue,
        };
        let is_new = reason(old, type_) != now
            || (event == "DeploymentFailed" && status::message(old, type_) != message);
        if is_new {
            events.push(Event::warning(event, message));
        }
    }
    if !details.notes.is_empty() && status::message(old, "Available") != available {
        let notes = bounded(status::join_notes(details.notes));
        events.push(Event::warning("InstallationWarning", notes));
    }
    match (old.and_then(|old| old.phase), new.phase) {
        (old, Some(InstallPhase::Deleting)) if old != Some(InstallPhase::Deleting) => {
            events.push(Event::normal("DeletionStarted", "Removing KubeVirt"));
        }
        (old, Some(InstallPhase::Deleted)) if old != Some(InstallPhase::Deleted) => {
            events.push(Event::normal("Deleted", "KubeVirt has been removed"));
        }
        _ => {}
    }
    events
}

/// Adds an Event to each apply: someone else has changed the object.
pub(super) fn add_repairs(steps: &mut [Step]) {
    for step in steps {
        if let Action::Apply { object, .. } = &step.action {
            let message = format!("Restored {}: {}", object.id, step.reason);
            step.event = Some(Event::normal("DriftCorrected", message));
        }
    }
}
