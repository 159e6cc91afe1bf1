//! How soon writes to one object may follow each other.
//!
//! Failures are tried again later and later. So are writes that succeed and do not last, because
//! somebody else changes them back: they would follow each other as fast as the API server answers. A
//! conflict is nothing to tell of, unless it comes again and again though nobody has changed anything:
//! then the write is refused for another reason.

use std::time::Duration;

use runtime::backoff::{Random, Retry, Schedule};
use tokio::time::Instant;

/// So many writes may follow each other at once: the change of a CA takes three.
const BURST: u32 = 8;

/// What has stood for so long has lasted.
const LASTED: Duration = Duration::from_secs(600);

/// So many conflicts in a row are not by chance.
const CHANCE: u32 = 3;

pub(super) struct Pace {
    failures: Retry,
    undone: Retry,
    /// How many writes there were without a rest.
    writes: u32,
    /// When the last of them was.
    last: Option<Instant>,
    /// How many conflicts there were since the last change that was seen.
    conflicts: u32,
    /// No write is made before, whatever changes.
    rest: Option<Instant>,
    /// Nor before, unless something changes.
    retry: Option<Instant>,
}

impl Pace {
    pub(super) fn new(mut random: Random) -> Self {
        Self {
            failures: Retry::new(Schedule::OBJECT, random.fork()),
            undone: Retry::new(Schedule::OBJECT, random.fork()),
            writes: 0,
            last: None,
            conflicts: 0,
            rest: None,
            retry: None,
        }
    }

    /// When the next write may be made, if not now.
    pub(super) fn waits(&self, now: Instant) -> Option<Instant> {
        self.rest.max(self.retry).filter(|until| *until > now)
    }

    /// Something has changed that may help.
    pub(super) fn changed(&mut self) {
        self.conflicts = 0;
        self.retry = None;
    }

    /// A write has succeeded. If there were too many of them, tells for how long there is none.
    pub(super) fn written(&mut self, now: Instant) -> Option<Duration> {
        self.changed();
        self.failures.reset();
        if self.last.is_none_or(|last| now > last + LASTED) {
            self.writes = 0;
            self.undone.reset();
        }
        self.last = Some(now);
        self.writes += 1;
        let rest = (self.writes > BURST).then(|| self.undone.failed());
        self.rest = rest.map(|rest| now + rest);
        rest
    }

    /// A write has failed.
    pub(super) fn failed(&mut self, now: Instant) {
        self.retry = Some(now + self.failures.failed());
    }

    /// A write has failed, as if somebody was faster. Tells whether that cannot be.
    pub(super) fn conflicted(&mut self, now: Instant) -> bool {
        self.failed(now);
        self.conflicts += 1;
        self.conflicts >= CHANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace::new(Random::seeded(1))
    }

    #[test]
    fn writes_that_do_not_last_become_rare_and_those_that_do_are_not_held_up() {
        let (mut pace, mut now) = (pace(), Instant::now());
        let begun = now;
        let mut writes = 0;
        while now < begun + Duration::from_secs(3600) {
            pace.written(now);
            writes += 1;
            // The watch tells that it was changed back.
            pace.changed();
            now = pace.waits(now).unwrap_or(now + Duration::from_millis(1));
        }
        assert!((20..40).contains(&writes), "{writes}");
        let later = now + LASTED + Duration::from_secs(1);
        assert_eq!(pace.written(later), None);
        assert_eq!(pace.waits(later), None);
    }

    #[test]
    fn a_failure_is_tried_again_later_or_when_something_changes() {
        let (mut pace, now) = (pace(), Instant::now());
        pace.failed(now);
        assert!(pace.waits(now).is_some());
        assert_eq!(pace.waits(now + Duration::from_secs(1)), None);
        pace.failed(now);
        pace.changed();
        assert_eq!(pace.waits(now), None);
    }

    #[test]
    fn conflicts_without_a_change_are_told_and_others_are_not() {
        let (mut pace, now) = (pace(), Instant::now());
        for _ in 0..10 {
            assert!(!pace.conflicted(now));
            pace.changed();
        }
        let told: Vec<bool> = (0..4).map(|_| pace.conflicted(now)).collect();
        assert_eq!(told, [false, false, true, true]);
    }
}
