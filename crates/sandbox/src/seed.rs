//! Seed of a cluster: applies objects, and installs and deletes CustomResourceDefinitions.

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Scope},
};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct ApplyError {
    /// Kind and name of the object.
    pub what: String,
    /// The API server's message.
    pub why: String,
}

fn crd_api(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn failed(why: &dyn std::fmt::Display) -> ApplyError {
    ApplyError {
        what: "CustomResourceDefinition".to_owned(),
        why: why.to_string(),
    }
}

/// Deletes CustomResourceDefinitions; those that do not exist are skipped.
pub async fn delete_crds(
    client: &Client,
    definitions: impl IntoIterator<Item = Value>,
) -> Result<(), ApplyError> {
    let api = crd_api(client);
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => {}
            Err(error) => return Err(failed(&error)),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Creates missing CustomResourceDefinitions and waits until all of them are established.
pub async fn install_crds(
    client: &Client,
    definitions: impl IntoIterator<Item = Value>,
) -> Result<(), ApplyError> {
    let api = crd_api(client);
    let mut names = Vec::new();
    for definition in definitions {
        let definition: DynamicObject =
            serde_json::from_value(definition).map_err(|error| failed(&error))?;
        match api.create(&PostParams::default(), &definition).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(kube::Error::Api(status)) => return Err(failed(&status.message)),
            Err(error) => return Err(failed(&error)),
            Ok(_) => {}
        }
        names.push(definition.name_any());
    }
    for name in names {
        wait_until_served(&api, &name).await?;
    }
    Ok(())
}

/// Polls until the API server's own controller has established the CustomResourceDefinition.
async fn wait_until_served(api: &Api<DynamicObject>, name: &str) -> Result<(), ApplyError> {
    const STEP: Duration = Duration::from_millis(1);
    const TRIES: u32 = 10_000;
    for _ in 0..TRIES {
        if is_established(api, name).await {
            return Ok(());
        }
        tokio::time::sleep(STEP).await;
    }
    Err(ApplyError {
        what: format!("CustomResourceDefinition {name:?}"),
        why: "is not established".to_owned(),
    })
}

async fn is_established(api: &Api<DynamicObject>, name: &str) -> bool {
    let Ok(definition) = api.get(name).await else {
        return true;
    };
    let conditions = definition
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    // Status False counts too: names that the server refused stay refused.
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established")
}

/// Applies an object under the sandbox's field manager; its namespace defaults to `default`.
pub async fn apply(client: &Client, object: Value) -> Result<(), ApplyError> {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let failed = |why: &dyn std::fmt::Display| ApplyError {
        what: format!("{kind} {name:?}"),
        why: why.to_string(),
    };
    let gvk = GroupVersionKind::gvk(group, version, &kind);
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk)
        .await
        .map_err(|_| failed(&format!("no kind {kind:?} in {api_version:?} is served")))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    let params = PatchParams::apply("kubevirt-operator-sandbox").force();
    api.patch(name, &params, &Patch::Apply(&object))
        .await
        .map(drop)
        .map_err(|error| match error {
            kube::Error::Api(status) => failed(&status.message),
            other => failed(&other),
        })
}
