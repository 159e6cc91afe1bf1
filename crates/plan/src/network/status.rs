//! Status of a NetworkConfiguration.

use api::{NetworkConfigurationStatus, Time};

use super::{Definition, Observed, is_terminating};
use crate::{
    Event,
    conditions::{self, ConditionUpdate},
};

/// Number of users in a status: the names of all Machines of a namespace may exceed an object's size limit.
const MAX_USERS: usize = 1000;

const READY: &str = "Ready";
const NETWORK_CONFIGURED: &str = "NetworkConfigured";
const NETWORK_FAILED: &str = "NetworkFailed";
const DELETING: &str = "Deleting";

/// The status, and the Events about its change.
pub(super) fn report(
    observed: &Observed<'_>,
    definition: &Definition<'_>,
    now: &Time,
) -> (NetworkConfigurationStatus, Vec<Event>) {
    let old = observed.network.status.clone().unwrap_or_default();
    let Some(ready) = ready(observed, definition) else {
        return (old, Vec::new());
    };
    let generation = observed.network.metadata.generation;
    let was = conditions::find(old.conditions.as_deref(), READY);
    let event = match was {
        Some(was) if was.reason == ready.reason => None,
        _ if ready.reason == NETWORK_FAILED => Some(Event::warning(
            NETWORK_FAILED,
            conditions::bounded(ready.message.clone()),
        )),
        Some(_) if ready.is_true => Some(Event::normal(NETWORK_CONFIGURED, ready.message.clone())),
        _ => None,
    };
    let conditions = conditions::merged(old.conditions.as_deref(), vec![ready], generation, now);
    let shown = observed.users.len().min(MAX_USERS);
    let users = users(
        old.users.as_deref(),
        observed.users.get(..shown).unwrap_or_default(),
    );
    let new = NetworkConfigurationStatus {
        users: (!users.is_empty()).then_some(users),
        observed_generation: generation,
        conditions: Some(conditions),
        ..old
    };
    (stored(observed, new), event.into_iter().collect())
}

/// A status as the API server stores it. The cache may show fields of an earlier definition.
fn stored(
    observed: &Observed<'_>,
    status: NetworkConfigurationStatus,
) -> NetworkConfigurationStatus {
    let served = &observed.served;
    if served.has_all_of_networks() {
        return status;
    }
    let new = served.network_status(status);
    let old = observed.network.status.clone().unwrap_or_default();
    if served.network_status(old.clone()) == new {
        old
    } else {
        new
    }
}

/// Whether the status reports an existing definition.
pub(super) fn is_ready(observed: &Observed<'_>) -> bool {
    let status = observed.network.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions::find(conditions, READY).is_some_and(|ready| ready.status == "True")
}

/// The users, in the reported order if they are the same: they are a set, which the API server may order.
fn users(reported: Option<&[String]>, users: &[String]) -> Vec<String> {
    let mut sorted = reported.unwrap_or_default().to_vec();
    sorted.sort_unstable();
    match reported {
        Some(reported) if sorted == users => reported.to_vec(),
        _ => users.to_vec(),
    }
}

fn named(users: &[String]) -> String {
    const FEW: usize = 10;
    match users.get(..FEW) {
        Some(few) if users.len() > FEW => {
            format!("{} and {} more", few.join(", "), users.len() - FEW)
        }
        _ => users.join(", "),
    }
}

/// `None` while planned actions are about to change the answer: it is reported after them.
fn ready(observed: &Observed<'_>, definition: &Definition<'_>) -> Option<ConditionUpdate> {
    let failed = |message: String| Some(ConditionUpdate::as_false(READY, NETWORK_FAILED, message));
    let name = observed.network.metadata.name.as_deref();
    let name = name.unwrap_or_default();
    if is_terminating(observed) {
        let users = named(&observed.users);
        let message = format!("the network is deleted once no Machine is attached to it: {users}");
        return (!users.is_empty()).then(|| ConditionUpdate::as_false(READY, DELETING, message));
    }
    if !observed.multus {
        return failed(
            "Multus is not installed in this cluster: install it, and the operator creates the network"
                .to_owned(),
        );
    }
    if let Definition::Foreign = definition {
        return failed(format!(
            "NetworkAttachmentDefinition {name} does not belong to this operator: delete it, or give this \
             network another name"
        ));
    }
    if let Some(refusal) = observed.refusal.filter(|refusal| refusal.is_persistent) {
        return failed(refusal.message.clone());
    }
    match definition {
        Definition::UpToDate { .. } => {
            let mut message = format!("NetworkAttachmentDefinition {name} exists");
            if observed.users.len() > MAX_USERS {
                let all = observed.users.len();
                let note = format!("; status.users has the first {MAX_USERS} of {all} Machines");
                message.push_str(&note);
            }
            Some(ConditionUpdate::as_true(READY, NETWORK_CONFIGURED, message))
        }
        _ => None,
    }
}
