//! Kubernetes Events: recorder, correlator and publisher.
//!
//! A [`Recorder`] queues Events, a [`Publisher`] sends them. Guaranteed:
//! - Recording never blocks or fails. An Event that cannot be sent is dropped.
//! - No storms. An Event that is repeated within [`REPEAT_WINDOW`] increments the count of the existing
//!   one, with at most one request per [`COUNT_INTERVAL`]. Of one object's Events, [`BURST`] are sent at
//!   once and then one per [`REFILL_INTERVAL`].
//! - Memory is bounded, however many objects there are.
//! - Timestamps are those of the recording. Names follow from content and time, so that a run on
//!   virtual time is repeatable.

mod correlator;
mod lru;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event as CoreEvent, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::text::{one_line, prefix};
use correlator::{Correlator, Series, Step};

pub use correlator::{BURST, COUNT_INTERVAL, REFILL_INTERVAL, REPEAT_WINDOW};

/// The API server's limit in `events.k8s.io`.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// The API server's limit in `events.k8s.io`.
const MAX_REASON_BYTES: usize = 128;

/// Events beyond this queue length are dropped.
const QUEUE_CAPACITY: usize = 4096;

/// Generous, since only other Events wait for a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which queued Events are still sent after shutdown was requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    Normal,
    /// Something may need a person.
    Warning,
}

impl EventType {
    /// As the API writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Needs the UID for `kubectl describe` to find the Event.
    pub object: ObjectReference,
    pub event_type: EventType,
    /// CamelCase.
    pub reason: String,
    pub message: String,
}

#[derive(Debug)]
struct Recorded {
    event: Event,
    at: Instant,
    time: Timestamp,
}

/// Queues Events. Clones queue for the same [`Publisher`].
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Recorded>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// Sends the Events of its [`Recorder`]s.
#[derive(Debug)]
pub struct Publisher {
    queue: mpsc::Receiver<Recorded>,
    component: &'static str,
    correlator: Correlator,
}

/// A recorder and its publisher for events from `component`. `clock` is the wall clock.
pub fn channel(
    component: &'static str,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> (Recorder, Publisher) {
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let recorder = Recorder {
        queue: sender,
        clock: Arc::new(clock),
    };
    let publisher = Publisher {
        queue: receiver,
        component,
        correlator: Correlator::default(),
    };
    (recorder, publisher)
}

impl Recorder {
    /// Queues `event`.
    pub fn record(&self, event: Event) {
        let reason = one_line(&event.reason);
        let event = Event {
            reason: prefix(&reason, MAX_REASON_BYTES).to_owned(),
            message: bounded(&one_line(&event.message)),
            ..event
        };
        let recorded = Recorded {
            event,
            at: Instant::now(),
            time: (self.clock)(),
        };
        if let Err(error) = self.queue.try_send(recorded) {
            debug!(%error, "dropped an Event: the queue is full");
        }
    }
}

fn bounded(message: &str) -> String {
    const CUT: &str = "...";
    if message.len() <= MAX_MESSAGE_BYTES {
        message.to_owned()
    } else {
        format!("{}{CUT}", prefix(message, MAX_MESSAGE_BYTES - CUT.len()))
    }
}

impl Publisher {
    /// Sends until `token` is cancelled, and then for a moment the Events that were queued before.
    ///
    /// `client` should be fenced, so that no Event is sent after leadership is lost.
    pub async fn run(mut self, client: Client, token: CancellationToken) {
        let end = async {
            token.cancelled().await;
            sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            () = self.publish(&client, &token) => {}
            () = end => {}
        }
    }

    async fn publish(&mut self, client: &Client, token: &CancellationToken) {
        loop {
            let recorded = if token.is_cancelled() {
                self.queue.try_recv().ok()
            } else {
                tokio::select! {
                    recorded = self.queue.recv() => recorded,
                    () = token.cancelled() => continue,
                }
            };
            let Some(recorded) = recorded else {
                return;
            };
            self.send(client, recorded).await;
        }
    }

    async fn send(&mut self, client: &Client, recorded: Recorded) {
        let (step, key) = self
            .correlator
            .correlate(&recorded.event, recorded.at, recorded.time);
        let created = match step {
            Step::Nothing => return,
            Step::Create(series) => self.create(client, &recorded, &series).await,
            Step::IncrementCount(series) => {
                match self.increment_count(client, &recorded, &series).await {
                    Ok(()) => return,
                    // API servers delete Events after an hour.
                    Err(SendError::Api(kube::Error::Api(status))) if status.code == 404 => {
                        self.create(client, &recorded, &series).await
                    }
                    // The next update includes this one.
                    Err(error) => return debug!(%error, "cannot update the count of an Event"),
                }
            }
        };
        match created {
            Ok(()) => {}
            // Created by an earlier request whose answer was lost: names are unique.
            Err(SendError::Api(kube::Error::Api(status))) if status.reason == "AlreadyExists" => {}
            Err(error) => {
                debug!(%error, reason = recorded.event.reason, "dropped an Event: cannot create it");
                self.correlator.forget(&key);
            }
        }
    }

    async fn create(
        &self,
        client: &Client,
        recorded: &Recorded,
        series: &Series,
    ) -> Result<(), SendError> {
        let Event {
            object,
            event_type,
            reason,
            message,
        } = &recorded.event;
        let event = CoreEvent {
            metadata: ObjectMeta {
                namespace: Some(series.namespace.clone()),
                name: Some(series.name.clone()),
                ..ObjectMeta::default()
            },
            involved_object: object.clone(),
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.clone()),
            message: Some(message.clone()),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(self.component.to_owned()),
            count: Some(series.count),
            first_timestamp: Some(Time(series.first)),
            last_timestamp: Some(Time(recorded.time)),
            ..CoreEvent::default()
        };
        let events: Api<CoreEvent> = Api::namespaced(client.clone(), &series.namespace);
        timeout(CALL_TIMEOUT, events.create(&PostParams::default(), &event)).await??;
        Ok(())
    }

    async fn increment_count(
        &self,
        client: &Client,
        recorded: &Recorded,
        series: &Series,
    ) -> Result<(), SendError> {
        let change = json!({"count": series.count, "lastTimestamp": Time(recorded.time)});
        let events: Api<CoreEvent> = Api::namespaced(client.clone(), &series.namespace);
        let patch = Patch::Merge(&change);
        timeout(
            CALL_TIMEOUT,
            events.patch(&series.name, &PatchParams::default(), &patch),
        )
        .await??;
        Ok(())
    }
}

/// SendError of a request for an Event.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer in time")]
    Timeout(#[from] tokio::time::error::Elapsed),
}
