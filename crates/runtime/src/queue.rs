//! What is to be looked at, and when.
//!
//! A [`Queue`] holds keys, not work: whoever pops a key looks at everything there is to know about
//! it, so one look answers all that was asked for before it began.
//!
//! - A key is in the queue once, however often it is added; the earliest time that was asked for
//!   counts.
//! - A key that was popped is not handed out again until it is [`done`](Queue::done). What is asked
//!   for meanwhile is kept, and the key then goes to the end of the line.
//! - Keys that are due come in the order in which they became due, so no key can starve another.
//! - After a failure a key waits for longer and longer, unless something new is heard of it.
//! - Every key becomes due once in each interval, at a moment of its own.
//!
//! The queue has no clock and no tasks: times are handed in, and [`next_wake`](Queue::next_wake)
//! says how long its owner may sleep.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use crate::backoff::{Random, Schedule};

/// When keys become due by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How often every key is looked at although nothing was heard of it. None: never.
    pub resync: Option<Duration>,
    /// How long a key waits after failures.
    pub backoff: Schedule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            resync: None,
            backoff: Schedule::OBJECT,
        }
    }
}

/// What came of a look at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing left to do until something is heard of the key.
    Settled,
    /// There will be something to do at that time.
    Again(Instant),
    /// It did not work.
    Failed {
        /// The server asked to be left alone for that long.
        retry_after: Option<Duration>,
    },
    /// What the key names does not exist: the key is forgotten.
    Gone,
}

/// Keys that wait, are due, or are being looked at.
#[derive(Debug)]
pub struct Queue<K> {
    settings: Settings,
    start: Instant,
    /// What the keys' moments in an interval are derived from.
    seed: u64,
    random: Random,
    keys: BTreeMap<K, State>,
    waiting: BTreeMap<(Instant, u64), K>,
    due: VecDeque<K>,
    in_flight: usize,
    /// Tells apart keys that wait for the same moment, in the order of their coming.
    ticket: u64,
}

#[derive(Debug)]
struct State {
    place: Place,
    failures: u32,
}

#[derive(Debug)]
enum Place {
    Waiting(Instant, u64),
    Due,
    InFlight { again: Option<Instant> },
}

impl<K: Ord + Clone + Hash> Queue<K> {
    /// An empty queue. `start` is where the intervals begin.
    pub fn new(settings: Settings, start: Instant, mut random: Random) -> Self {
        Self {
            settings,
            start,
            seed: random.next(),
            random,
            keys: BTreeMap::new(),
            waiting: BTreeMap::new(),
            due: VecDeque::new(),
            in_flight: 0,
            ticket: 0,
        }
    }

    /// Something was heard of the key: it is due, whatever it waits for.
    pub fn add(&mut self, key: K, now: Instant) {
        self.add_after(key, now);
        self.promote(now);
    }

    /// The key is to be looked at at that time, if not earlier.
    pub fn add_after(&mut self, key: K, at: Instant) {
        match self.keys.get_mut(&key) {
            None => self.wait(key, at, 0),
            Some(state) => match &mut state.place {
                Place::Due => {}
                Place::InFlight { again } => {
                    *again = Some(again.map_or(at, |earlier| earlier.min(at)));
                }
                Place::Waiting(earlier, _) if *earlier <= at => {}
                Place::Waiting(later, ticket) => {
                    let old = (*later, *ticket);
                    let failures = state.failures;
                    self.waiting.remove(&old);
                    self.wait(key, at, failures);
                }
            },
        }
    }

    /// The key that has been due for longest. It is in flight until it is [`done`](Self::done).
    pub fn pop(&mut self, now: Instant) -> Option<K> {
        self.promote(now);
        let key = self.due.pop_front()?;
        if let Some(state) = self.keys.get_mut(&key) {
            state.place = Place::InFlight { again: None };
            self.in_flight += 1;
        }
        Some(key)
    }

    /// The key was looked at. Returns when it will be looked at next, if nothing is heard of it.
    pub fn done(&mut self, key: &K, outcome: Outcome, now: Instant) -> Option<Instant> {
        let state = self.keys.get(key)?;
        let Place::InFlight { again } = state.place else {
            return None;
        };
        let failures = match outcome {
            Outcome::Failed { .. } => state.failures.saturating_add(1),
            Outcome::Settled | Outcome::Again(_) | Outcome::Gone => 0,
        };
        let own = match outcome {
            Outcome::Settled => self.next_resync(key, now),
            Outcome::Again(at) => Some(self.next_resync(key, now).map_or(at, |sync| sync.min(at))),
            // A resync before the delay is over would make the delay worthless.
            Outcome::Failed { retry_after } => {
                let schedule = self.settings.backoff;
                let delay = schedule.delay(state.failures, &mut self.random);
                Some(now + delay.max(retry_after.unwrap_or_default()))
            }
            Outcome::Gone => None,
        };
        self.in_flight -= 1;
        let (key, _) = self.keys.remove_entry(key)?;
        let next = [again, own].into_iter().flatten().min();
        if let Some(at) = next {
            self.wait(key, at, failures);
            self.promote(now);
        }
        next
    }

    /// When there may be something to pop: a time in the past if there is already.
    pub fn next_wake(&self) -> Option<Instant> {
        if self.due.is_empty() {
            self.waiting.first_key_value().map(|((at, _), _)| *at)
        } else {
            Some(self.start)
        }
    }

    /// How often in a row looks at the key have failed.
    pub fn failures(&self, key: &K) -> u32 {
        self.keys.get(key).map_or(0, |state| state.failures)
    }

    /// How many keys are due and not yet looked at.
    pub fn depth(&mut self, now: Instant) -> usize {
        self.promote(now);
        self.due.len()
    }

    /// How many keys are being looked at.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many keys are known.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn wait(&mut self, key: K, at: Instant, failures: u32) {
        self.ticket += 1;
        let place = Place::Waiting(at, self.ticket);
        self.waiting.insert((at, self.ticket), key.clone());
        self.keys.insert(key, State { place, failures });
    }

    /// Puts in line what has become due.
    fn promote(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            if let Some(state) = self.keys.get_mut(&key) {
                state.place = Place::Due;
            }
            self.due.push_back(key);
        }
    }

    /// The key's own moment in each interval, which follows from its name alone: it is the same
    /// after every look, so a key that is often looked at cannot push it away.
    fn next_resync(&self, key: &K, now: Instant) -> Option<Instant> {
        let interval = self
            .settings
            .resync
            .filter(|interval| !interval.is_zero())?;
        let interval = interval.as_nanos();
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        let moment = u128::from(hasher.finish()) % interval;
        let passed = now.saturating_duration_since(self.start).as_nanos();
        let into = passed % interval;
        let wait = if moment > into {
            moment - into
        } else {
            interval - into + moment
        };
        now.checked_add(Duration::from_nanos(
            u64::try_from(wait).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests;
