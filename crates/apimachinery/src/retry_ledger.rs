//! Retry ledger: number of failures, time of the next attempt and the reason, by key.
//!
//! - Only keys that have failed since their last success are in the ledger.
//! - A success [clears](RetryLedger::clear) its key. A change that may help makes a key due earlier:
//!   [`reschedule`](RetryLedger::reschedule) keeps the number of failures, so that the next delay is
//!   longer still; [`restart`](RetryLedger::restart) does not.
//! - The ledger has neither clock nor random source: the caller computes the time of the next attempt
//!   from the number of failures. Times may be of any type.

use std::collections::BTreeMap;

/// Failed attempts for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry<R, T> {
    /// Number of failures since the last success.
    pub failures: u32,
    /// Time of the next attempt.
    pub retry_at: T,
    /// Why the last attempt failed.
    pub reason: R,
}

/// Failed attempts by key.
#[derive(Clone, Debug)]
pub struct RetryLedger<K, R, T>(BTreeMap<K, Retry<R, T>>);

impl<K, R, T> Default for RetryLedger<K, R, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, R, T: Clone> RetryLedger<K, R, T> {
    pub fn get(&self, key: &K) -> Option<&Retry<R, T>> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut Retry<R, T>> {
        self.0.get_mut(key)
    }

    /// Time of the next attempt, if the last one failed.
    pub fn retry_at(&self, key: &K) -> Option<T> {
        self.0.get(key).map(|retry| retry.retry_at.clone())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &Retry<R, T>)> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut Retry<R, T>)> {
        self.0.iter_mut()
    }

    /// Records a failure. `retry_at` gets the number of failures before this one. Returns its result.
    pub fn fail(&mut self, key: K, reason: R, retry_at: impl FnOnce(u32) -> T) -> T {
        let before = self.0.get(&key).map_or(0, |retry| retry.failures);
        let retry_at = retry_at(before);
        let retry = Retry {
            failures: before.saturating_add(1),
            retry_at: retry_at.clone(),
            reason,
        };
        self.0.insert(key, retry);
        retry_at
    }

    /// Forgets the failures of a key, after a success or when it is gone.
    pub fn clear(&mut self, key: &K) -> Option<Retry<R, T>> {
        self.0.remove(key)
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K) -> bool) {
        self.0.retain(|key, _| is_kept(key));
    }

    /// Changes the time of the next attempt.
    pub fn reschedule(&mut self, key: &K, retry_at: T) {
        if let Some(retry) = self.0.get_mut(key) {
            retry.retry_at = retry_at;
        }
    }

    /// Changes the time of the next attempt; further delays are those after a first failure.
    pub fn restart(&mut self, key: &K, retry_at: T) {
        if let Some(retry) = self.0.get_mut(key) {
            retry.failures = 0;
            retry.retry_at = retry_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled(failures: u32) -> u64 {
        1 << failures
    }

    #[test]
    fn each_key_has_its_own_count_until_it_succeeds() {
        let mut ledger = RetryLedger::default();
        for expected in [1, 2, 4] {
            assert_eq!(ledger.fail("bad", (), doubled), expected);
        }
        assert_eq!(ledger.fail("good", (), doubled), 1);
        assert_eq!(ledger.retry_at(&"bad"), Some(4));
        assert_eq!(ledger.clear(&"bad").unwrap().failures, 3);
        assert_eq!(ledger.retry_at(&"bad"), None);
        assert_eq!(ledger.fail("bad", (), doubled), 1);
    }

    #[test]
    fn the_reason_is_that_of_the_last_failure() {
        let mut ledger = RetryLedger::default();
        ledger.fail("a", "quota", doubled);
        ledger.fail("a", "webhook", doubled);
        assert_eq!(ledger.get(&"a").unwrap().reason, "webhook");
    }

    #[test]
    fn an_earlier_attempt_counts_further_or_from_the_start() {
        let mut ledger = RetryLedger::default();
        ledger.fail("a", (), doubled);
        ledger.fail("a", (), doubled);
        ledger.reschedule(&"a", 0);
        assert_eq!(ledger.retry_at(&"a"), Some(0));
        assert_eq!(ledger.fail("a", (), doubled), 4);
        ledger.restart(&"a", 0);
        assert_eq!(ledger.retry_at(&"a"), Some(0));
        assert_eq!(ledger.fail("a", (), doubled), 1);
        ledger.restart(&"b", 0);
        assert!(ledger.get(&"b").is_none());
    }
}
