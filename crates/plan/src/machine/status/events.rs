//! Events about status changes. They follow from the change, so repeating a plan does not repeat them.

use api::{MachineStatus, Phase};

use super::{ready::ReadyReport, reason};
use crate::{
    Event,
    conditions::{bounded, find},
};

pub(super) fn events(
    old: Option<&MachineStatus>,
    old_reason: Option<&str>,
    new: &MachineStatus,
    ready: &ReadyReport,
) -> Vec<Event> {
    let mut events = Vec::new();
    if old_reason != Some(ready.reason) {
        events.extend(of_reason(ready));
    }
    let in_use = disk_in_use(Some(new)).filter(|_| disk_in_use(old).is_none());
    let in_use = in_use.map(|message| Event::warning(reason::DISK_IN_USE, message));
    match (old.and_then(|old| old.phase), new.phase) {
        (Some(Phase::Failed), Some(Phase::Failed)) => {}
        (Some(Phase::Failed), _) if events.is_empty() => {
            events.push(Event::normal("Recovered", bounded(ready.message.clone())));
        }
        (was, Some(Phase::Running)) if was != Some(Phase::Running) => {
            let message = match &new.node_name {
                Some(node) => format!("Running on {node}"),
                None => "Running".to_owned(),
            };
            events.push(Event::normal("Started", message));
        }
        (_, Some(Phase::Running)) if ready.ready && was_unready(old_reason) => {
            events.push(Event::normal("Recovered", bounded(ready.message.clone())));
        }
        _ => {}
    }
    events.extend(in_use);
    events
}

/// The Event for a MAC address that another Machine requests as well, once.
pub(super) fn shared_address(old: Option<&MachineStatus>, new: &MachineStatus) -> Option<Event> {
    let shared = |status: &MachineStatus| {
        let conditions = status.conditions.as_deref();
        find(conditions, reason::MAC_ADDRESS_SHARED).map(|shared| shared.message.clone())
    };
    let message = shared(new)?;
    let is_new = old.and_then(shared).is_none();
    is_new.then(|| Event::warning(reason::MAC_ADDRESS_SHARED, bounded(message)))
}

/// The Event for a deletion that is blocked, once.
pub(super) fn blocked_deletion(old: Option<&MachineStatus>, new: &MachineStatus) -> Option<Event> {
    let message = |status: &MachineStatus| {
        let conditions = status.conditions.as_deref();
        find(conditions, reason::DELETION_BLOCKED).map(|condition| condition.message.clone())
    };
    let now = message(new)?;
    let is_new = old.and_then(message).is_none();
    is_new.then(|| Event::warning(reason::DELETION_BLOCKED, now))
}

/// The Event for annotations without effect, once.
pub(super) fn ignored_annotations(
    old: Option<&MachineStatus>,
    new: &MachineStatus,
) -> Option<Event> {
    let message = |status: &MachineStatus| {
        let conditions = status.conditions.as_deref();
        find(conditions, reason::ANNOTATIONS_VALID).map(|condition| condition.message.clone())
    };
    let now = message(new)?;
    let is_new = old.and_then(message).as_ref() != Some(&now);
    is_new.then(|| Event::warning("AnnotationIgnored", now))
}

fn was_unready(old_reason: Option<&str>) -> bool {
    matches!(
        old_reason,
        Some(
            reason::NODE_LOST
                | reason::GUEST_NOT_READY
                | reason::CLUSTER_UNKNOWN
                | reason::CLUSTER_UNREACHABLE
        )
    )
}

/// The message about a disk that cannot be deleted because it is in use.
fn disk_in_use(status: Option<&MachineStatus>) -> Option<String> {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let storage = find(conditions, reason::STORAGE_READY)?;
    (storage.reason == reason::DISK_IN_USE).then(|| storage.message.clone())
}

fn of_reason(ready: &ReadyReport) -> Option<Event> {
    let message = bounded(ready.message.clone());
    match ready.reason {
        reason::CREATING
        | reason::STARTING
        | reason::RUNNING
        | reason::PAUSED
        | reason::STOPPING
        | reason::DELETING => None,
        reason::STOPPED | reason::GUEST_SHUTDOWN => Some(Event::normal(ready.reason, message)),
        _ => Some(Event::warning(ready.reason, message)),
    }
}
