//! Exponential backoff with jitter.
//!
//! Delays double with each failure up to a cap. Each is drawn from the upper half of its step, so that
//! keys that fail together are not retried together. All randomness comes from a seed, so that a run
//! can be repeated.

use std::{
    collections::BTreeMap,
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

    /// Delay after a failure that follows `failures` others: between half of the step and the step.
    pub fn delay(self, failures: u32, random: &mut Random) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let step = self.first.saturating_mul(factor).min(self.cap);
        random.between(step / 2, step)
    }
}

/// Backoff of a single operation.
#[derive(Clone, Debug)]
pub struct Retry {
    schedule: Schedule,
    random: Random,
    failures: u32,
}

impl Retry {
    pub const fn new(schedule: Schedule, random: Random) -> Self {
        Self {
            schedule,
            random,
            failures: 0,
        }
    }

    /// Counts a failure and returns the delay before the retry.
    pub fn failed(&mut self) -> Duration {
        let delay = self.schedule.delay(self.failures, &mut self.random);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Starts over after a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Backoff by key. Only keys that have failed since their last success take memory.
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    schedule: Schedule,
    random: Random,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord> Backoff<K> {
    pub const fn new(schedule: Schedule, random: Random) -> Self {
        Self {
            schedule,
            random,
            failures: BTreeMap::new(),
        }
    }

    /// Counts a failure of `key` and returns the delay before the retry.
    pub fn failed(&mut self, key: K) -> Duration {
        let failures = self.failures.entry(key).or_insert(0);
        let delay = self.schedule.delay(*failures, &mut self.random);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Starts over after a success of `key`, or when it is gone.
    pub fn reset(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_cap_with_jitter() {
        let mut retry = Retry::new(Schedule::OBJECT, Random::seeded(1));
        for step in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] {
            let delay = retry.failed();
            let longest = step * SECOND;
            assert!(
                longest / 2 <= delay && delay <= longest,
                "{delay:?} of {longest:?}"
            );
        }
        for _ in 0..100 {
            assert!(retry.failed() <= Schedule::OBJECT.cap);
        }
    }

    #[test]
    fn a_success_starts_over() {
        let mut retry = Retry::new(Schedule::WATCH, Random::seeded(1));
        for _ in 0..10 {
            retry.failed();
        }
        retry.reset();
        assert!(retry.failed() <= SECOND);
    }

    #[test]
    fn each_key_has_its_own_count() {
        let mut backoff = Backoff::new(Schedule::OBJECT, Random::seeded(7));
        for _ in 0..8 {
            backoff.failed("bad");
        }
        assert!(backoff.failed("good") <= SECOND);
        assert!(backoff.failed("bad") >= 100 * SECOND);
        assert_eq!(backoff.failures.len(), 2);
        backoff.reset(&"bad");
        assert_eq!(backoff.failures.len(), 1);
        assert!(backoff.failed("bad") <= SECOND);
    }

    #[test]
    fn one_seed_gives_one_sequence_and_forks_differ() {
        let delays = |random| {
            let mut retry = Retry::new(Schedule::WATCH, random);
            (0..8).map(|_| retry.failed()).collect::<Vec<_>>()
        };
        assert_eq!(delays(Random::seeded(3)), delays(Random::seeded(3)));
        let mut random = Random::seeded(3);
        assert_ne!(delays(random.fork()), delays(random.fork()));
    }

    #[test]
    fn keys_that_fail_together_are_not_retried_together() {
        let mut backoff = Backoff::new(Schedule::OBJECT, Random::seeded(9));
        let delays: std::collections::BTreeSet<_> =
            (0..100).map(|key| backoff.failed(key)).collect();
        assert!(delays.len() > 95, "{}", delays.len());
    }

    #[test]
    fn an_empty_range_gives_its_lower_bound() {
        let mut random = Random::seeded(1);
        assert_eq!(random.between(SECOND, SECOND), SECOND);
        assert_eq!(random.between(2 * SECOND, SECOND), 2 * SECOND);
    }
}
