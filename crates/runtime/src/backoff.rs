//! Exponential backoff with jitter.
//!
//! Delays double with each failure up to a cap. Each is drawn from the upper half of its step, so that
//! keys that fail together are not retried together. All randomness comes from a seed, so that a run
//! can be repeated. Failures are counted by an [`apimachinery::retry_ledger`].

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use apimachinery::random::SplitMix64;

/// Repeatable random numbers (SplitMix64), to spread load. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The same seed gives the same sequence.
    pub const fn seeded(seed: u64) -> Self {
        Self(SplitMix64::seeded(seed))
    }

    /// A sequence that differs between processes.
    pub fn from_entropy() -> Self {
        Self::seeded(RandomState::new().hash_one(()))
    }

    pub const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An independent sequence.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self::seeded(self.next())
    }

    /// A duration in `from..to`; `from` if that is empty.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_nanos()).unwrap_or(u64::MAX);
        // The high half of the product is below `span`, and needs no division.
        let drawn = (u128::from(self.next()) * u128::from(span)) >> 64;
        from + Duration::from_nanos(u64::try_from(drawn).unwrap_or_default())
    }
}

/// First and longest delay of a backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Upper bound of the first delay.
    pub first: Duration,
    /// Upper bound of all delays.
    pub cap: Duration,
}

impl Schedule {
    /// For objects: one that always fails costs one attempt in five minutes.
    pub const OBJECT: Self = Self {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(300),
    };

    /// For watches, which are retried more often: nothing works without them.
    pub const WATCH: Self = Self {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(30),
    };

    /// Longest delay after a failure that follows `failures` others.
    pub fn step(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.cap)
    }

    /// Delay after a failure that follows `failures` others: between half of the step and the step.
    pub fn delay(self, failures: u32, random: &mut Random) -> Duration {
        let step = self.step(failures);
        random.between(step / 2, step)
    }

    /// The delay, extended by a longer Retry-After of the answer. The sum, or all clients with the same
    /// Retry-After would come back at once.
    pub fn delay_after(
        self,
        failures: u32,
        retry_after: Option<Duration>,
        random: &mut Random,
    ) -> Duration {
        let delay = self.delay(failures, random);
        match retry_after {
            Some(retry_after) if retry_after > delay => retry_after + delay,
            _ => delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_cap_with_jitter() {
        let mut random = Random::seeded(1);
        for (failures, step) in (0..).zip([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]) {
            let delay = Schedule::OBJECT.delay(failures, &mut random);
            let longest = step * SECOND;
            assert_eq!(Schedule::OBJECT.step(failures), longest);
            assert!(
                longest / 2 <= delay && delay <= longest,
                "{delay:?} of {longest:?}"
            );
        }
        for failures in [31, 32, u32::MAX] {
            assert_eq!(Schedule::OBJECT.step(failures), Schedule::OBJECT.cap);
        }
    }

    #[test]
    fn a_longer_retry_after_is_extended_by_the_delay() {
        let delay = |retry_after| {
            let mut random = Random::seeded(1);
            Schedule::OBJECT.delay_after(0, retry_after, &mut random)
        };
        let plain = delay(None);
        assert_eq!(delay(Some(SECOND / 4)), plain);
        assert_eq!(delay(Some(5 * SECOND)), 5 * SECOND + plain);
    }

    #[test]
    fn one_seed_gives_one_sequence_and_forks_differ() {
        let delays = |mut random| {
            let delays = (0..8).map(|failures| Schedule::WATCH.delay(failures, &mut random));
            delays.collect::<Vec<_>>()
        };
        assert_eq!(delays(Random::seeded(3)), delays(Random::seeded(3)));
        let mut random = Random::seeded(3);
        assert_ne!(delays(random.fork()), delays(random.fork()));
    }

    #[test]
    fn keys_that_fail_together_are_not_retried_together() {
        let mut random = Random::seeded(9);
        let delays: std::collections::BTreeSet<_> = (0..100)
            .map(|_| Schedule::OBJECT.delay(0, &mut random))
            .collect();
        assert!(delays.len() > 95, "{}", delays.len());
    }

    #[test]
    fn an_empty_range_gives_its_lower_bound() {
        let mut random = Random::seeded(1);
        assert_eq!(random.between(SECOND, SECOND), SECOND);
        assert_eq!(random.between(2 * SECOND, SECOND), 2 * SECOND);
    }
}
