//! What is told of a NetworkConfiguration.

use api::{NetworkConfigurationStatus, Time};

use super::{Definition, Observed, is_deleted};
use crate::{
    Event,
    conditions::{self, Said},
};

/// How many users a status lists: the names of all Machines of a namespace may not fit into one.
const MOST_USERS: usize = 1000;

const READY: &str = "Ready";
const NETWORK_CONFIGURED: &str = "NetworkConfigured";
const NETWORK_FAILED: &str = "NetworkFailed";
const DELETING: &str = "Deleting";

/// The status, and the events of its change.
pub(super) fn tell(
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
        Some(_) if ready.holds => Some(Event::normal(NETWORK_CONFIGURED, ready.message.clone())),
        _ => None,
    };
    let conditions = conditions::merged(old.conditions.as_deref(), vec![ready], generation, now);
    let shown = observed.users.len().min(MOST_USERS);
    let users = users(
        old.users.as_deref(),
        observed.users.get(..shown).unwrap_or_default(),
    );
    let new = NetworkConfigurationStatus {
        users: (!users.is_empty()).then_some(users),
        observed_generation: generation,
        conditions: Some(conditions),
    };
    (new, event.into_iter().collect())
}

/// Whether the status reports that the definition is there.
pub(super) fn is_ready(observed: &Observed<'_>) -> bool {
    let status = observed.network.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions::find(conditions, READY).is_some_and(|ready| ready.status == "True")
}

/// The users in the order in which they are told of already, if they are the same: they are a set,
/// and it is the API server that orders it. Older ones keep what was there before what is new.
fn users(told: Option<&[String]>, users: &[String]) -> Vec<String> {
    let mut sorted = told.unwrap_or_default().to_vec();
    sorted.sort_unstable();
    match told {
        Some(told) if sorted == users => told.to_vec(),
        _ => users.to_vec(),
    }
}

/// The first few users, as a sentence has room for.
fn named(users: &[String]) -> String {
    const FEW: usize = 10;
    match users.get(..FEW) {
        Some(few) if users.len() > FEW => {
            format!("{} and {} more", few.join(", "), users.len() - FEW)
        }
        _ => users.join(", "),
    }
}

/// Absent for what is about to change by what is planned: that is told when it is done.
fn ready(observed: &Observed<'_>, definition: &Definition<'_>) -> Option<Said> {
    let failed = |message: String| Some(Said::no(READY, NETWORK_FAILED, message));
    let name = observed.network.metadata.name.as_deref();
    let name = name.unwrap_or_default();
    if is_deleted(observed) {
        let users = named(&observed.users);
        let message = format!("the network is deleted once no Machine is attached to it: {users}");
        return (!users.is_empty()).then(|| Said::no(READY, DELETING, message));
    }
    if !observed.multus {
        return failed(
            "Multus is not installed in this cluster; install it, and the network is made by itself"
                .to_owned(),
        );
    }
    if let Definition::Foreign = definition {
        return failed(format!(
            "NetworkAttachmentDefinition {name} belongs to somebody else; delete it, or name this \
             network differently"
        ));
    }
    if let Some(refusal) = observed.refusal.filter(|refusal| refusal.is_persistent) {
        return failed(refusal.message.clone());
    }
    match definition {
        Definition::AsWanted { .. } => {
            let mut message = format!("NetworkAttachmentDefinition {name} is there");
            if observed.users.len() > MOST_USERS {
                let all = observed.users.len();
                let note = format!("; status.users has the first {MOST_USERS} of {all} Machines");
                message.push_str(&note);
            }
            Some(Said::yes(READY, NETWORK_CONFIGURED, message))
        }
        _ => None,
    }
}
