//! ResourceQuotas of a story's namespace.

use std::time::Duration;

use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::story::Story;

/// A quota of the name `budget`.
pub(crate) fn quota(hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "budget" }, "spec": { "hard": hard },
    })
}

/// Creates a quota of storage and waits until claims beyond it are refused.
pub(crate) async fn enforce_storage(story: &Story, limit: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "probe" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Ti" } },
        },
    });
    enforce(story, &json!({ "requests.storage": limit }), claim).await;
}

/// Creates a quota that leaves no room for pods and waits until they are refused.
pub(crate) async fn enforce_no_pods(story: &Story) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "probe" },
        "spec": { "containers": [{ "name": "probe", "image": "probe" }] },
    });
    enforce(story, &json!({ "pods": "0" }), pod).await;
}

/// The admission of a real API server learns of a quota after it can be read.
async fn enforce(story: &Story, hard: &Value, refused: Value) {
    story.give(quota(hard)).await;
    let kind = refused["kind"].as_str().unwrap_or_default().to_owned();
    let refused = serde_json::from_value(refused).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let enforced = async {
        loop {
            let answer = story.api(&kind).create(&dry_run, &refused).await;
            if answer.is_err_and(|error| error.to_string().contains("exceeded quota")) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = timeout(story.ground.patience(), enforced).await;
    assert!(waited.is_ok(), "the quota {hard} is not enforced");
}
