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
use tokio_util::sync::CancellationToken;

use crate::Kind;

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
#[derive(Debug, Default)]
struct Delays {
    failures: u32,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = Duration::from_millis(100).saturating_mul(1 << self.failures.min(9));
        self.failures = self.failures.saturating_add(1);
        Some(delay.min(Duration::from_secs(30)))
    }
}

impl Backoff for Delays {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
