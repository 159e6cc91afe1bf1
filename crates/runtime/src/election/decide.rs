//! Decisions of leader election, without calls.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

use super::{LEASE_DURATION, Loss, RENEW_DEADLINE};

/// The Lease as it was last read or written.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    /// It has to be read first.
    #[default]
    Unknown,
    Absent,
    Present(Box<Lease>),
}

/// Spec of the Lease and since when it has not changed, by our own clock. The times in it come from
/// another node's clock and mean nothing here.
#[derive(Clone, Debug)]
struct Record {
    spec: LeaseSpec,
    since: Instant,
}

/// Input of [`decide`].
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    known: Known,
    record: Option<Record>,
}

/// Next step of a candidate or leader.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Read,
    Create,
    /// No one has the Lease.
    Acquire(Lease),
    /// This process has the Lease.
    Renew(Lease),
    /// Another process has the Lease: retry later.
    Wait,
    Lost(Loss),
}

impl Observed {
    /// Records the Lease as it was read or written.
    pub(super) fn observe(&mut self, lease: Option<Lease>, now: Instant) {
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

    /// Requires a read before the next step.
    pub(super) fn forget(&mut self) {
        self.known = Known::Unknown;
    }

    /// The last observed holder of the Lease.
    pub(super) fn holder(&self) -> Option<&str> {
        self.record.as_ref().and_then(|record| holder(&record.spec))
    }

    /// Whether another process may still lead. A deleted Lease counts: its holder may not have noticed.
    fn has_other_holder(&self, me: &str, now: Instant) -> bool {
        self.record.as_ref().is_some_and(|record| {
            holder(&record.spec).is_some_and(|holder| holder != me)
                && now < record.since + duration(&record.spec)
        })
    }
}

/// Next step of `me`. `renewed` is when the last successful renewal was sent; `None` for a candidate.
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
        Known::Unknown => Step::Read,
        Known::Absent if renewed.is_none() && observed.has_other_holder(me, now) => Step::Wait,
        Known::Absent => Step::Create,
        Known::Present(lease) => {
            let lease = Lease::clone(lease);
            match (lease.spec.as_ref().and_then(holder), renewed) {
                (Some(holder), _) if holder == me => Step::Renew(lease),
                (Some(holder), Some(_)) => Step::Lost(Loss::AcquiredByOther {
                    holder: holder.to_owned(),
                }),
                (Some(_), None) if observed.has_other_holder(me, now) => Step::Wait,
                (Some(_), None) | (None, _) => Step::Acquire(lease),
            }
        }
    }
}

pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// Time after which an unchanged Lease expires.
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

    fn observed_at(lease: Option<Lease>, at: Instant) -> Observed {
        let mut observed = Observed::default();
        observed.observe(lease, at);
        observed
    }

    /// The holder that was observed `age` seconds ago, and the last renewal.
    #[rstest]
    #[case::a_free_lease_is_acquired("", 0, None, "acquire")]
    #[case::a_current_lease_is_respected("other", 0, None, "wait")]
    #[case::to_the_last_moment("other", 14, None, "wait")]
    #[case::an_expired_lease_is_acquired("other", 15, None, "acquire")]
    #[case::own_lease_is_renewed("me", 2, Some(2), "renew")]
    #[case::own_lease_after_a_lost_answer_is_renewed("me", 0, None, "renew")]
    #[case::in_time_is_in_time("me", 9, Some(9), "renew")]
    #[case::too_late_is_lost("me", 10, Some(10), "lost")]
    #[case::after_a_minute_stopped("me", 60, Some(60), "lost")]
    #[case::another_process_leads("other", 0, Some(2), "lost")]
    #[case::another_process_led_long_ago("other", 60, Some(2), "lost")]
    #[case::a_lease_without_a_holder_is_acquired_again("", 0, Some(2), "acquire")]
    #[tokio::test(start_paused = true)]
    async fn with_a_lease(
        #[case] holder: &str,
        #[case] age: u32,
        #[case] renewed: Option<u32>,
        #[case] wanted: &str,
    ) {
        let now = Instant::now() + 100 * SECOND;
        let observed = observed_at(Some(lease(holder, 0)), now - age * SECOND);
        let step = decide(&observed, "me", renewed.map(|ago| now - ago * SECOND), now);
        let step = match step {
            Step::Acquire(_) => "acquire",
            Step::Renew(_) => "renew",
            Step::Wait => "wait",
            Step::Lost(_) => "lost",
            Step::Read | Step::Create => "other",
        };
        assert_eq!(step, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_lease_is_read_and_a_missing_one_is_created() {
        let now = Instant::now();
        let mut observed = Observed::default();
        assert_eq!(decide(&observed, "me", None, now), Step::Read);
        observed.observe(None, now);
        assert_eq!(decide(&observed, "me", None, now), Step::Create);
        assert_eq!(decide(&observed, "me", Some(now), now), Step::Create);
        observed.forget();
        assert_eq!(decide(&observed, "me", Some(now), now), Step::Read);
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_is_lost_at_the_deadline_before_any_read() {
        let now = Instant::now();
        let step = decide(&Observed::default(), "me", Some(now), now + RENEW_DEADLINE);
        assert_eq!(step, Step::Lost(Loss::NotRenewed));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_change_of_the_spec_prolongs_a_lease() {
        let now = Instant::now();
        let mut observed = observed_at(Some(lease("other", 0)), now);
        let mut labelled = lease("other", 0);
        labelled.metadata.resource_version = Some("2".to_owned());
        observed.observe(Some(labelled), now + 10 * SECOND);
        assert!(matches!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Acquire(_)
        ));

        observed.observe(Some(lease("other", 1)), now + 14 * SECOND);
        assert_eq!(decide(&observed, "me", None, now + 28 * SECOND), Step::Wait);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_lease_is_respected_until_its_holder_must_have_noticed() {
        let now = Instant::now();
        let mut observed = observed_at(Some(lease("other", 0)), now);
        observed.observe(None, now + 5 * SECOND);
        assert_eq!(decide(&observed, "me", None, now + 14 * SECOND), Step::Wait);
        assert_eq!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Create
        );

        let mut released = observed_at(Some(lease("", 0)), now);
        released.observe(None, now);
        assert_eq!(decide(&released, "me", None, now), Step::Create);
    }

    #[rstest]
    #[case(None)]
    #[case(Some(0))]
    #[case(Some(-1))]
    #[tokio::test(start_paused = true)]
    async fn a_lease_without_a_duration_gets_the_default(#[case] seconds: Option<i32>) {
        let now = Instant::now();
        let mut lease = lease("other", 0);
        if let Some(spec) = &mut lease.spec {
            spec.lease_duration_seconds = seconds;
        }
        let observed = observed_at(Some(lease), now);
        assert_eq!(decide(&observed, "me", None, now + 14 * SECOND), Step::Wait);
        assert!(matches!(
            decide(&observed, "me", None, now + 15 * SECOND),
            Step::Acquire(_)
        ));
    }
}
