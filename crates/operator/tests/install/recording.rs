//! Recording of the watch events of one kind, in order.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    harness::objects,
    scenario::{InstallScenario, as_value, condition},
};

/// Time after which a change must have been recorded.
const MAX_LAG: Duration = Duration::from_secs(60);

/// State of an object after a watch event.
#[derive(Clone, Debug)]
pub(crate) struct RecordedState {
    pub(crate) object: Value,
    pub(crate) is_deleted: bool,
}

/// All states of the objects of a kind since the recording started.
pub(crate) struct WatchRecording {
    states: Arc<Mutex<Vec<RecordedState>>>,
    recording: JoinHandle<()>,
}

impl WatchRecording {
    /// Starts with the objects that exist.
    pub(crate) async fn start(scenario: &InstallScenario, kind: &str) -> Self {
        let api = scenario.api(kind);
        let listed = objects::list(&api).await;
        let version = listed.metadata.resource_version.unwrap();
        let existing = listed.items.into_iter().map(as_value);
        let existing = existing.map(|object| RecordedState {
            object,
            is_deleted: false,
        });
        let states = Arc::new(Mutex::new(existing.collect::<Vec<_>>()));
        let events = api.watch(&WatchParams::default(), &version).await.unwrap();
        let to = Arc::clone(&states);
        let recording = tokio::spawn(events.for_each(move |event| {
            let state = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    Some(RecordedState {
                        object: as_value(object),
                        is_deleted: false,
                    })
                }
                Ok(WatchEvent::Deleted(object)) => Some(RecordedState {
                    object: as_value(object),
                    is_deleted: true,
                }),
                _ => None,
            };
            to.lock().unwrap().extend(state);
            futures::future::ready(())
        }));
        Self { states, recording }
    }

    /// States that have been recorded so far.
    pub(crate) fn states(&self) -> Vec<RecordedState> {
        self.states.lock().unwrap().clone()
    }

    /// Index of the first state that satisfies `matches`. Waits, as recent events may not have arrived.
    pub(crate) async fn first(
        &self,
        what: &str,
        matches: impl Fn(&RecordedState) -> bool,
    ) -> usize {
        let recorded = async {
            loop {
                if let Some(found) = self.states().iter().position(&matches) {
                    return found;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let found = timeout(MAX_LAG, recorded).await;
        found.unwrap_or_else(|_| panic!("{what} did not happen"))
    }

    /// Successive distinct values of `of`.
    pub(crate) fn values(&self, of: impl Fn(&Value) -> Value) -> Vec<Value> {
        let mut values: Vec<_> = self
            .states()
            .iter()
            .map(|state| of(&state.object))
            .collect();
        values.dedup();
        values
    }
}

impl Drop for WatchRecording {
    fn drop(&mut self) {
        self.recording.abort();
    }
}

/// Whether a pod belongs to a component in a version.
pub(crate) fn is_pod_of(pod: &Value, component: &str, version: &str) -> bool {
    let metadata = &pod["metadata"];
    metadata["labels"]["kubevirt.io"] == component
        && metadata["annotations"]["kubevirt.io/install-strategy-version"] == version
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}
