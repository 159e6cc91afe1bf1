//! ResourceQuotas of a scenario's namespace.

use std::time::Duration;

use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::scenario::Scenario;

/// ResourceQuota `budget`.
pub(crate) fn quota(hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "budget" }, "spec": { "hard": hard },
    })
}

/// Creates a quota of storage and waits until claims beyond it are refused.
pub(crate) async fn enforce_storage(scenario: &Scenario, limit: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "probe" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Ti" } },
        },
    });
    enforce(scenario, &json!({ "requests.storage": limit }), claim).await;
}

/// Creates a quota without room for pods, and waits until they are refused.
pub(crate) async fn enforce_no_pods(scenario: &Scenario) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "probe" },
        "spec": { "containers": [{ "name": "probe", "image": "probe" }] },
    });
    enforce(scenario, &json!({ "pods": "0" }), pod).await;
}

/// Admission of a real API server observes a quota later than clients.
async fn enforce(scenario: &Scenario, hard: &Value, refused: Value) {
    scenario.apply_object(quota(hard)).await;
    let kind = refused["kind"].as_str().unwrap_or_default().to_owned();
    let refused = serde_json::from_value(refused).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let enforced = async {
        loop {
            let answer = scenario.api(&kind).create(&dry_run, &refused).await;
            if answer.is_err_and(|error| error.to_string().contains("exceeded quota")) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = timeout(scenario.cluster.timeout(), enforced).await;
    assert!(waited.is_ok(), "the quota {hard} is not enforced");
}
