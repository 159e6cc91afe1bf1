//! Recording of the watch events of some kinds, in order.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::{
    Api,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
};
use serde_json::Value;

/// Watch event of an object.
#[derive(Clone, Debug)]
pub(crate) struct RecordedChange {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) is_deletion: bool,
    pub(crate) object: Value,
}

/// Changes since the recording started.
#[derive(Clone, Default)]
pub(crate) struct WatchRecording(Arc<Mutex<Vec<RecordedChange>>>);

impl WatchRecording {
    /// Changes of all recorded kinds, in order of resourceVersion.
    pub(crate) fn changes(&self) -> Vec<RecordedChange> {
        let mut changes = self.0.lock().unwrap().clone();
        changes.sort_by_key(|change| version(&change.object));
        changes
    }

    /// Changes of one object.
    pub(crate) fn of(&self, kind: &str, name: &str) -> Vec<RecordedChange> {
        let mut changes = self.changes();
        changes.retain(|change| change.kind == kind && change.name == name);
        changes
    }

    /// Index of the deletion of an object among all changes.
    pub(crate) fn deletion_of(&self, kind: &str, name: &str) -> usize {
        let changes = self.changes();
        let index = changes
            .iter()
            .rposition(|change| change.is_deletion && change.kind == kind && change.name == name);
        index.unwrap_or_else(|| panic!("{kind} {name} was not deleted"))
    }

    /// Starts to record a kind.
    pub(crate) async fn start(&self, kind: &'static str, api: Api<DynamicObject>) {
        let listed = api.list(&ListParams::default()).await.unwrap();
        let mut version = listed.metadata.resource_version.unwrap_or_default();
        let recording = self.clone();
        tokio::spawn(async move {
            loop {
                let Ok(events) = api.watch(&WatchParams::default(), &version).await else {
                    return;
                };
                let mut events = events.boxed();
                while let Some(Ok(event)) = events.next().await {
                    let (object, is_deletion) = match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                        WatchEvent::Deleted(object) => (object, true),
                        WatchEvent::Bookmark(_) => continue,
                        // The scenario has ended.
                        WatchEvent::Error(error) if error.code == 410 => return,
                        WatchEvent::Error(error) => panic!("cannot record {kind}: {error:?}"),
                    };
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    recording.0.lock().unwrap().push(RecordedChange {
                        kind,
                        name: object.metadata.name.clone().unwrap_or_default(),
                        is_deletion,
                        object: serde_json::to_value(object).unwrap(),
                    });
                }
            }
        });
    }
}

/// resourceVersion of an object as a number, which grows with each write.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}
