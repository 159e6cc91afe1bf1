//! Webhook tests. Expected texts are those of kube-apiserver (1.38 alpha) for the same responses.

mod answers;
mod chains;
mod matching;
mod network;

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Operation, Request, Resource,
    call::{Endpoint, Reply, Transport},
};
use crate::auth::User;

const CONFIG_MAPS: Resource<'static> = Resource {
    group: "",
    version: "v1",
    resource: "configmaps",
    kind: "ConfigMap",
};

/// Admission request whose fields tests may override.
struct TestRequest {
    object: Option<Value>,
    old_object: Option<Value>,
    labels: Value,
    user: User,
    options: Value,
}

impl Default for TestRequest {
    fn default() -> Self {
        Self {
            object: Some(json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"name": "cm", "namespace": "a"},
            })),
            old_object: None,
            labels: json!({"kubernetes.io/metadata.name": "a"}),
            user: User::admin(),
            options: json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}),
        }
    }
}

impl TestRequest {
    fn request(&self) -> Request<'_> {
        Request {
            operation: Operation::Create,
            resource: CONFIG_MAPS,
            equivalents: &[],
            subresource: "",
            name: "cm",
            namespace: "a",
            namespace_labels: Some(&self.labels),
            object: self.object.as_ref(),
            old_object: self.old_object.as_ref(),
            user: &self.user,
            dry_run: false,
            options: &self.options,
        }
    }
}

/// A webhook for all ConfigMaps at `https://127.0.0.1/NAME`, overlaid with `more`.
fn hook(name: &str, more: &Value) -> Value {
    let mut hook = json!({
        "name": name,
        "clientConfig": {"url": format!("https://127.0.0.1/{name}")},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"],
            "resources": ["configmaps"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    hook
}

fn configuration(name: &str, hooks: &[Value]) -> std::sync::Arc<Value> {
    std::sync::Arc::new(json!({"metadata": {"name": name}, "webhooks": hooks}))
}

/// Response of a webhook, without its UID.
type Behaviour = Box<dyn Fn(&Value) -> Value + Send + Sync>;

/// In-process webhooks by the first part of their path.
#[derive(Default)]
struct InProcess {
    hooks: BTreeMap<String, Behaviour>,
    calls: Mutex<Vec<String>>,
}

impl InProcess {
    fn with(
        mut self,
        name: &str,
        behaviour: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.hooks.insert(name.into(), Box::new(behaviour));
        self
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Transport for InProcess {
    async fn post(&self, endpoint: &Endpoint, body: Bytes) -> Result<Reply, String> {
        let name = endpoint.url.path().trim_start_matches('/').to_owned();
        self.calls.lock().unwrap().push(name.clone());
        let review: Value = serde_json::from_slice(&body).unwrap();
        if name == "never" {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        let Some(behaviour) = self.hooks.get(&name) else {
            return Err("nobody is there".into());
        };
        let mut response = behaviour(&review["request"]);
        response["uid"] = review["request"]["uid"].clone();
        Ok(json_reply(&json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        })))
    }
}

fn json_reply(body: &Value) -> Reply {
    Reply {
        status: StatusCode::OK,
        content_type: "application/json".into(),
        body: body.to_string().into(),
    }
}

fn allowed(_: &Value) -> Value {
    json!({"allowed": true})
}

fn patched(operations: &Value) -> Value {
    json!({
        "allowed": true,
        "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string()),
    })
}
