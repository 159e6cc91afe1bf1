//! Objects that are put into a cluster at its start.

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Scope},
};
use serde_json::Value;

/// An object could not be applied.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct ApplyError {
    /// The object's kind and name.
    pub what: String,
    /// What the API server says.
    pub why: String,
}

fn definitions_of(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn failed(why: &dyn std::fmt::Display) -> ApplyError {
    ApplyError {
        what: "CustomResourceDefinition".to_owned(),
        why: why.to_string(),
    }
}

/// Deletes definitions that are there.
pub async fn undefine(
    client: &Client,
    definitions: impl IntoIterator<Item = Value>,
) -> Result<(), ApplyError> {
    let api = definitions_of(client);
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

/// Creates definitions that are not there yet, and waits until they are served.
pub async fn define(
    client: &Client,
    definitions: impl IntoIterator<Item = Value>,
) -> Result<(), ApplyError> {
    let api = definitions_of(client);
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

/// The server's own controller serves a definition next: nothing else has to happen.
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
    // Refused names are settled, too.
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established")
}

/// Applies an object as the sandbox, in the namespace `default` where it names none.
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
