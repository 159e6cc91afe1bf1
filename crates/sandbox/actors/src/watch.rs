//! Watch of all objects of one kind, with backoff.
//!
//! Errors are logged and the watch is restarted; the stream does not end.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    core::DynamicObject,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use runtime::backoff::Schedule;
use serde_json::Value;
use tokio::time::Instant;

use crate::Kind;

const BACKOFF: Schedule = Schedule {
    first: Duration::from_millis(100),
    cap: Duration::from_secs(30),
};

/// Time without a failure after which the backoff starts over.
const BACKOFF_RESET: Duration = Duration::from_secs(60);

/// Watches all objects of a kind.
pub(crate) fn watch(client: Client, kind: Kind) -> impl Stream<Item = Event<Value>> + Send {
    let api: Api<DynamicObject> = Api::all_with(client, &kind.api_resource());
    watcher(api, watcher::Config::default())
        .backoff(WatchBackoff::default())
        .filter_map(move |event| {
            let event = match event {
                Ok(Event::Init) => Some(Event::Init),
                Ok(Event::InitApply(object)) => slim(object).map(Event::InitApply),
                Ok(Event::InitDone) => Some(Event::InitDone),
                Ok(Event::Apply(object)) => slim(object).map(Event::Apply),
                Ok(Event::Delete(object)) => slim(object).map(Event::Delete),
                Err(error) => {
                    tracing::debug!(kind = kind.kind, %error, "watch failed, restarting it");
                    None
                }
            };
            std::future::ready(event)
        })
}

/// The object as JSON, without `managedFields`.
fn slim(mut object: DynamicObject) -> Option<Value> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}

/// Doubling backoff without jitter, so that runs with one seed are identical.
///
/// Reset by [`BACKOFF_RESET`] without failures, not by the next event: every list attempt starts with
/// an event, even on a server that does not serve the kind, and a reset would retry it in a tight loop.
#[derive(Debug, Default)]
struct WatchBackoff {
    failures: u32,
    next_attempt: Option<Instant>,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.next_attempt.is_some_and(|at| at + BACKOFF_RESET < now) {
            self.failures = 0;
        }
        let delay = BACKOFF.step(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.next_attempt = Some(now + delay);
        Some(delay)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_delay_doubles_and_resets_after_a_minute_without_failures() {
        let mut backoff = WatchBackoff::default();
        for expected in [100, 200, 400] {
            let delay = backoff.next().unwrap();
            assert_eq!(delay, Duration::from_millis(expected));
            tokio::time::advance(delay).await;
            backoff.reset();
        }
        tokio::time::advance(BACKOFF_RESET + Duration::from_secs(1)).await;
        assert_eq!(backoff.next(), Some(Duration::from_millis(100)));
    }
}
