//! Shared causes of refusals: a webhook without a server, an exhausted quota, an overloaded API
//! server.
//!
//! One object is retried per cause. Until it succeeds, no other object of the refused kinds is written,
//! and of each other kind one object at a time, because the cause may affect it too.

use std::{collections::BTreeSet, sync::Arc};

use api::Time;
use apimachinery::retry_ledger::{Retry, RetryLedger};

use super::{
    object::Id,
    observed::{Refusal, WriteError},
};
use crate::upstream_messages::RefusalCause;

/// Group and kind.
pub type Kind = (Arc<str>, Arc<str>);

/// Cause that several refusals share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The webhooks of a Service or host, which fail together.
    Webhook(String),
    /// A ResourceQuota.
    Quota(String),
    /// Any other cause that affects all writes of a kind.
    Kind(Kind),
}

impl Cause {
    /// The shared cause of a failed write, if any.
    pub fn of(id: &Id, error: WriteError, refusal: &RefusalCause) -> Option<Self> {
        match refusal {
            RefusalCause::WebhookUnavailable { endpoint } => {
                return Some(Self::Webhook(endpoint.clone()));
            }
            RefusalCause::QuotaExceeded { quota: Some(quota) } => {
                return Some(Self::Quota(quota.clone()));
            }
            RefusalCause::QuotaExceeded { quota: None }
            | RefusalCause::CloneForbidden
            | RefusalCause::NullValue
            | RefusalCause::Other => {}
        }
        let is_server = matches!(
            error,
            WriteError::Status(429 | 500..) | WriteError::Unanswered
        );
        is_server.then(|| Self::Kind(kind(id)))
    }

    /// Whether it may affect other kinds too.
    pub fn is_named(&self) -> bool {
        !matches!(self, Self::Kind(_))
    }
}

pub fn kind(id: &Id) -> Kind {
    (Arc::clone(&id.group), Arc::clone(&id.kind))
}

/// Current causes. A kind waits for at most one of them. A cause that no kind waits for any more keeps
/// its number of failures: a kind that is refused for two causes in turn is not retried faster.
#[derive(Clone, Debug, Default)]
pub struct Causes(RetryLedger<Cause, SharedRefusal, Time>);

/// Refusal for a shared cause.
#[derive(Clone, Debug)]
pub struct SharedRefusal {
    pub refusal: Refusal,
    /// The object that is retried: the one that was refused last.
    pub tried: Id,
    kinds: BTreeSet<Kind>,
}

impl Causes {
    pub fn get(&self, cause: &Cause) -> Option<&Retry<SharedRefusal, Time>> {
        let retry = self.0.get(cause);
        retry.filter(|retry| !retry.reason.kinds.is_empty())
    }

    /// The cause that a kind waits for.
    pub fn of(&self, kind: &Kind) -> Option<(&Cause, &Retry<SharedRefusal, Time>)> {
        let mut causes = self.0.iter();
        causes.find(|(_, retry)| retry.reason.kinds.contains(kind))
    }

    /// Makes the kind of an object wait for a cause that is already recorded.
    pub fn join(&mut self, cause: &Cause, id: &Id) {
        self.leave(&kind(id), cause);
        if let Some(retry) = self.0.get_mut(cause) {
            retry.reason.kinds.insert(kind(id));
        }
    }

    /// Records a refusal. `retry_at` gets the number of earlier refusals for this cause.
    pub fn refuse(
        &mut self,
        cause: Cause,
        id: &Id,
        refusal: Refusal,
        retry_at: impl FnOnce(u32) -> Time,
    ) {
        self.leave(&kind(id), &cause);
        let before = self.0.get(&cause).map(|retry| retry.reason.kinds.clone());
        let mut kinds = before.unwrap_or_default();
        kinds.insert(kind(id));
        let shared = SharedRefusal {
            refusal,
            tried: id.clone(),
            kinds,
        };
        self.0.fail(cause, shared, retry_at);
    }

    /// Ends the cause that a kind waits for, after a write of this kind has succeeded.
    pub fn succeed(&mut self, kind: &Kind) {
        if let Some((cause, _)) = self.of(kind) {
            let cause = cause.clone();
            self.0.clear(&cause);
        }
    }

    /// A kind that is refused for one cause does not wait for another.
    fn leave(&mut self, kind: &Kind, refused_for: &Cause) {
        for (cause, retry) in self.0.iter_mut() {
            if cause != refused_for {
                retry.reason.kinds.remove(kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    fn id(kind: &str) -> Id {
        Id::new("example.com", kind, "", "web")
    }

    fn refuse(causes: &mut Causes, cause: &Cause, kind: &str) -> u32 {
        let time = Time(Timestamp::UNIX_EPOCH);
        let refusal = Refusal {
            message: String::new(),
            error: WriteError::Status(500),
            since: time.clone(),
            fingerprint: None,
        };
        causes.refuse(cause.clone(), &id(kind), refusal, |_| time);
        causes.get(cause).unwrap().failures
    }

    #[rstest]
    #[case::webhook(
        RefusalCause::WebhookUnavailable { endpoint: "virt-api".to_owned() },
        Some(Cause::Webhook("virt-api".to_owned()))
    )]
    #[case::quota(
        RefusalCause::QuotaExceeded { quota: Some("few".to_owned()) },
        Some(Cause::Quota("few".to_owned()))
    )]
    #[case::quota_without_a_name(RefusalCause::QuotaExceeded { quota: None }, None)]
    #[case::other(RefusalCause::Other, None)]
    fn the_refusal_names_the_cause(#[case] refusal: RefusalCause, #[case] expected: Option<Cause>) {
        assert_eq!(
            Cause::of(&id("A"), WriteError::Status(403), &refusal),
            expected
        );
    }

    #[rstest]
    #[case(WriteError::Status(503), true)]
    #[case(WriteError::Status(429), true)]
    #[case(WriteError::Unanswered, true)]
    #[case(WriteError::NotSent, false)]
    #[case(WriteError::Status(422), false)]
    fn an_unavailable_server_stops_a_kind(#[case] error: WriteError, #[case] is_shared: bool) {
        let expected = is_shared.then(|| Cause::Kind(kind(&id("A"))));
        assert_eq!(Cause::of(&id("A"), error, &RefusalCause::Other), expected);
    }

    #[test]
    fn a_kind_waits_for_one_cause_until_a_write_of_it_succeeds() {
        let (webhook, quota) = (
            Cause::Webhook("virt-api".to_owned()),
            Cause::Quota("few".to_owned()),
        );
        let mut causes = Causes::default();
        refuse(&mut causes, &webhook, "A");
        causes.join(&webhook, &id("B"));
        assert_eq!(causes.of(&kind(&id("B"))).unwrap().0, &webhook);
        refuse(&mut causes, &quota, "B");
        assert_eq!(causes.of(&kind(&id("B"))).unwrap().0, &quota);
        causes.succeed(&kind(&id("A")));
        assert!(causes.get(&webhook).is_none());
        causes.succeed(&kind(&id("C")));
        refuse(&mut causes, &webhook, "B");
        assert!(causes.get(&quota).is_none());
    }

    #[test]
    fn two_causes_in_turn_are_counted_until_a_write_succeeds() {
        let (webhook, quota) = (
            Cause::Webhook("virt-api".to_owned()),
            Cause::Quota("few".to_owned()),
        );
        let mut causes = Causes::default();
        for expected in 1..4 {
            assert_eq!(refuse(&mut causes, &webhook, "A"), expected);
            assert_eq!(refuse(&mut causes, &quota, "A"), expected);
        }
        causes.succeed(&kind(&id("A")));
        assert_eq!(refuse(&mut causes, &quota, "A"), 1);
        assert_eq!(refuse(&mut causes, &webhook, "A"), 4);
    }
}
