//! What the client of the harness observes: when each Machine and its VirtualMachine changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use http::Request;
use kube::{Client, core::WatchEvent};
use serde_json::Value;
use tokio::task::JoinSet;

pub const MACHINES: &str = "/apis/vitistack.io/v1alpha1/machines";
pub const VIRTUAL_MACHINES: &str = "/apis/kubevirt.io/v1/virtualmachines";
const POLL: Duration = Duration::from_millis(10);

/// Times of the Machines by name.
#[derive(Debug, Default)]
pub struct Times {
    /// When the API server answered their creation.
    pub posted: HashMap<String, Instant>,
    /// When they got a VirtualMachine.
    pub virtual_machine: HashMap<String, Instant>,
    /// When their phase became Running.
    pub running: HashMap<String, Instant>,
    /// When the spec of their VirtualMachine changed.
    pub resized: HashMap<String, Instant>,
    /// When they were gone.
    pub gone: HashMap<String, Instant>,
    generations: HashMap<String, i64>,
}

/// Times that two watches fill.
#[derive(Debug, Default)]
pub struct Observed {
    times: Arc<Mutex<Times>>,
    /// Ends the watches on drop.
    watches: JoinSet<()>,
}

impl Observed {
    /// Starts the watches.
    pub async fn start(client: &Client) -> Self {
        let mut observed = Self::default();
        for (path, update) in [
            (MACHINES, Times::on_machine as fn(&mut Times, &Value, bool)),
            (VIRTUAL_MACHINES, Times::on_virtual_machine),
        ] {
            let client = client.clone();
            let request = Request::get(format!("{path}?limit=1")).body(Vec::new());
            let list: Value = client
                .request(request.expect("the request is valid"))
                .await
                .expect("the API server answers the list");
            let version = text(&list, "/metadata/resourceVersion");
            let times = Arc::clone(&observed.times);
            let watch = watch(client, path, version, times, update);
            observed.watches.spawn(watch);
        }
        observed
    }

    pub fn times(&self) -> MutexGuard<'_, Times> {
        locked(&self.times)
    }

    /// Waits until as many Machines as `count` are in a map.
    pub async fn until(&self, of: fn(&Times) -> &HashMap<String, Instant>, count: usize) {
        while of(&self.times()).len() < count {
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Times {
    fn on_machine(&mut self, machine: &Value, deleted: bool) {
        let name = text(machine, "/metadata/name");
        if deleted {
            self.gone.entry(name).or_insert_with(Instant::now);
        } else if text(machine, "/status/phase") == "Running" {
            self.running.entry(name).or_insert_with(Instant::now);
        }
    }

    fn on_virtual_machine(&mut self, vm: &Value, deleted: bool) {
        if deleted {
            return;
        }
        let name = text(vm, "/metadata/name");
        let generation = vm["metadata"]["generation"].as_i64().unwrap_or_default();
        let before = self.generations.insert(name.clone(), generation);
        let now = Instant::now();
        self.virtual_machine.entry(name.clone()).or_insert(now);
        if before.is_some_and(|before| before < generation) {
            self.resized.entry(name).or_insert(now);
        }
    }
}

/// Watches a collection until the program ends. A watch that the server ends continues where it was.
async fn watch(
    client: Client,
    path: &'static str,
    mut version: String,
    times: Arc<Mutex<Times>>,
    update: fn(&mut Times, &Value, bool),
) {
    loop {
        let query = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
        let request = Request::get(query).body(Vec::new());
        let events = client
            .request_events::<Value>(request.expect("the request is valid"))
            .await
            .expect("the API server answers the watch");
        let mut events = events.boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    version = text(&object, "/metadata/resourceVersion");
                    update(&mut locked(&times), &object, false);
                }
                Ok(WatchEvent::Deleted(object)) => {
                    version = text(&object, "/metadata/resourceVersion");
                    update(&mut locked(&times), &object, true);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    version.clone_from(&bookmark.metadata.resource_version);
                }
                Ok(WatchEvent::Error(status)) => panic!("watch of {path}: {status:?}"),
                Err(_) => break,
            }
        }
    }
}

fn locked(times: &Mutex<Times>) -> MutexGuard<'_, Times> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
