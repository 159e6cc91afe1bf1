//! Clock of the actors: starts at a given time and advances with tokio's.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Advances with tokio's clock, so that objects carry virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    started: Instant,
}

impl Clock {
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            started: Instant::now(),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.start
            .saturating_add(self.started.elapsed())
            .unwrap_or(self.start)
    }
}

/// Time since `then`; zero if `then` is in the future.
pub(crate) fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
