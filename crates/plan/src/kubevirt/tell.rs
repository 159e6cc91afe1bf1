//! What people are told besides the status.

use api::kubevirt::install::{InstallPhase, KubeVirtStatus};

use super::{
    action::{Action, Step},
    progress,
    ready::TROUBLE,
    stages::HELD,
    status,
};
use crate::Event;

/// What is worth an Event of the way from one status to the next. As the status is written once, so
/// is it told once.
pub(super) fn events(old: Option<&KubeVirtStatus>, new: Option<&KubeVirtStatus>) -> Vec<Event> {
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
    if new.target_deployment_id.as_ref() != was(|old| &old.target_deployment_id)
        && new.observed_deployment_id != new.target_deployment_id
    {
        let message = status::message(Some(new), "Available");
        events.push(Event::normal("DeploymentStarted", message));
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
    // Figures change all the time.
    if (message.contains(TROUBLE) || message.contains(HELD))
        && !progress::is_same_but_for_figures(message, before)
    {
        events.push(Event::warning("Waiting", message));
    }
    for type_ in ["Degraded", "Synchronized"] {
        let now = reason(Some(new), type_);
        let message = status::message(Some(new), type_);
        let word = match now.as_deref() {
            Some("Stalled") => "Stalled",
            Some("RolloutFailed") => "FailedUpdate",
            Some("RolledBack") => "RolledBack",
            Some("DeletionFailed") => "DeletionFailed",
            Some("ExistingDeployment") => "ExistingDeployment",
            Some("DeploymentFailed") if type_ == "Degraded" => "DeploymentFailed",
            _ => continue,
        };
        let is_new = reason(old, type_) != now
            || (word == "DeploymentFailed" && status::message(old, type_) != message);
        if is_new {
            events.push(Event::warning(word, message));
        }
    }
    let notes = |status| status::message(status, "Available").split_once(". Note that ");
    if let Some((_, note)) = notes(Some(new))
        && notes(old).map(|(_, note)| note) != Some(note)
    {
        events.push(Event::warning("Noted", format!("Note that {note}")));
    }
    match (old.and_then(|old| old.phase), new.phase) {
        (old, Some(InstallPhase::Deleting)) if old != Some(InstallPhase::Deleting) => {
            events.push(Event::normal("DeletionStarted", "KubeVirt is removed"));
        }
        (old, Some(InstallPhase::Deleted)) if old != Some(InstallPhase::Deleted) => {
            events.push(Event::normal(
                "Deleted",
                "KubeVirt is removed, and nothing is left",
            ));
        }
        _ => {}
    }
    events
}

/// What is put back is told, since somebody has changed it.
pub(super) fn repairs(steps: &mut [Step]) {
    for step in steps {
        if let Action::Apply { object, .. } = &step.action {
            let message = format!("{} is put back: {}", object.id, step.reason);
            step.event = Some(Event::normal("PutBack", message));
        }
    }
}
