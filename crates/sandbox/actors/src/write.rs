//! Execution of the actors' writes.

use std::{collections::BTreeMap, time::Duration};

use http::Request as HttpRequest;
use jiff::Timestamp;
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::{Request, Resource},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Kind,
    actor::Write,
    events::{Record, Recorder},
    kind::{EVENT, POD},
    object::{Key, Object, merge, name, namespace, text, uid},
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Client(#[from] kube::Error),
    #[error(transparent)]
    Request(#[from] kube::core::request::Error),
    #[error(transparent)]
    Serialize(#[from] serde_json::Error),
    #[error("no response within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
}

impl WriteError {
    /// Whether someone else changed the object first; a normal event.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The API server's message, where a retry would get the same one: the write is forbidden or
    /// invalid, or a webhook denies it or is unreachable.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Client(kube::Error::Api(status))
                if matches!(status.code, 400 | 403 | 422 | 500) =>
            {
                Some(&status.message)
            }
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Client(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Client(kube::Error::Api(status))
            if status.code == 403 && status.message.contains("being terminated"))
    }
}

/// What the response to a write shows, before the watch does.
#[derive(Debug)]
pub(crate) enum WriteResponse {
    Object(Kind, Value),
    /// A pod, and the node it is bound to.
    Bound(Key, String),
    /// Left to the watch.
    Nothing,
}

/// Whether a write would change what was observed.
pub(crate) fn is_needed(write: &Write) -> bool {
    let Write::Patch {
        observed, patch, ..
    } = write
    else {
        return true;
    };
    let mut patched = Value::clone(observed);
    merge(&mut patched, patch);
    patched != **observed
}

/// Executes one write. `latest` has the resource versions that earlier writes of the same reconcile
/// returned. A create of an existing object and a delete of a missing one succeed.
pub(crate) async fn execute(
    client: &Client,
    recorder: &Recorder,
    manager: &'static str,
    write: Write,
    latest: &BTreeMap<(Kind, Key), String>,
    now: Timestamp,
) -> Result<WriteResponse, WriteError> {
    match write {
        Write::Create { kind, object } => match create(client, manager, kind, object).await {
            Ok(object) => Ok(WriteResponse::Object(kind, object)),
            Err(error) if error.is_conflict() || error.is_namespace_terminating() => {
                Ok(WriteResponse::Nothing)
            }
            Err(error) => Err(error),
        },
        Write::Patch {
            kind,
            observed,
            subresource,
            mut patch,
        } => {
            let version = latest.get(&(kind, Key::of(&observed))).map(String::as_str);
            patch["metadata"]["resourceVersion"] = version
                .unwrap_or(text(&observed, "/metadata/resourceVersion"))
                .into();
            let collection = path(kind, namespace(&observed));
            let response =
                merge_patch(client, manager, &collection, &observed, subresource, &patch);
            match response.await {
                Ok(object) => Ok(WriteResponse::Object(kind, object)),
                Err(error) if error.code() == Some(404) => Ok(WriteResponse::Nothing),
                Err(error) => Err(error),
            }
        }
        Write::Bind { pod, node } => bind(client, manager, &pod, node).await,
        Write::Delete {
            kind,
            observed,
            grace,
        } => match delete(client, kind, &observed, grace).await {
            Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
            _ => Ok(WriteResponse::Nothing),
        },
        Write::Event {
            kind,
            regarding,
            of_type,
            reason,
            message,
        } => {
            let what = (of_type, reason.as_str(), message.as_str());
            if let Some(record) = recorder.record((kind, &regarding), manager, what, now)
                && let Err(error) = write_event(client, manager, record).await
            {
                tracing::debug!(%error, "cannot write an Event, dropping it");
            }
            Ok(WriteResponse::Nothing)
        }
    }
}

async fn create(
    client: &Client,
    manager: &str,
    kind: Kind,
    mut object: Value,
) -> Result<Value, WriteError> {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    let request = Request::new(path(kind, namespace(&object)));
    send(
        client,
        request.create(&post(manager), serde_json::to_vec(&object)?)?,
    )
    .await
}

async fn merge_patch<P: Serialize>(
    client: &Client,
    manager: &str,
    collection: &str,
    observed: &Value,
    subresource: Option<&str>,
    patch: &P,
) -> Result<Value, WriteError> {
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let request = Request::new(collection);
    let patch = Patch::Merge(patch);
    send(
        client,
        match subresource {
            Some(subresource) => {
                request.patch_subresource(subresource, name(observed), &params, &patch)?
            }
            None => request.patch(name(observed), &params, &patch)?,
        },
    )
    .await
}

async fn bind(
    client: &Client,
    manager: &str,
    pod: &Object,
    node: String,
) -> Result<WriteResponse, WriteError> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name(pod), "namespace": namespace(pod), "uid": uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let request = Request::new(path(POD, namespace(pod))).create_subresource(
        "binding",
        name(pod),
        &post(manager),
        serde_json::to_vec(&binding)?,
    )?;
    match send(client, request).await {
        Ok(_) => Ok(WriteResponse::Bound(Key::of(pod), node)),
        Err(error) if matches!(error.code(), Some(404)) => Ok(WriteResponse::Nothing),
        Err(error) => Err(error),
    }
}

async fn delete(
    client: &Client,
    kind: Kind,
    observed: &Value,
    grace: Option<u32>,
) -> Result<Value, WriteError> {
    let params = DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions {
            uid: Some(uid(observed).to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    let request = Request::new(path(kind, namespace(observed)));
    send(client, request.delete(name(observed), &params)?).await
}

async fn write_event(client: &Client, manager: &str, record: Record) -> Result<(), WriteError> {
    match record {
        Record::Create { event, .. } => create(client, manager, EVENT, event).await,
        Record::Count {
            namespace,
            name,
            patch,
        } => {
            let event = json!({"metadata": {"name": name}});
            merge_patch(
                client,
                manager,
                &path(EVENT, &namespace),
                &event,
                None,
                &patch,
            )
            .await
        }
    }
    .map(drop)
}

async fn send(client: &Client, request: HttpRequest<Vec<u8>>) -> Result<Value, WriteError> {
    let response = tokio::time::timeout(REQUEST_TIMEOUT, client.request::<Value>(request));
    let mut response = response.await.map_err(|_| WriteError::Timeout)??;
    if let Some(metadata) = response.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(response)
}

fn post(manager: &str) -> PostParams {
    PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    }
}

fn path(kind: Kind, namespace: &str) -> String {
    let namespace = kind.namespaced.then_some(namespace);
    DynamicObject::url_path(&kind.api_resource(), namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_changes_nothing_is_not_sent() {
        let observed = Object::new(json!({"status": {"phase": "Running"}}));
        let patch = |patch| Write::Patch {
            kind: POD,
            observed: Object::clone(&observed),
            subresource: Some("status"),
            patch,
        };
        assert!(!is_needed(&patch(
            json!({"status": {"phase": "Running", "reason": null}})
        )));
        assert!(is_needed(&patch(json!({"status": {"phase": "Failed"}}))));
    }
}
