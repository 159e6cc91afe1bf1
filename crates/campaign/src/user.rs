//! Users, administrators and other controllers, with all permissions.

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::{
    decision::{Action, Propagation},
    kinds,
};

#[derive(Clone)]
pub struct User {
    client: Client,
    namespace: &'static str,
}

impl User {
    pub fn new(client: Client, namespace: &'static str) -> Self {
        Self { client, namespace }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = kinds::resource(kind);
        if kinds::is_cluster_scoped(kind) {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), self.namespace, &resource)
        }
    }

    /// Executes an action. Returns the API server's message if it refuses.
    pub async fn act(&self, action: &Action) -> Result<(), String> {
        let done = match action {
            Action::Create { kind, object } => {
                let mut object = object.clone();
                object["apiVersion"] = kinds::resource(kind).api_version.into();
                object["kind"] = (*kind).into();
                let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
                let created = self.api(kind).create(&PostParams::default(), &object).await;
                created.map(drop)
            }
            Action::Patch { kind, name, patch } => {
                let params = PatchParams {
                    field_manager: Some("somebody".to_owned()),
                    ..PatchParams::default()
                };
                let patch = Patch::Merge(patch);
                let patched = self.api(kind).patch(name, &params, &patch).await;
                patched.map(drop)
            }
            Action::Delete {
                kind,
                name,
                propagation,
            } => {
                let propagation = match propagation {
                    Propagation::Background => PropagationPolicy::Background,
                    Propagation::Foreground => PropagationPolicy::Foreground,
                    Propagation::Orphan => PropagationPolicy::Orphan,
                };
                let params = DeleteParams {
                    propagation_policy: Some(propagation),
                    ..DeleteParams::default()
                };
                self.api(kind).delete(name, &params).await.map(drop)
            }
            Action::Virtctl { call, name } => {
                let path = format!(
                    "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/{name}/{call}",
                    self.namespace
                );
                let request = http::Request::put(path)
                    .header("content-type", "application/json")
                    .body(b"{}".to_vec())
                    .map_err(|error| error.to_string())?;
                self.client.request_text(request).await.map(drop)
            }
        };
        done.map_err(|error| match error {
            kube::Error::Api(status) => format!("{} {}", status.code, status.message),
            error => error.to_string(),
        })
    }

    /// All objects of a kind; empty if it is not served.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let listed = self.api(kind).list(&kube::api::ListParams::default()).await;
        let items = listed.map(|list| list.items).unwrap_or_default();
        items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap_or_default())
            .collect()
    }

    /// Sets an annotation of an object, or removes it.
    pub async fn annotate(&self, kind: &'static str, name: &str, key: &str, value: Value) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let name = name.to_owned();
        // The object may be gone.
        let _ = self.act(&Action::Patch { kind, name, patch }).await;
    }
}
