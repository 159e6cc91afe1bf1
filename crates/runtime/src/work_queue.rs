//! Work queue of keys to reconcile, with a periodic resync.
//!
//! A [`WorkQueue`] has keys, not work: a reconcile reads everything that is known of its key, so one
//! reconcile answers all events that came before it started.
//!
//! - A key is in the queue at most once, however often it is added; the earliest time wins.
//! - A popped key is in flight and is not popped again until it is [`done`](WorkQueue::done). If it is
//!   added meanwhile, it goes to the end of the queue when it is done.
//! - Keys that are due are popped in the order in which they became due, so no key starves another.
//! - Every key is resynced once per interval, at an offset of its own that spreads the load.
//!
//! The queue has no clock and no tasks: callers pass the time, and [`next_wake`](WorkQueue::next_wake)
//! returns how long the control loop may sleep. Backoff after failures is the caller's: it requeues
//! with [`Requeue::At`].

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use crate::backoff::Random;

/// When a key that was reconciled is reconciled again, if it is not added before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// At its next resync.
    AtResync,
    /// At that time, or at its next resync if that is earlier.
    At(Instant),
    /// Never: the object no longer exists.
    Never,
}

/// Keys that are scheduled, due or in flight.
#[derive(Debug)]
pub struct WorkQueue<K> {
    resync_interval: Option<Duration>,
    start: Instant,
    /// Seed of the keys' resync offsets.
    seed: u64,
    keys: BTreeMap<K, State>,
    scheduled: BTreeMap<(Instant, u64), K>,
    due: VecDeque<K>,
    /// Orders keys that are scheduled for the same time by when they were added.
    ticket: u64,
}

#[derive(Debug)]
enum State {
    Scheduled(Instant, u64),
    Due,
    InFlight { requeue_at: Option<Instant> },
}

impl<K: Ord + Clone + Hash> WorkQueue<K> {
    /// An empty queue. Resync intervals are counted from `start`; without one, no key is resynced.
    pub fn new(resync_interval: Option<Duration>, start: Instant, mut random: Random) -> Self {
        Self {
            resync_interval,
            start,
            seed: random.next(),
            keys: BTreeMap::new(),
            scheduled: BTreeMap::new(),
            due: VecDeque::new(),
            ticket: 0,
        }
    }

    /// Makes the key due now, whatever it was scheduled for.
    pub fn add(&mut self, key: K, now: Instant) {
        self.add_at(key, now);
        self.promote(now);
    }

    fn add_at(&mut self, key: K, at: Instant) {
        match self.keys.get_mut(&key) {
            None => self.schedule(key, at),
            Some(State::Due) => {}
            Some(State::InFlight { requeue_at }) => {
                *requeue_at = Some(requeue_at.map_or(at, |earlier| earlier.min(at)));
            }
            Some(State::Scheduled(earlier, _)) if *earlier <= at => {}
            Some(State::Scheduled(later, ticket)) => {
                let old = (*later, *ticket);
                self.scheduled.remove(&old);
                self.schedule(key, at);
            }
        }
    }

    /// The key that has been due for longest. It is in flight until it is [`done`](Self::done).
    pub fn pop(&mut self, now: Instant) -> Option<K> {
        self.promote(now);
        let key = self.due.pop_front()?;
        if let Some(state) = self.keys.get_mut(&key) {
            *state = State::InFlight { requeue_at: None };
        }
        Some(key)
    }

    /// Ends the reconcile of a popped key. Returns the time of the next one, if there is one.
    pub fn done(&mut self, key: &K, requeue: Requeue, now: Instant) -> Option<Instant> {
        let State::InFlight { requeue_at: added } = *self.keys.get(key)? else {
            return None;
        };
        let requested = match requeue {
            Requeue::AtResync => self.next_resync(key, now),
            Requeue::At(at) => Some(
                self.next_resync(key, now)
                    .map_or(at, |resync| resync.min(at)),
            ),
            Requeue::Never => None,
        };
        let (key, _) = self.keys.remove_entry(key)?;
        let next = [added, requested].into_iter().flatten().min();
        if let Some(at) = next {
            self.schedule(key, at);
            self.promote(now);
        }
        next
    }

    /// When the next key is due: a time in the past if one is due already.
    pub fn next_wake(&self) -> Option<Instant> {
        if self.due.is_empty() {
            self.scheduled.first_key_value().map(|((at, _), _)| *at)
        } else {
            Some(self.start)
        }
    }

    /// Number of keys that are due and not in flight.
    pub fn depth(&mut self, now: Instant) -> usize {
        self.promote(now);
        self.due.len()
    }

    fn schedule(&mut self, key: K, at: Instant) {
        self.ticket += 1;
        self.scheduled.insert((at, self.ticket), key.clone());
        self.keys.insert(key, State::Scheduled(at, self.ticket));
    }

    /// Moves keys whose time has come to the end of the queue.
    fn promote(&mut self, now: Instant) {
        while let Some(first) = self.scheduled.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            if let Some(state) = self.keys.get_mut(&key) {
                *state = State::Due;
            }
            self.due.push_back(key);
        }
    }

    /// The key's next resync. Its offset in the interval follows from the key alone, so frequent
    /// reconciles do not postpone it.
    fn next_resync(&self, key: &K, now: Instant) -> Option<Instant> {
        let interval = self
            .resync_interval
            .filter(|interval| !interval.is_zero())?;
        let interval = interval.as_nanos();
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        let offset = u128::from(hasher.finish()) % interval;
        let elapsed = now.saturating_duration_since(self.start).as_nanos() % interval;
        let wait = if offset > elapsed {
            offset - elapsed
        } else {
            interval - elapsed + offset
        };
        now.checked_add(Duration::from_nanos(
            u64::try_from(wait).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests;
