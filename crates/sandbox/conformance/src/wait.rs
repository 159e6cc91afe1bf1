//! Waiting for what happens behind the API. Always on tokio's clock, which a test may have paused.

use std::time::Duration;

/// How often a condition is looked at before a case fails.
pub(crate) const TRIES: usize = 400;

/// How long a single answer or event may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(70);

/// How often a watch that ends in silence is opened again before a case fails.
pub(crate) const REOPENINGS: usize = 10;

/// The pause between two looks.
pub(crate) async fn a_little() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
