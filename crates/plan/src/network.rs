//! What is to be done for a NetworkConfiguration, and what to tell of it.
//!
//! Guaranteed:
//! - it becomes one NetworkAttachmentDefinition, which is changed only when it differs, and is gone
//!   before the NetworkConfiguration is;
//! - a definition that vanished is created again only for a NetworkConfiguration that the API server
//!   still has;
//! - while Machines are attached, it is held back from deletion, and so is its definition;
//! - a definition of the same name that is somebody else's is named, and never touched.

mod definition;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::{
    NetworkConfiguration, NetworkConfigurationStatus, Time, labels,
    multus::NetworkAttachmentDefinition,
};

use self::definition::Definition;
use crate::{
    Event,
    machine::{Action, Kind, Object, Refusal, Step, build::attachment_definition},
    managed,
};

/// Everything that is known of a NetworkConfiguration: what a decision is made from.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The NetworkConfiguration.
    pub network: &'a NetworkConfiguration,
    /// The attachment definition of its name that carries our label; whether it is this very
    /// NetworkConfiguration's is for the decision to tell.
    pub attachment: Option<&'a NetworkAttachmentDefinition>,
    /// The Machines that are attached, by name, in order.
    pub users: Vec<String>,
    /// Whether Multus' API is served.
    pub multus: bool,
    /// What the API server said to the last attempt, if that failed.
    pub refusal: Option<&'a Refusal>,
}

/// What is to be done for a NetworkConfiguration, and what to tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes, in order. After them, look and plan again.
    pub steps: Vec<Step>,
    /// The status of what was observed; the same as the NetworkConfiguration's when it need not be
    /// written.
    pub status: NetworkConfigurationStatus,
    /// What to tell people once the status is written.
    pub events: Vec<Event>,
    /// When to look again, although nothing may have changed.
    pub requeue_after: Option<Duration>,
}

/// Plans the next writes for a NetworkConfiguration.
pub fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    let definition = Definition::of(observed);
    let steps = if is_deleted(observed) {
        cleanup(observed, &definition)
    } else {
        upkeep(observed, &definition)
    };
    let (status, events) = status::tell(observed, &definition, now);
    Plan {
        steps,
        status,
        events,
        requeue_after: None,
    }
}

fn upkeep(observed: &Observed<'_>, definition: &Definition<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    match (observed.users.is_empty(), has_finalizer(observed)) {
        (false, false) => steps.push(step(Action::AddFinalizer, "Machines are attached")),
        (true, true) => steps.push(step(Action::RemoveFinalizer, "no Machine is attached")),
        _ => {}
    }
    if !observed.multus {
        return steps;
    }
    let wanted = || Object::Attachment(attachment_definition(observed.network));
    match definition {
        Definition::Missing => {
            let name = observed.network.metadata.name.as_deref();
            let message = format!(
                "NetworkAttachmentDefinition {} is made",
                name.unwrap_or_default()
            );
            steps.push(Step {
                event: Some(Event::normal("Created", message)),
                ..step(create(observed, wanted()), "the network has no definition")
            });
        }
        Definition::Differs { found, uid } => {
            let action = Action::Apply {
                object: wanted(),
                uid: (*uid).to_owned(),
                created_at: managed::created_at(&found.metadata),
            };
            steps.push(Step {
                event: put_back(observed, found),
                ..step(action, "the definition is not what it should be")
            });
        }
        Definition::AsWanted { .. } | Definition::Going | Definition::Foreign => {}
    }
    steps
}

/// A definition that a status reports is gone because somebody deleted it, or because the garbage
/// collector did after its NetworkConfiguration.
fn create(observed: &Observed<'_>, definition: Object) -> Action {
    if status::is_ready(observed) {
        Action::Recreate(definition)
    } else {
        Action::Create(definition)
    }
}

/// Who changed the definition, and what of it. A change of the NetworkConfiguration itself, whose status
/// is of an earlier generation then, is not somebody else's.
fn put_back(observed: &Observed<'_>, found: &NetworkAttachmentDefinition) -> Option<Event> {
    let status = observed.network.status.as_ref();
    let told_of = status.and_then(|status| status.observed_generation);
    if told_of != observed.network.metadata.generation {
        return None;
    }
    let fields = definition::differing(found, &attachment_definition(observed.network));
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let message = format!(
        "NetworkAttachmentDefinition {} was changed by {}: put back {}",
        found.metadata.name.as_deref().unwrap_or_default(),
        managed::changed_by(&found.metadata, &fields),
        fields.join(", ")
    );
    Some(Event::normal("PutBack", message))
}

/// The definition goes first, the NetworkConfiguration follows; neither before the last Machine.
fn cleanup(observed: &Observed<'_>, definition: &Definition<'_>) -> Vec<Step> {
    if !observed.users.is_empty() || !has_finalizer(observed) {
        return Vec::new();
    }
    match definition {
        Definition::Going => Vec::new(),
        Definition::AsWanted { found, uid } | Definition::Differs { found, uid } => {
            let action = Action::Delete {
                kind: Kind::NetworkAttachmentDefinition,
                name: found.metadata.name.clone().unwrap_or_default(),
                uid: (*uid).to_owned(),
                resource_version: None,
            };
            vec![step(action, "the network is being deleted")]
        }
        Definition::Missing | Definition::Foreign => {
            vec![step(Action::RemoveFinalizer, "nothing is left of it")]
        }
    }
}

fn step(action: Action, reason: &str) -> Step {
    Step {
        action,
        reason: reason.to_owned(),
        event: None,
    }
}

fn is_deleted(observed: &Observed<'_>) -> bool {
    observed.network.metadata.deletion_timestamp.is_some()
}

fn has_finalizer(observed: &Observed<'_>) -> bool {
    let finalizers = observed.network.metadata.finalizers.as_deref();
    finalizers
        .unwrap_or_default()
        .iter()
        .any(|finalizer| finalizer == labels::NETWORK_FINALIZER)
}
