//! Rate limit of the writes to each object.
//!
//! Failures are retried with backoff. Successful writes that another client reverts are limited, too:
//! otherwise they would follow each other as fast as the API server answers. A conflict is expected,
//! unless it is repeated without a change of the object: then the write fails for another reason.

use std::{collections::BTreeMap, time::Duration};

use apimachinery::retry_ledger::RetryLedger;
use runtime::backoff::{Random, Schedule};
use tokio::time::Instant;

use super::write::Object;

/// Number of writes without delay; a CA rotation needs three.
const BURST: u32 = 8;

/// Time after which a write counts as not reverted.
const STABLE_AFTER: Duration = Duration::from_secs(600);

/// Number of conflicts without a change after which they are reported.
const MAX_CONFLICTS: u32 = 3;

pub(super) struct WriteLimiter {
    /// Failed writes. A change of the object makes the next attempt due.
    failures: RetryLedger<Object, Conflicts, Instant>,
    /// Writes beyond the burst.
    reverts: RetryLedger<Object, (), Instant>,
    bursts: BTreeMap<Object, Burst>,
    random: Random,
}

/// Number of conflicts since the object last changed.
#[derive(Clone, Copy, Default)]
struct Conflicts(u32);

struct Burst {
    writes: u32,
    last_write: Instant,
}

impl WriteLimiter {
    pub(super) fn new(random: Random) -> Self {
        Self {
            failures: RetryLedger::default(),
            reverts: RetryLedger::default(),
            bursts: BTreeMap::new(),
            random,
        }
    }

    /// Time of the next write, if it is delayed.
    pub(super) fn delayed_until(&self, object: Object, now: Instant) -> Option<Instant> {
        let retry_at = self.failures.retry_at(&object);
        let not_before = self.reverts.retry_at(&object);
        retry_at.max(not_before).filter(|at| *at > now)
    }

    /// Allows a failed write to be retried at once, after a change that may help.
    pub(super) fn reset_retry(&mut self, object: Object, now: Instant) {
        if let Some(retry) = self.failures.get_mut(&object) {
            retry.retry_at = now;
            retry.reason = Conflicts::default();
        }
    }

    /// Records a successful write. Returns the delay of the next one if there were too many.
    pub(super) fn written(&mut self, object: Object, now: Instant) -> Option<Duration> {
        self.failures.clear(&object);
        let burst = self.bursts.entry(object).or_insert(Burst {
            writes: 0,
            last_write: now,
        });
        if now > burst.last_write + STABLE_AFTER {
            burst.writes = 0;
            self.reverts.clear(&object);
        }
        burst.last_write = now;
        burst.writes += 1;
        let random = &mut self.random;
        (burst.writes > BURST).then(|| {
            let retry_at = |failures| now + Schedule::OBJECT.delay(failures, random);
            self.reverts.fail(object, (), retry_at) - now
        })
    }

    /// Records a failed write.
    pub(super) fn failed(&mut self, object: Object, now: Instant) {
        self.fail(object, now, false);
    }

    /// Records a conflict. Returns whether it is repeated without a change of the object.
    pub(super) fn conflicted(&mut self, object: Object, now: Instant) -> bool {
        self.fail(object, now, true).0 >= MAX_CONFLICTS
    }

    fn fail(&mut self, object: Object, now: Instant, is_conflict: bool) -> Conflicts {
        let before = self.failures.get(&object);
        let Conflicts(before) = before.map(|retry| retry.reason).unwrap_or_default();
        let conflicts = Conflicts(before + u32::from(is_conflict));
        let random = &mut self.random;
        let retry_at = |failures| now + Schedule::OBJECT.delay(failures, random);
        self.failures.fail(object, conflicts, retry_at);
        conflicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Object = Object::Secret;

    fn limiter() -> WriteLimiter {
        WriteLimiter::new(Random::seeded(1))
    }

    #[test]
    fn reverted_writes_are_delayed_and_stable_ones_are_not() {
        let (mut limiter, mut now) = (limiter(), Instant::now());
        let start = now;
        let mut writes = 0;
        while now < start + Duration::from_secs(3600) {
            limiter.written(SECRET, now);
            writes += 1;
            // The watch delivers the revert.
            limiter.reset_retry(SECRET, now);
            now = limiter
                .delayed_until(SECRET, now)
                .unwrap_or(now + Duration::from_millis(1));
        }
        assert!((20..40).contains(&writes), "{writes}");
        let later = now + STABLE_AFTER + Duration::from_secs(1);
        assert_eq!(limiter.written(SECRET, later), None);
        assert_eq!(limiter.delayed_until(SECRET, later), None);
    }

    #[test]
    fn a_failed_write_is_retried_after_a_delay_or_a_change() {
        let (mut limiter, now) = (limiter(), Instant::now());
        limiter.failed(SECRET, now);
        assert!(limiter.delayed_until(SECRET, now).is_some());
        assert_eq!(
            limiter.delayed_until(SECRET, now + Duration::from_secs(1)),
            None
        );
        limiter.failed(SECRET, now);
        limiter.reset_retry(SECRET, now);
        assert_eq!(limiter.delayed_until(SECRET, now), None);
    }

    #[test]
    fn conflicts_are_reported_if_the_object_does_not_change() {
        let (mut limiter, now) = (limiter(), Instant::now());
        for _ in 0..10 {
            assert!(!limiter.conflicted(SECRET, now));
            limiter.reset_retry(SECRET, now);
        }
        let reported: Vec<bool> = (0..4).map(|_| limiter.conflicted(SECRET, now)).collect();
        assert_eq!(reported, [false, false, true, true]);
    }
}
