//! What time it is: the system's, or tokio's virtual one counted from a given instant.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock that moves with tokio's, so that virtual time shows in the objects.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    started: Instant,
}

impl Clock {
    /// The system's time from here on.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// A clock that shows this time now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            started: Instant::now(),
        }
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        self.start
            .saturating_add(self.started.elapsed())
            .unwrap_or(self.start)
    }
}

/// What has passed since `then`; nothing if that is yet to come.
pub(crate) fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
