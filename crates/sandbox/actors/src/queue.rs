//! Which keys are to be decided next.
//!
//! A key is in the queue at most once and is decided by one decision at a time; a change that comes
//! while it is being decided puts it back. First come, first served, so one busy key starves no other;
//! actors are served in turn.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::object::Key;

/// A key of an actor, which is known by its number.
pub(crate) type Item = (usize, Key);

const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By actor.
    ready: BTreeMap<usize, VecDeque<Key>>,
    waiting: BTreeSet<Item>,
    running: BTreeSet<Item>,
    /// Came while they were running.
    again: BTreeSet<Item>,
    due: BTreeMap<Item, Instant>,
    timers: BTreeSet<(Instant, Item)>,
    failures: BTreeMap<Item, u32>,
    /// The actor that was served last.
    last: usize,
}

impl Queue {
    pub fn add(&mut self, item: Item) {
        if self.running.contains(&item) {
            self.again.insert(item);
        } else if self.waiting.insert(item.clone()) {
            self.ready.entry(item.0).or_default().push_back(item.1);
        }
    }

    /// Adds a key at a later time, unless it is due before that already.
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

    /// When the next timer goes off.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Puts the keys whose time has come into the queue.
    pub fn wake(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, item)) = self.timers.pop_first() {
                self.due.remove(&item);
                self.add(item);
            }
        }
    }

    /// The next key of an actor that may work, each actor in its turn.
    pub fn take(&mut self, may_work: impl Fn(usize, bool) -> bool) -> Option<Item> {
        let after = self.ready.range(self.last + 1..);
        let actor = after
            .chain(self.ready.range(..=self.last))
            .find_map(|(&actor, keys)| {
                (!keys.is_empty() && may_work(actor, self.is_running(actor))).then_some(actor)
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

    /// The decision about a key has been carried out.
    pub fn done(&mut self, item: &Item) {
        self.failures.remove(item);
        self.ended(item);
    }

    /// The decision about a key could not be carried out: it will be made again after a while.
    pub fn failed(&mut self, item: &Item, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = FIRST_RETRY
            .saturating_mul(1 << (*failures).min(16))
            .min(LAST_RETRY);
        *failures = failures.saturating_add(1);
        self.add_at(item.clone(), now + delay);
        self.ended(item);
    }

    fn ended(&mut self, item: &Item) {
        self.running.remove(item);
        if self.again.remove(item) {
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
    fn a_key_is_decided_by_one_decision_at_a_time() {
        let mut queue = Queue::default();
        queue.add(item("a"));
        queue.add(item("a"));
        assert_eq!(queue.take(any), Some(item("a")));
        queue.add(item("a"));
        assert_eq!(queue.take(any), None);
        queue.done(&item("a"));
        assert_eq!(queue.take(any), Some(item("a")));
        queue.done(&item("a"));
        assert_eq!(queue.take(any), None);
    }

    #[test]
    fn the_earlier_of_two_timers_counts() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add_at(item("a"), now + Duration::from_secs(5));
        queue.add_at(item("a"), now + Duration::from_secs(2));
        queue.add_at(item("a"), now + Duration::from_secs(9));
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(2)));
        queue.wake(now + Duration::from_secs(3));
        assert_eq!(queue.take(any), Some(item("a")));
        assert_eq!(queue.next_timer(), None);
    }

    #[test]
    fn failures_are_retried_later_and_later_up_to_a_minute() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..40 {
            queue.add(item("a"));
            queue.take(any);
            queue.failed(&item("a"), now);
            let at = queue.next_timer().unwrap();
            delays.push(at - now);
            queue.wake(at);
            queue.take(any);
            queue.ended(&item("a"));
        }
        assert_eq!(delays[0], FIRST_RETRY);
        assert_eq!(delays[1], FIRST_RETRY * 2);
        assert_eq!(delays[39], LAST_RETRY);
    }
}
