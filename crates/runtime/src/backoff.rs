//! How long to wait after failures.
//!
//! Delays double from failure to failure up to a cap, and no two that fail together wait equally
//! long: each delay is drawn from the upper half of its step. All randomness comes from a seed, so
//! that a run can be repeated.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use apimachinery::random::SplitMix64;

/// A repeatable sequence of random numbers (SplitMix64). Good enough to spread retries, and for
/// nothing that has to be secret.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The sequence of `seed`.
    pub const fn seeded(seed: u64) -> Self {
        Self(SplitMix64::seeded(seed))
    }

    /// A sequence that differs from process to process.
    pub fn from_entropy() -> Self {
        Self::seeded(RandomState::new().hash_one(()))
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A sequence of its own for somebody else.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self::seeded(self.next())
    }

    /// A duration from `from` up to, and not including, `to`; `from` when there is none between.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_nanos()).unwrap_or(u64::MAX);
        // The high half of the product is below `span`, and needs no division.
        let drawn = (u128::from(self.next()) * u128::from(span)) >> 64;
        from + Duration::from_nanos(u64::try_from(drawn).unwrap_or_default())
    }
}

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The longest delay after the first failure.
    pub first: Duration,
    /// The longest delay of all.
    pub cap: Duration,
}

impl Schedule {
    /// For objects: a Machine that cannot be helped costs one attempt in five minutes.
    pub const OBJECT: Self = Self {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(300),
    };

    /// For watches: without them the operator is blind, so they are tried more often.
    pub const WATCH: Self = Self {
        first: Duration::from_secs(1),
        cap: Duration::from_secs(30),
    };

    /// How long to wait when `failures` came before the latest one: at least half of the step, at
    /// most all of it.
    pub fn delay(self, failures: u32, random: &mut Random) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let step = self.first.saturating_mul(factor).min(self.cap);
        random.between(step / 2, step)
    }
}

/// The delays of one thing that is retried, such as a watch.
#[derive(Clone, Debug)]
pub struct Retry {
    schedule: Schedule,
    random: Random,
    failures: u32,
}

impl Retry {
    /// Nothing has failed yet.
    pub const fn new(schedule: Schedule, random: Random) -> Self {
        Self {
            schedule,
            random,
            failures: 0,
        }
    }

    /// It failed: how long to wait.
    pub fn failed(&mut self) -> Duration {
        let delay = self.schedule.delay(self.failures, &mut self.random);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// It worked: the next failure is a first one again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The delays of many things, each with its own count of failures. It remembers only those that
/// have failed since they last worked.
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    schedule: Schedule,
    random: Random,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord> Backoff<K> {
    /// Nothing has failed yet.
    pub const fn new(schedule: Schedule, random: Random) -> Self {
        Self {
            schedule,
            random,
            failures: BTreeMap::new(),
        }
    }

    /// `key` failed: how long to wait.
    pub fn failed(&mut self, key: K) -> Duration {
        let failures = self.failures.entry(key).or_insert(0);
        let delay = self.schedule.delay(*failures, &mut self.random);
        *failures = failures.saturating_add(1);
        delay
    }

    /// `key` worked, or is gone: its next failure is a first one again.
    pub fn reset(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// How many have failed since they last worked.
    pub fn failing(&self) -> usize {
        self.failures.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_cap_and_stay_in_the_upper_half_of_their_step() {
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
        assert_eq!(backoff.failing(), 2);
        backoff.reset(&"bad");
        assert_eq!(backoff.failing(), 1);
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
    fn those_that_fail_together_do_not_come_back_together() {
        let mut backoff = Backoff::new(Schedule::OBJECT, Random::seeded(9));
        let delays: std::collections::BTreeSet<_> =
            (0..100).map(|key| backoff.failed(key)).collect();
        assert!(delays.len() > 95, "{}", delays.len());
    }

    #[test]
    fn nothing_between_is_the_lower_bound() {
        let mut random = Random::seeded(1);
        assert_eq!(random.between(SECOND, SECOND), SECOND);
        assert_eq!(random.between(2 * SECOND, SECOND), 2 * SECOND);
    }
}
