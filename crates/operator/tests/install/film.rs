//! What happened to the objects of a kind, in the order in which it did.

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
    ground::{Ground, as_value, condition},
    stories::objects,
};

const LONGEST_LAG: Duration = Duration::from_secs(60);

/// A state of an object; nothing if that is when it went.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) object: Value,
    pub(crate) is_gone: bool,
}

/// Everything that happened to the objects of a kind since it was begun.
pub(crate) struct Film {
    scenes: Arc<Mutex<Vec<Scene>>>,
    recording: JoinHandle<()>,
}

impl Film {
    /// Begins with what is there.
    pub(crate) async fn of(ground: &Ground, kind: &str) -> Self {
        let api = ground.api(kind);
        let listed = objects::list(&api).await;
        let version = listed.metadata.resource_version.unwrap();
        let there = listed.items.into_iter().map(as_value);
        let there = there.map(|object| Scene {
            object,
            is_gone: false,
        });
        let scenes = Arc::new(Mutex::new(there.collect::<Vec<_>>()));
        let events = api.watch(&WatchParams::default(), &version).await.unwrap();
        let to = Arc::clone(&scenes);
        let recording = tokio::spawn(events.for_each(move |event| {
            let scene = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(Scene {
                    object: as_value(object),
                    is_gone: false,
                }),
                Ok(WatchEvent::Deleted(object)) => Some(Scene {
                    object: as_value(object),
                    is_gone: true,
                }),
                _ => None,
            };
            to.lock().unwrap().extend(scene);
            futures::future::ready(())
        }));
        Self { scenes, recording }
    }

    /// What has happened so far.
    pub(crate) fn scenes(&self) -> Vec<Scene> {
        self.scenes.lock().unwrap().clone()
    }

    /// When something was so first, counted in scenes. What has just happened may not be recorded yet.
    pub(crate) async fn first(&self, what: &str, is_so: impl Fn(&Scene) -> bool) -> usize {
        let recorded = async {
            loop {
                if let Some(found) = self.scenes().iter().position(&is_so) {
                    return found;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let found = timeout(LONGEST_LAG, recorded).await;
        found.unwrap_or_else(|_| panic!("{what} never happened"))
    }

    /// The different values that something had, one after the other.
    pub(crate) fn values(&self, of: impl Fn(&Value) -> Value) -> Vec<Value> {
        let mut values: Vec<_> = self
            .scenes()
            .iter()
            .map(|scene| of(&scene.object))
            .collect();
        values.dedup();
        values
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        self.recording.abort();
    }
}

/// Whether a pod is one of a component in a version.
pub(crate) fn is_pod_of(pod: &Value, component: &str, version: &str) -> bool {
    let metadata = &pod["metadata"];
    metadata["labels"]["kubevirt.io"] == component
        && metadata["annotations"]["kubevirt.io/install-strategy-version"] == version
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}
