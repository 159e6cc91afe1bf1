//! Waits and timeouts, on tokio's clock, which a test may have paused.

use std::time::Duration;

/// How often a condition is checked before a case fails.
pub(crate) const MAX_ATTEMPTS: usize = 400;

/// Timeout of a single response or event.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

/// How often a watch that closed without events is reopened before a case fails.
pub(crate) const MAX_REOPENS: usize = 10;

/// Pause between two checks of a condition.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
