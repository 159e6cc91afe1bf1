//! Reconcile planner for NetworkConfigurations.
//!
//! Guarantees:
//! - each has one NetworkAttachmentDefinition, which is written only if it differs, and is deleted before
//!   the NetworkConfiguration;
//! - a missing definition is created again only after a live read of the NetworkConfiguration;
//! - while Machines are attached, neither of them is deleted;
//! - one without a provider is marked as this operator's, so that operators that allocate addresses skip it;
//! - a foreign definition of the same name is reported and never changed.

mod definition;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::{
    NETWORK_PROVIDER, NetworkConfiguration, NetworkConfigurationStatus, Time, labels,
    multus::NetworkAttachmentDefinition,
};

use self::definition::Definition;
pub(crate) use self::definition::same_json;
use crate::{
    Event,
    machine::{Action, Kind, Object, Refusal, Step, build::attachment_definition},
    managed,
    served_fields::ServedFields,
};

/// Observed state of a NetworkConfiguration: the input of a plan.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub network: &'a NetworkConfiguration,
    /// The attachment definition with its name and our label. The plan decides whether it belongs to this
    /// NetworkConfiguration.
    pub attachment: Option<&'a NetworkAttachmentDefinition>,
    /// Sorted names of the attached Machines.
    pub users: Vec<String>,
    pub multus: bool,
    /// Fields that the API server stores.
    pub served: ServedFields,
    /// The failure of the last attempt, if it failed.
    pub refusal: Option<&'a Refusal>,
}

/// Next actions and status of a NetworkConfiguration.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Actions, in order. The NetworkConfiguration is reconciled again after them.
    pub steps: Vec<Step>,
    /// Equal to the current status if no status write is needed.
    pub status: NetworkConfigurationStatus,
    /// Events to record after the status write.
    pub events: Vec<Event>,
    /// Requeue delay, for changes that come with time alone.
    pub requeue_after: Option<Duration>,
}

pub fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    if !is_managed(observed.network) {
        return Plan {
            steps: Vec::new(),
            status: observed.network.status.clone().unwrap_or_default(),
            events: Vec::new(),
            requeue_after: None,
        };
    }
    let definition = Definition::of(observed);
    let steps = if is_terminating(observed) {
        cleanup(observed, &definition)
    } else {
        reconcile(observed, &definition)
    };
    let (status, events) = status::report(observed, &definition, now);
    Plan {
        steps,
        status,
        events,
        requeue_after: None,
    }
}

/// Whether the operator acts on a NetworkConfiguration: one with a bridge, or one that has the operator's
/// finalizer and is being deleted. Others record addresses for other operators.
pub fn is_managed(network: &NetworkConfiguration) -> bool {
    network.is_network()
        || network.metadata.deletion_timestamp.is_some() && carries_finalizer(network)
}

fn reconcile(observed: &Observed<'_>, definition: &Definition<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = own_fields(observed).into_iter().collect();
    if observed.users.is_empty() && has_finalizer(observed) {
        steps.push(step(Action::RemoveFinalizer, "no Machine is attached"));
    }
    if !observed.multus {
        return steps;
    }
    let Some(desired) = attachment_definition(observed.network) else {
        return steps;
    };
    match definition {
        Definition::Missing => {
            let name = observed.network.metadata.name.as_deref();
            let message = format!(
                "Created NetworkAttachmentDefinition {}",
                name.unwrap_or_default()
            );
            steps.push(Step {
                event: Some(Event::normal("Created", message)),
                ..step(
                    create(observed, Object::Attachment(desired)),
                    "the network has no definition",
                )
            });
        }
        Definition::Differs { found, uid } => {
            let action = Action::Apply {
                object: Object::Attachment(desired.clone()),
                uid: (*uid).to_owned(),
                created_at: managed::created_at(&found.metadata),
            };
            steps.push(Step {
                event: repair_event(observed, found, &desired),
                ..step(action, "the definition differs from the desired one")
            });
        }
        Definition::UpToDate { .. } | Definition::Terminating | Definition::Foreign => {}
    }
    steps
}

/// Writes the finalizer and the provider that are missing. An apply has all fields that the operator owns.
/// A provider that a user gave stays.
fn own_fields(observed: &Observed<'_>) -> Option<Step> {
    let provider = observed.network.spec.provider.as_deref();
    let is_unmarked =
        observed.served.has_network_provider() && provider.unwrap_or_default().is_empty();
    let has_finalizer = has_finalizer(observed);
    let is_unprotected = !observed.users.is_empty() && !has_finalizer;
    let reason = match (is_unprotected, is_unmarked) {
        (true, _) => "Machines are attached",
        (false, true) => "operators that allocate addresses skip networks of other providers",
        (false, false) => return None,
    };
    let action = Action::ApplyNetwork {
        with_finalizer: has_finalizer || is_unprotected,
        with_provider: is_unmarked || provider == Some(NETWORK_PROVIDER),
    };
    Some(step(action, reason))
}

/// If the status reports a definition that is missing, someone deleted it, or the garbage collector did
/// after the NetworkConfiguration was deleted.
fn create(observed: &Observed<'_>, definition: Object) -> Action {
    if status::is_ready(observed) {
        Action::Recreate(definition)
    } else {
        Action::Create(definition)
    }
}

/// The Event about tampering with the definition. An outdated status means that the NetworkConfiguration
/// itself has changed.
fn repair_event(
    observed: &Observed<'_>,
    found: &NetworkAttachmentDefinition,
    desired: &NetworkAttachmentDefinition,
) -> Option<Event> {
    let status = observed.network.status.as_ref();
    let observed_generation = status.and_then(|status| status.observed_generation);
    if observed_generation != observed.network.metadata.generation {
        return None;
    }
    let fields = definition::differing(found, desired);
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let message = managed::repaired(
        &managed::changed_by(&found.metadata, &fields),
        &format!(
            "NetworkAttachmentDefinition {}",
            found.metadata.name.as_deref().unwrap_or_default()
        ),
        &fields.join(", "),
    );
    Some(Event::normal("DriftCorrected", message))
}

/// Deletes the definition, then removes the finalizer, both after the last Machine is gone.
fn cleanup(observed: &Observed<'_>, definition: &Definition<'_>) -> Vec<Step> {
    if !observed.users.is_empty() || !has_finalizer(observed) {
        return Vec::new();
    }
    match definition {
        Definition::Terminating => Vec::new(),
        Definition::UpToDate { found, uid } | Definition::Differs { found, uid } => {
            let action = Action::Delete {
                kind: Kind::NetworkAttachmentDefinition,
                name: found.metadata.name.clone().unwrap_or_default(),
                uid: (*uid).to_owned(),
                resource_version: None,
            };
            vec![step(action, "the network is being deleted")]
        }
        Definition::Missing | Definition::Foreign => {
            vec![step(Action::RemoveFinalizer, "its definition is deleted")]
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

fn is_terminating(observed: &Observed<'_>) -> bool {
    observed.network.metadata.deletion_timestamp.is_some()
}

fn has_finalizer(observed: &Observed<'_>) -> bool {
    carries_finalizer(observed.network)
}

fn carries_finalizer(network: &NetworkConfiguration) -> bool {
    let finalizers = network.metadata.finalizers.as_deref();
    finalizers
        .unwrap_or_default()
        .iter()
        .any(|finalizer| finalizer == labels::NETWORK_FINALIZER)
}
