//! VirtualMachine that runs while KubeVirt changes.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::scenario::InstallScenario;

const NAME: &str = "web";
const NAMESPACE: &str = "default";

/// Running VirtualMachine with a recording of its instance.
pub(super) struct Guest {
    uid: Value,
    node: Value,
    phases: Arc<Mutex<Vec<Value>>>,
    following: JoinHandle<()>,
}

impl Guest {
    /// Starts a VirtualMachine and waits until it runs.
    pub(super) async fn start(scenario: &InstallScenario) -> Self {
        let domain = json!({ "devices": {}, "memory": { "guest": "1Gi" } });
        let vm = json!({
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": { "runStrategy": "Always", "template": { "spec": { "domain": domain } } },
        });
        scenario.create("VirtualMachine", vm).await;
        let api = scenario.api_in("VirtualMachineInstance", NAMESPACE);
        let running = loop {
            scenario.wait(1).await;
            if let Some(found) = api.get_opt(NAME).await.unwrap()
                && found.data["status"]["phase"] == "Running"
            {
                break found;
            }
        };
        let version = running.metadata.resource_version.clone().unwrap();
        let phases = Arc::new(Mutex::new(Vec::new()));
        let following = tokio::spawn({
            let phases = Arc::clone(&phases);
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
                        phases
                            .lock()
                            .unwrap()
                            .push(object.data["status"]["phase"].clone());
                    }
                }
            }
        });
        Self {
            uid: json!(running.metadata.uid),
            node: running.data["status"]["nodeName"].clone(),
            phases,
            following,
        }
    }

    /// Asserts that it has run without interruption on the same node.
    pub(super) async fn still_runs(&self, scenario: &InstallScenario) {
        let api = scenario.api_in("VirtualMachineInstance", NAMESPACE);
        let found: DynamicObject = api.get(NAME).await.unwrap();
        assert_eq!(json!(found.metadata.uid), self.uid);
        assert_eq!(found.data["status"]["nodeName"], self.node);
        assert_eq!(found.data["status"]["phase"], "Running");
        let phases = self.phases.lock().unwrap();
        assert!(phases.iter().all(|phase| phase == "Running"), "{phases:?}");
        assert!(!self.following.is_finished());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.following.abort();
    }
}
