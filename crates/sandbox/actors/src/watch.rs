//! Watching one kind, from its first list to the end.

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
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Kind;

/// After this long without a failure the next one is the first again.
const CALM: Duration = Duration::from_secs(60);

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// A list begins: what it does not name is gone.
    ListBegins,
    /// An object of a list.
    Listed(Value),
    /// The list is complete.
    ListEnds,
    /// An object is new or has changed.
    Changed(Value),
    /// An object is gone.
    Deleted(Value),
}

/// Watches all objects of a kind until it is told to stop. Troubles are logged and outlived.
pub(crate) fn watch(
    client: Client,
    kind: Kind,
    stop: CancellationToken,
) -> impl Stream<Item = (Kind, Told)> + Send {
    let api: Api<DynamicObject> = Api::all_with(client, &kind.api_resource());
    watcher(api, watcher::Config::default())
        .backoff(Delays::default())
        .filter_map(move |event| {
            let told = match event {
                Ok(Event::Init) => Some(Told::ListBegins),
                Ok(Event::InitApply(object)) => slim(object).map(Told::Listed),
                Ok(Event::InitDone) => Some(Told::ListEnds),
                Ok(Event::Apply(object)) => slim(object).map(Told::Changed),
                Ok(Event::Delete(object)) => slim(object).map(Told::Deleted),
                Err(error) => {
                    tracing::debug!(kind = kind.kind, %error, "watch interrupted");
                    None
                }
            };
            std::future::ready(told.map(|told| (kind, told)))
        })
        .take_until(stop.cancelled_owned())
}

fn slim(mut object: DynamicObject) -> Option<Value> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}

/// Doubling delays without jitter: one seed, one run.
///
/// They end with a time of calm, and not with the next event: the first event of every attempt to list
/// is its beginning, also on a server that does not know the kind and would be asked without end.
#[derive(Debug, Default)]
struct Delays {
    failures: u32,
    next_attempt: Option<Instant>,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.next_attempt.is_some_and(|at| at + CALM < now) {
            self.failures = 0;
        }
        let delay = Duration::from_millis(100).saturating_mul(1 << self.failures.min(9));
        let delay = delay.min(Duration::from_secs(30));
        self.failures = self.failures.saturating_add(1);
        self.next_attempt = Some(now + delay);
        Some(delay)
    }
}

impl Backoff for Delays {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_until_there_is_calm() {
        let mut delays = Delays::default();
        for expected in [100, 200, 400] {
            let delay = delays.next().unwrap();
            assert_eq!(delay, Duration::from_millis(expected));
            tokio::time::advance(delay).await;
            delays.reset();
        }
        tokio::time::advance(CALM + Duration::from_secs(1)).await;
        assert_eq!(delays.next(), Some(Duration::from_millis(100)));
    }
}
