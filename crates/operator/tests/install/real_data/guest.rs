//! A virtual machine that runs while KubeVirt changes.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::ground::Ground;

const NAME: &str = "web";
const NAMESPACE: &str = "default";

/// A virtual machine that runs, and everything that was seen of it since.
pub(super) struct Guest {
    uid: Value,
    node: Value,
    seen: Arc<Mutex<Vec<Value>>>,
    following: JoinHandle<()>,
}

impl Guest {
    /// Starts a virtual machine, and waits until it runs.
    pub(super) async fn start(ground: &Ground) -> Self {
        let domain = json!({ "devices": {}, "memory": { "guest": "1Gi" } });
        let vm = json!({
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": { "runStrategy": "Always", "template": { "spec": { "domain": domain } } },
        });
        ground.create("VirtualMachine", vm).await;
        let api = ground.api_in("VirtualMachineInstance", NAMESPACE);
        let running = loop {
            ground.wait(1).await;
            if let Some(found) = api.get_opt(NAME).await.unwrap()
                && found.data["status"]["phase"] == "Running"
            {
                break found;
            }
        };
        let version = running.metadata.resource_version.clone().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let following = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                let mut version = version;
                loop {
                    let events = api.watch(&WatchParams::default(), &version).await.unwrap();
                    let mut events = events.boxed();
                    while let Some(Ok(event)) = events.next().await {
                        let (WatchEvent::Added(object)
                        | WatchEvent::Modified(object)
                        | WatchEvent::Deleted(object)) = event
                        else {
                            continue;
                        };
                        version = object.metadata.resource_version.clone().unwrap();
                        seen.lock()
                            .unwrap()
                            .push(object.data["status"]["phase"].clone());
                    }
                }
            }
        });
        Self {
            uid: json!(running.metadata.uid),
            node: running.data["status"]["nodeName"].clone(),
            seen,
            following,
        }
    }

    /// It has run all the time, and still does where it did.
    pub(super) async fn still_runs(&self, ground: &Ground) {
        let api = ground.api_in("VirtualMachineInstance", NAMESPACE);
        let found: DynamicObject = api.get(NAME).await.unwrap();
        assert_eq!(json!(found.metadata.uid), self.uid);
        assert_eq!(found.data["status"]["nodeName"], self.node);
        assert_eq!(found.data["status"]["phase"], "Running");
        let seen = self.seen.lock().unwrap();
        assert!(seen.iter().all(|phase| phase == "Running"), "{seen:?}");
        assert!(!self.following.is_finished());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.following.abort();
    }
}
