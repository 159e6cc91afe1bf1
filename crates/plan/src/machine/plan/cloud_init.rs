//! Write of the cloud-init Secret: when its data changes, and as repair when others change or delete it.

use std::collections::BTreeSet;

use api::{core::Secret, kubevirt::InstancePhase, labels};

use super::{
    ownership::{is_terminating, uid},
    vm::ExistingVm,
};
use crate::{
    Event,
    machine::{Action, CloudInitSecret, Observed, Step, digest_key::Digest, elided::elided},
    managed::{self, ANOTHER_CLIENT},
    naming,
};

/// The write that the Secret needs, if any. `digest` is that of its desired data.
pub(super) fn step(
    observed: &Observed<'_>,
    existing: Option<&ExistingVm<'_>>,
    mut secret: Secret,
    digest: Option<&Digest<'_>>,
) -> Option<Step> {
    let is_recorded = match (existing.and_then(ExistingVm::cloud_init), digest) {
        (Some(recorded), Some(digest)) => digest.matches(recorded),
        (recorded, digest) => recorded.is_none() && digest.is_none(),
    };
    let name = secret.metadata.name.clone().unwrap_or_default();
    let (reason, repair_event) = match observed.cloud_init_secret {
        _ if !is_recorded => ("the cloud-init data changes".to_owned(), None),
        CloudInitSecret::Unobserved { is_verified } => {
            if is_verified || !is_starting(observed) {
                return None;
            }
            ("a starting guest needs it".to_owned(), None)
        }
        CloudInitSecret::Read { .. } => return None,
        CloudInitSecret::Missing => (
            "it was deleted, or lost its labels".to_owned(),
            Some(format!(
                "Another client deleted Secret {name} or its labels: the operator restored it"
            )),
        ),
        CloudInitSecret::Present(found) => {
            if found.matches(&keys(observed, &secret), digest.map(Digest::plain)) {
                return None;
            }
            let others: Vec<_> = found.other_managers().collect();
            let by = match others.as_slice() {
                [] => ANOTHER_CLIENT.to_owned(),
                others => others.join(", "),
            };
            (
                format!("{by} changed its data"),
                Some(managed::repaired(
                    &by,
                    &format!("Secret {name}"),
                    "its data",
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
        event: repair_event.map(|message| Event::normal("DriftCorrected", message)),
    })
}

/// Keys of the Secret's data. Data that was elided from a cached Machine counts as present.
fn keys<'a>(observed: &Observed<'_>, secret: &'a Secret) -> BTreeSet<&'a str> {
    let elided = elided(&observed.machine.metadata).and_then(|elided| elided.digest);
    let user_data = elided.map(|_| naming::USER_DATA_KEY);
    let keys = secret.data.keys().map(String::as_str);
    keys.chain(user_data).collect()
}

/// Whether an instance exists whose guest has not started.
fn is_starting(observed: &Observed<'_>) -> bool {
    use InstancePhase::{Pending, Scheduled, Scheduling, Unknown};
    observed.instance.is_some_and(|instance| {
        !is_terminating(&instance.metadata)
            && matches!(
                instance.status.phase,
                Pending | Scheduling | Scheduled | Unknown
            )
    })
}
