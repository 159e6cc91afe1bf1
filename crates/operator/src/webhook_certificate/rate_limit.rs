//! Rate limit of the writes to one object.
//!
//! Failures are retried with backoff. Successful writes that another client reverts are limited, too:
//! otherwise they would follow each other as fast as the API server answers. A conflict is expected,
//! unless it is repeated without a change of the object: then the write fails for another reason.

use std::time::Duration;

use runtime::backoff::{Random, Retry, Schedule};
use tokio::time::Instant;

/// Number of writes without delay; a CA rotation needs three.
const BURST: u32 = 8;

/// Time after which a write counts as not reverted.
const STABLE_AFTER: Duration = Duration::from_secs(600);

/// Number of conflicts without a change after which they are reported.
const MAX_CONFLICTS: u32 = 3;

pub(super) struct WriteLimiter {
    failures: Retry,
    reverts: Retry,
    /// Number of writes in the current burst.
    writes: u32,
    last_write: Option<Instant>,
    /// Number of conflicts since the object last changed.
    conflicts: u32,
    /// End of the delay after too many writes.
    not_before: Option<Instant>,
    /// Next attempt after a failure; a change of the object resets it.
    retry_at: Option<Instant>,
}

impl WriteLimiter {
    pub(super) fn new(mut random: Random) -> Self {
        Self {
            failures: Retry::new(Schedule::OBJECT, random.fork()),
            reverts: Retry::new(Schedule::OBJECT, random.fork()),
            writes: 0,
            last_write: None,
            conflicts: 0,
            not_before: None,
            retry_at: None,
        }
    }

    /// Time of the next write, if it is delayed.
    pub(super) fn delayed_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.max(self.retry_at).filter(|at| *at > now)
    }

    /// Allows a failed write to be retried at once, after a change that may help.
    pub(super) fn reset_retry(&mut self) {
        self.conflicts = 0;
        self.retry_at = None;
    }

    /// Records a successful write. Returns the delay of the next one if there were too many.
    pub(super) fn written(&mut self, now: Instant) -> Option<Duration> {
        self.reset_retry();
        self.failures.reset();
        if self.last_write.is_none_or(|last| now > last + STABLE_AFTER) {
            self.writes = 0;
            self.reverts.reset();
        }
        self.last_write = Some(now);
        self.writes += 1;
        let delay = (self.writes > BURST).then(|| self.reverts.failed());
        self.not_before = delay.map(|delay| now + delay);
        delay
    }

    /// Records a failed write.
    pub(super) fn failed(&mut self, now: Instant) {
        self.retry_at = Some(now + self.failures.failed());
    }

    /// Records a conflict. Returns whether it is repeated without a change of the object.
    pub(super) fn conflicted(&mut self, now: Instant) -> bool {
        self.failed(now);
        self.conflicts += 1;
        self.conflicts >= MAX_CONFLICTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> WriteLimiter {
        WriteLimiter::new(Random::seeded(1))
    }

    #[test]
    fn reverted_writes_are_delayed_and_stable_ones_are_not() {
        let (mut limiter, mut now) = (limiter(), Instant::now());
        let start = now;
        let mut writes = 0;
        while now < start + Duration::from_secs(3600) {
            limiter.written(now);
            writes += 1;
            // The watch delivers the revert.
            limiter.reset_retry();
            now = limiter
                .delayed_until(now)
                .unwrap_or(now + Duration::from_millis(1));
        }
        assert!((20..40).contains(&writes), "{writes}");
        let later = now + STABLE_AFTER + Duration::from_secs(1);
        assert_eq!(limiter.written(later), None);
        assert_eq!(limiter.delayed_until(later), None);
    }

    #[test]
    fn a_failed_write_is_retried_after_a_delay_or_a_change() {
        let (mut limiter, now) = (limiter(), Instant::now());
        limiter.failed(now);
        assert!(limiter.delayed_until(now).is_some());
        assert_eq!(limiter.delayed_until(now + Duration::from_secs(1)), None);
        limiter.failed(now);
        limiter.reset_retry();
        assert_eq!(limiter.delayed_until(now), None);
    }

    #[test]
    fn conflicts_are_reported_if_the_object_does_not_change() {
        let (mut limiter, now) = (limiter(), Instant::now());
        for _ in 0..10 {
            assert!(!limiter.conflicted(now));
            limiter.reset_retry();
        }
        let reported: Vec<bool> = (0..4).map(|_| limiter.conflicted(now)).collect();
        assert_eq!(reported, [false, false, true, true]);
    }
}
