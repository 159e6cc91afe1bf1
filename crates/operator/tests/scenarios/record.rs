//! All that happens to objects of some kinds, in order.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::{
    Api,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
};
use serde_json::Value;

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) is_deletion: bool,
    pub(crate) object: Value,
}

/// What has happened since the recording began.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Change>>>);

impl Record {
    /// In the order in which it happened, of whatever kind.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes = self.0.lock().unwrap().clone();
        changes.sort_by_key(|change| version(&change.object));
        changes
    }

    /// What happened to one object.
    pub(crate) fn of(&self, kind: &str, name: &str) -> Vec<Change> {
        let mut changes = self.changes();
        changes.retain(|change| change.kind == kind && change.name == name);
        changes
    }

    /// Where in the order an object went.
    pub(crate) fn end_of(&self, kind: &str, name: &str) -> usize {
        let changes = self.changes();
        let end = changes
            .iter()
            .rposition(|change| change.is_deletion && change.kind == kind && change.name == name);
        end.unwrap_or_else(|| panic!("{kind} {name} did not go"))
    }

    /// Records a kind from now on.
    pub(crate) async fn begin(&self, kind: &'static str, api: Api<DynamicObject>) {
        let listed = api.list(&ListParams::default()).await.unwrap();
        let mut version = listed.metadata.resource_version.unwrap_or_default();
        let record = self.clone();
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
                        // Its story was over long ago.
                        WatchEvent::Error(error) if error.code == 410 => return,
                        WatchEvent::Error(error) => panic!("cannot record {kind}: {error:?}"),
                    };
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    record.0.lock().unwrap().push(Change {
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

/// The version of an object, which is greater the later it was written.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}
