//! Events that people read in `kubectl describe`.
//!
//! A [`Recorder`] takes them without waiting, a [`Publisher`] sends them. Guaranteed:
//! - Recording never blocks or fails. An Event that cannot be sent is lost: it is news, not state.
//! - No storms. What is said again within [`AGAIN`] raises the count of the Event that is there, by
//!   at most one request in [`QUIET`]; of one object's Events, [`BURST`] are sent at once and then
//!   one every [`REFILL`].
//! - Memory is bounded, however many objects there are.
//! - Times are those of the recording. Names follow from what is said and when, so a run on paused
//!   time is repeatable.

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

use crate::text::{one_line, start};
use correlator::{Correlator, Series, Step};

pub use correlator::{AGAIN, BURST, QUIET, REFILL};

/// The longest message in bytes, as the API server takes it in `events.k8s.io`.
pub const MESSAGE: usize = 1024;

/// The longest reason in bytes, likewise.
const REASON: usize = 128;

/// How many Events wait to be sent. Further ones are lost.
const WAITING: usize = 4096;

/// How long a call may take. Nobody waits for it but other Events.
const CALL: Duration = Duration::from_secs(10);

/// How long sending may go on after the end was asked for.
const GRACE: Duration = Duration::from_secs(1);

/// Whether an Event needs a person's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// All goes as it should.
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

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object, with its uid if `kubectl describe` is to find the Event.
    pub object: ObjectReference,
    /// Whether it needs attention.
    pub event_type: EventType,
    /// One word in CamelCase.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// An event and when it was recorded.
#[derive(Debug)]
struct Recorded {
    event: Event,
    at: Instant,
    time: Timestamp,
}

/// Takes Events. A clone takes them for the same [`Publisher`].
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

/// Sends what [`Recorder`]s take.
#[derive(Debug)]
pub struct Publisher {
    queue: mpsc::Receiver<Recorded>,
    component: &'static str,
    correlator: Correlator,
}

/// A recorder and its publisher, which speaks as `component`. `clock` is the wall clock.
pub fn channel(
    component: &'static str,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> (Recorder, Publisher) {
    let (sender, receiver) = mpsc::channel(WAITING);
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
    /// Takes `event`, to be sent when there is time.
    pub fn record(&self, event: Event) {
        let reason = one_line(&event.reason);
        let event = Event {
            reason: start(&reason, REASON).to_owned(),
            message: bounded(&one_line(&event.message)),
            ..event
        };
        let recorded = Recorded {
            event,
            at: Instant::now(),
            time: (self.clock)(),
        };
        if let Err(error) = self.queue.try_send(recorded) {
            debug!(%error, "An Event is lost");
        }
    }
}

fn bounded(message: &str) -> String {
    const CUT: &str = "...";
    if message.len() <= MESSAGE {
        message.to_owned()
    } else {
        format!("{}{CUT}", start(message, MESSAGE - CUT.len()))
    }
}

impl Publisher {
    /// Sends until `token` is cancelled, and for a moment after that what was recorded before.
    ///
    /// The client decides what may still be written then: give one that knows of the lease.
    pub async fn run(mut self, client: Client, token: CancellationToken) {
        let end = async {
            token.cancelled().await;
            sleep(GRACE).await;
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
            .take(&recorded.event, recorded.at, recorded.time);
        let created = match step {
            Step::Nothing => return,
            Step::Create(series) => self.create(client, &recorded, &series).await,
            Step::Raise(series) => match self.raise(client, &recorded, &series).await {
                Ok(()) => return,
                // The API server forgets Events after an hour.
                Err(Failure::Api(kube::Error::Api(status))) if status.code == 404 => {
                    self.create(client, &recorded, &series).await
                }
                // The next time, its count is told with this one in it.
                Err(error) => return debug!(%error, "The count of an Event is not told"),
            },
        };
        match created {
            Ok(()) => {}
            // By an earlier try whose answer did not arrive: names are not shared.
            Err(Failure::Api(kube::Error::Api(status))) if status.reason == "AlreadyExists" => {}
            Err(error) => {
                debug!(%error, reason = recorded.event.reason, "An Event is lost");
                self.correlator.forget(&key);
            }
        }
    }

    async fn create(
        &self,
        client: &Client,
        recorded: &Recorded,
        series: &Series,
    ) -> Result<(), Failure> {
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
        timeout(CALL, events.create(&PostParams::default(), &event)).await??;
        Ok(())
    }

    async fn raise(
        &self,
        client: &Client,
        recorded: &Recorded,
        series: &Series,
    ) -> Result<(), Failure> {
        let change = json!({"count": series.count, "lastTimestamp": Time(recorded.time)});
        let events: Api<CoreEvent> = Api::namespaced(client.clone(), &series.namespace);
        let patch = Patch::Merge(&change);
        timeout(
            CALL,
            events.patch(&series.name, &PatchParams::default(), &patch),
        )
        .await??;
        Ok(())
    }
}

/// Why an Event was not sent.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer in time")]
    Timeout(#[from] tokio::time::error::Elapsed),
}
