//! The rules, without the calls.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

use super::{LEASE_DURATION, Loss, RENEW_DEADLINE};

/// What is known of the Lease.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    /// It has to be read first.
    #[default]
    Nothing,
    /// There is none.
    Absent,
    /// This is it, as it was last read or written.
    Present(Box<Lease>),
}

/// The record of the Lease and since when it has not changed, by our own clock. The times that are
/// written in it come from another machine's clock and mean nothing here.
#[derive(Clone, Debug)]
struct Record {
    spec: LeaseSpec,
    since: Instant,
}

/// All that decisions are made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    known: Known,
    record: Option<Record>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Read the Lease.
    Read,
    /// Make it.
    Create,
    /// Take it: nobody holds it any more.
    Take(Lease),
    /// Renew it: it is ours.
    Renew(Lease),
    /// Look again later: somebody holds it.
    Wait,
    /// Stop for good.
    Lost(Loss),
}

impl Observed {
    /// The Lease was read or written, and it was like this.
    pub(super) fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        if let Some(lease) = &lease {
            let spec = lease.spec.clone().unwrap_or_default();
            if self
                .record
                .as_ref()
                .is_none_or(|record| record.spec != spec)
            {
                self.record = Some(Record { spec, since: now });
            }
        }
        self.known = lease.map_or(Known::Absent, |lease| Known::Present(Box::new(lease)));
    }

    /// What was known need not be true any more.
    pub(super) fn forget(&mut self) {
        self.known = Known::Nothing;
    }

    /// Who holds the Lease, when it was last seen.
    pub(super) fn holder(&self) -> Option<&str> {
        self.record.as_ref().and_then(|record| holder(&record.spec))
    }

    /// Whether somebody else may still hold the Lease. One that was deleted is held on: its holder
    /// has not noticed yet.
    fn is_held(&self, me: &str, now: Instant) -> bool {
        self.record.as_ref().is_some_and(|record| {
            holder(&record.spec).is_some_and(|holder| holder != me)
                && now < record.since + duration(&record.spec)
        })
    }
}

/// What `me` is to do next. `renewed` is when the last renewal that worked was sent; `None` when
/// we do not lead.
pub(super) fn decide(
    observed: &Observed,
    me: &str,
    renewed: Option<Instant>,
    now: Instant,
) -> Step {
    if renewed.is_some_and(|renewed| renewed + RENEW_DEADLINE <= now) {
        return Step::Lost(Loss::NotRenewed);
    }
    match &observed.known {
        Known::Nothing => Step::Read,
        Known::Absent if renewed.is_none() && observed.is_held(me, now) => Step::Wait,
        Known::Absent => Step::Create,
        Known::Present(lease) => {
            let lease = Lease::clone(lease);
            match (lease.spec.as_ref().and_then(holder), renewed) {
                (Some(holder), _) if holder == me => Step::Renew(lease),
                (Some(holder), Some(_)) => Step::Lost(Loss::Taken {
                    by: holder.to_owned(),
                }),
                (Some(_), None) if observed.is_held(me, now) => Step::Wait,
                (Some(_), None) | (None, _) => Step::Take(lease),
            }
        }
    }
}

pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// How long a record that does not change is to be respected.
fn duration(spec: &LeaseSpec) -> Duration {
    spec.lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map_or(LEASE_DURATION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(holder: &str, renewals: i32) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                // Stands for everything that a renewal changes.
                lease_transitions: Some(renewals),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    fn seen(lease: Option<Lease>, at: Instant) -> Observed {
        let mut observed = Observed::default();
        observed.saw(lease, at);
        observed
    }

    /// What was seen `age` seconds ago, and when we last renewed.
    #[rstest]
    #[case::a_free_lease_is_taken("", 0, None, "take")]
    #[case::a_held_lease_is_respected("other", 0, None, "wait")]
    #[case::to_the_last_moment("other", 14, None, "wait")]
    #[case::an_expired_lease_is_taken("other", 15, None, "take")]
    #[case::ours_is_renewed("me", 2, Some(2), "renew")]
    #[case::ours_from_an_answer_that_was_lost_is_renewed("me", 0, None, "renew")]
    #[case::in_time_is_in_time("me", 9, Some(9), "renew")]
    #[case::too_late_is_lost("me", 10, Some(10), "lost")]
    #[case::after_a_minute_stopped("me", 60, Some(60), "lost")]
    #[case::another_holds_it("other", 0, Some(2), "lost")]
    #[case::another_held_it_long_ago("other", 60, Some(2), "lost")]
    #[case::somebody_emptied_it("", 0, Some(2), "take")]
    #[tokio::test(start_paused = true)]
    async fn with_a_lease(
        #[case] holder: &str,
        #[case] age: u32,
        #[case] renewed: Option<u32>,
        #[case] wanted: &str,
    ) {
        let now = Instant::now() + 100 * SECOND;
        let observed = seen(Some(lease(holder, 0)), now - age * SECOND);
        let step = decide(&observed, "me", renewed.map(|ago| now - ago * SECOND), now);
        let step = match step {
            Step::Take(_) => "take",
            Step::Renew(_) => "renew",
            Step::Wait => "wait",
            Step::Lost(_) => "lost",
            Step::Read | Step::Create => "other",
        };
        assert_eq!(step, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_is_read_and_what_is_not_there_is_made() {
        let now = Instant::now();
        let mut observed = Observed::default();
        assert_eq!(decide(&observed, "me", None, now), Step::Read);
        observed.saw(None, now);
        assert_eq!(decide(&observed, "me", None, now), Step::Create);
        assert_eq!(decide(&observed, "me", Some(now), now), Step::Create);
        observed.forget();
        assert_eq!(decide(&observed, "me", Some(now), now), Step::Read);
    }

    #[tokio::test(start_paused = true)]
    async fn too_late_is_lost_before_anything_is_read() {
        let now = Instant::now();
        let step = decide(&Observed::default(), "me", Some(now), now + RENEW_DEADLINE);
        assert_eq!(step, Step::Lost(Loss::NotRenewed));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_change_of_the_record_prolongs_it() {
        let now = Instant::now();
        let mut observed = seen(Some(lease("other", 0)), now);
        let mut labelled = lease("other", 0);
        labelled.metadata.resource_version = Some("2".to_owned());
        observed.saw(Some(labelled), now + 10 * SECOND);
        assert!(matches!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Take(_)
        ));

        observed.saw(Some(lease("other", 1)), now + 14 * SECOND);
        assert_eq!(decide(&observed, "me", None, now + 28 * SECOND), Step::Wait);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_deleted_is_held_on_until_its_holder_has_noticed() {
        let now = Instant::now();
        let mut observed = seen(Some(lease("other", 0)), now);
        observed.saw(None, now + 5 * SECOND);
        assert_eq!(decide(&observed, "me", None, now + 14 * SECOND), Step::Wait);
        assert_eq!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Create
        );

        let mut released = seen(Some(lease("", 0)), now);
        released.saw(None, now);
        assert_eq!(decide(&released, "me", None, now), Step::Create);
    }

    #[rstest]
    #[case(None)]
    #[case(Some(0))]
    #[case(Some(-1))]
    #[tokio::test(start_paused = true)]
    async fn a_record_without_a_duration_is_given_ours(#[case] seconds: Option<i32>) {
        let now = Instant::now();
        let mut lease = lease("other", 0);
        if let Some(spec) = &mut lease.spec {
            spec.lease_duration_seconds = seconds;
        }
        let observed = seen(Some(lease), now);
        assert_eq!(decide(&observed, "me", None, now + 14 * SECOND), Step::Wait);
        assert!(matches!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Take(_)
        ));
    }
}
