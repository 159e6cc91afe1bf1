//! Work queue of all actors, with per-key backoff.
//!
//! A key is queued at most once and reconciled by one reconcile at a time; an event during its
//! reconcile requeues it. Keys of an actor are served first in, first out, so a busy key starves no
//! other; actors are served round-robin.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use apimachinery::retry_ledger::RetryLedger;
use runtime::backoff::Schedule;
use tokio::time::Instant;

use crate::object::Key;

/// Index of an actor, and one of its keys.
pub(crate) type Item = (usize, Key);

/// Without jitter: there is one client.
const BACKOFF: Schedule = Schedule {
    first: Duration::from_millis(10),
    cap: Duration::from_secs(60),
};

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By index of the actor.
    ready: BTreeMap<usize, VecDeque<Key>>,
    waiting: BTreeSet<Item>,
    running: BTreeSet<Item>,
    /// Added while their reconcile was running.
    dirty: BTreeSet<Item>,
    due: BTreeMap<Item, Instant>,
    timers: BTreeSet<(Instant, Item)>,
    retries: RetryLedger<Item, (), Instant>,
    /// Actor that was served last.
    last: usize,
}

impl Queue {
    pub fn add(&mut self, item: Item) {
        if self.running.contains(&item) {
            self.dirty.insert(item);
        } else if self.waiting.insert(item.clone()) {
            self.ready.entry(item.0).or_default().push_back(item.1);
        }
    }

    /// Adds a key at a later time, unless it is due sooner.
    pub fn add_at(&mut self, item: Item, at: Instant) {
        if let Some(due) = self.due.get(&item) {
            if *due <= at {
                return;
            }
            self.timers.remove(&(*due, item.clone()));
        }
        self.due.insert(item.clone(), at);
        self.timers.insert((at, item));
    }

    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Queues the keys whose timer has expired.
    pub fn enqueue_due(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, item)) = self.timers.pop_first() {
                self.due.remove(&item);
                self.add(item);
            }
        }
    }

    /// Next key of an actor that `is_eligible`, actors in turn. Its arguments: the actor, and whether
    /// one of its keys is being reconciled.
    pub fn pop(&mut self, is_eligible: impl Fn(usize, bool) -> bool) -> Option<Item> {
        let after = self.ready.range(self.last + 1..);
        let actor = after
            .chain(self.ready.range(..=self.last))
            .find_map(|(&actor, keys)| {
                (!keys.is_empty() && is_eligible(actor, self.is_running(actor))).then_some(actor)
            })?;
        let key = self.ready.get_mut(&actor)?.pop_front()?;
        self.last = actor;
        let item = (actor, key);
        self.waiting.remove(&item);
        self.running.insert(item.clone());
        Some(item)
    }

    fn is_running(&self, actor: usize) -> bool {
        let from = (actor, Key::default());
        self.running
            .range(from..)
            .next()
            .is_some_and(|(running, _)| *running == actor)
    }

    /// Ends a reconcile and resets the key's backoff.
    pub fn succeed(&mut self, item: &Item) {
        self.retries.clear(item);
        self.finish(item);
    }

    /// Ends a reconcile whose writes failed, and requeues the key with backoff.
    pub fn fail(&mut self, item: &Item, now: Instant) {
        let retry_at = |failures| now + BACKOFF.step(failures);
        let retry_at = self.retries.fail(item.clone(), (), retry_at);
        self.add_at(item.clone(), retry_at);
        self.finish(item);
    }

    fn finish(&mut self, item: &Item) {
        self.running.remove(item);
        if self.dirty.remove(item) {
            self.add(item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        (0, Key::cluster(name))
    }

    fn any(_: usize, _: bool) -> bool {
        true
    }

    #[test]
    fn a_key_has_one_reconcile_at_a_time() {
        let mut queue = Queue::default();
        queue.add(item("a"));
        queue.add(item("a"));
        assert_eq!(queue.pop(any), Some(item("a")));
        queue.add(item("a"));
        assert_eq!(queue.pop(any), None);
        queue.succeed(&item("a"));
        assert_eq!(queue.pop(any), Some(item("a")));
        queue.succeed(&item("a"));
        assert_eq!(queue.pop(any), None);
    }

    #[test]
    fn the_earlier_of_two_timers_counts() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add_at(item("a"), now + Duration::from_secs(5));
        queue.add_at(item("a"), now + Duration::from_secs(2));
        queue.add_at(item("a"), now + Duration::from_secs(9));
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(2)));
        queue.enqueue_due(now + Duration::from_secs(3));
        assert_eq!(queue.pop(any), Some(item("a")));
        assert_eq!(queue.next_timer(), None);
    }

    #[test]
    fn failures_are_retried_with_backoff_up_to_a_minute() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..40 {
            queue.add(item("a"));
            queue.pop(any);
            queue.fail(&item("a"), now);
            let at = queue.next_timer().unwrap();
            delays.push(at - now);
            queue.enqueue_due(at);
            queue.pop(any);
            queue.finish(&item("a"));
        }
        assert_eq!(delays[0], BACKOFF.first);
        assert_eq!(delays[1], BACKOFF.first * 2);
        assert_eq!(delays[39], BACKOFF.cap);
    }
}
