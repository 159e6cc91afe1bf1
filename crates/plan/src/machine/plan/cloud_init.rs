//! The Secret with cloud-init's data: written when the data changes, and put back when others
//! change or delete it.

use std::collections::BTreeSet;

use api::{core::Secret, kubevirt::InstancePhase, labels};

use super::{
    ownership::{is_deleted, uid},
    vm::Present,
};
use crate::{
    Event,
    machine::{Action, CloudInitSecret, Observed, Step, digest_key::Digest, elided::elided},
    naming,
};

/// The write that the Secret needs, if any. `digest` stands for its data.
pub(super) fn step(
    observed: &Observed<'_>,
    present: Option<&Present<'_>>,
    mut secret: Secret,
    digest: Option<&Digest<'_>>,
) -> Option<Step> {
    let is_noted = match (present.and_then(Present::cloud_init), digest) {
        (Some(recorded), Some(digest)) => digest.matches(recorded),
        (recorded, digest) => recorded.is_none() && digest.is_none(),
    };
    let name = secret.metadata.name.clone().unwrap_or_default();
    let (reason, put_back) = match observed.cloud_init_secret {
        _ if !is_noted => ("cloud-init's data is to change".to_owned(), None),
        CloudInitSecret::Unobserved { is_verified } => {
            if is_verified || !is_starting(observed) {
                return None;
            }
            ("a guest is starting that needs it".to_owned(), None)
        }
        CloudInitSecret::Read { .. } => return None,
        CloudInitSecret::Missing => (
            "it is gone, or lacks our labels".to_owned(),
            Some(format!(
                "Secret {name} was deleted, or lost its labels: put it back"
            )),
        ),
        CloudInitSecret::Present(found) => {
            if found.matches(&keys(observed, &secret), digest.map(Digest::plain)) {
                return None;
            }
            let others: Vec<_> = found.other_managers().collect();
            let by = match others.as_slice() {
                [] => String::new(),
                others => format!(" by {}", others.join(", ")),
            };
            (
                format!("its data was changed{by}"),
                Some(format!(
                    "The data of Secret {name} was changed{by}: put it back"
                )),
            )
        }
    };
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations
        .extend(digest.map(|digest| (labels::CLOUD_INIT.to_owned(), digest.plain().to_owned())));
    annotations.insert(
        labels::MACHINE_UID.to_owned(),
        uid(&observed.machine.metadata),
    );
    Some(Step {
        action: Action::WriteSecret(secret),
        reason,
        event: put_back.map(|message| Event::normal("PutBack", message)),
    })
}

/// The keys of the Secret's data. A Secret that is built from a cached Machine lacks user data that
/// is not cached.
fn keys<'a>(observed: &Observed<'_>, secret: &'a Secret) -> BTreeSet<&'a str> {
    let elided = elided(&observed.machine.metadata).and_then(|elided| elided.digest);
    let user_data = elided.map(|_| naming::USER_DATA_KEY);
    let keys = secret.data.keys().map(String::as_str);
    keys.chain(user_data).collect()
}

/// Whether there is an instance whose guest has not started yet.
fn is_starting(observed: &Observed<'_>) -> bool {
    use InstancePhase::{Pending, Scheduled, Scheduling, Unknown};
    observed.instance.is_some_and(|instance| {
        !is_deleted(&instance.metadata)
            && matches!(
                instance.status.phase,
                Pending | Scheduling | Scheduled | Unknown
            )
    })
}
