//! Server clock.
//!
//! Follows tokio's clock: a test that pauses tokio's time also pauses the timestamps of its
//! objects.

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall-clock time that advances with tokio's time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// Must be called inside a tokio runtime.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            origin: Instant::now(),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.start
            .checked_add(self.origin.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    /// RFC 3339 in UTC, in whole seconds, as in `metadata`.
    pub fn timestamp(&self) -> String {
        format_seconds(self.now())
    }
}

/// RFC 3339 in UTC, in whole seconds.
pub fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
