//! Reads and writes of objects as JSON.

use http::{Request, header::ACCEPT};
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::Value;

use crate::{
    failure::Failure,
    kinds::{Kind, MACHINE},
};

/// Field manager of all writes.
pub(crate) const MANAGER: &str = "kubectl-machine";
const PAGE: u32 = 500;

/// Which objects of a kind to list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scope<'a> {
    /// All namespaces if none.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a str>,
}

/// Lists objects, page by page. Each has its `apiVersion` and `kind`.
pub(crate) async fn list(
    client: &Client,
    kind: Kind,
    scope: Scope<'_>,
) -> Result<Vec<Value>, Failure> {
    let mut params = ListParams::default().limit(PAGE);
    if let Some(labels) = scope.labels {
        params = params.labels(labels);
    }
    let mut all = Vec::new();
    loop {
        let request = kube::core::Request::new(kind.path(scope.namespace)).list(&params);
        let request = request.map_err(|error| Failure::Other(error.to_string()))?;
        let page: Result<Value, _> = client.request(request).await;
        let mut page = page.map_err(|error| Failure::api("list", kind.plural, error))?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            all.extend(items.into_iter().map(|item| typed(kind, item)));
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => params = params.continue_token(token),
            _ => return Ok(all),
        }
    }
}

/// As [`list`]; none if the kind is not served, or the user may not read it.
pub(crate) async fn list_if_allowed(
    client: &Client,
    kind: Kind,
    scope: Scope<'_>,
) -> Result<Listed, Failure> {
    match list(client, kind, scope).await {
        Ok(objects) => Ok(Listed::All(objects)),
        Err(failure) => match failure.code() {
            Some(404) => Ok(Listed::NotServed),
            Some(403) => Ok(Listed::Forbidden(failure.to_string())),
            _ => Err(failure),
        },
    }
}

pub(crate) enum Listed {
    All(Vec<Value>),
    NotServed,
    Forbidden(String),
}

impl Listed {
    /// The objects; what could not be read is added to `notes`.
    pub(crate) fn or_note(self, notes: &mut Vec<String>) -> Vec<Value> {
        match self {
            Self::All(objects) => objects,
            Self::NotServed => Vec::new(),
            Self::Forbidden(reason) => {
                notes.push(reason);
                Vec::new()
            }
        }
    }
}

/// Names and owners of objects, without their content.
pub(crate) async fn list_metadata(
    client: &Client,
    kind: Kind,
    scope: Scope<'_>,
) -> Result<Vec<Value>, Failure> {
    let mut path = format!("{}?limit={PAGE}", kind.path(scope.namespace));
    if let Some(labels) = scope.labels {
        path.push_str("&labelSelector=");
        path.push_str(&labels.replace('/', "%2F").replace('=', "%3D"));
    }
    let request = Request::get(path)
        .header(
            ACCEPT,
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        )
        .body(Vec::new())
        .map_err(|error| Failure::Other(error.to_string()))?;
    let page: Result<Value, _> = client.request(request).await;
    let mut page = page.map_err(|error| Failure::api("list", kind.plural, error))?;
    let items = page.get_mut("items").map(Value::take);
    let Some(Value::Array(items)) = items else {
        return Ok(Vec::new());
    };
    let named = items.into_iter().map(|mut item| {
        item["apiVersion"] = kind.api_version().into();
        item["kind"] = kind.name.into();
        item
    });
    Ok(named.collect())
}

/// Gets an object; none if it does not exist.
pub(crate) async fn find(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Failure> {
    let path = format!("{}/{name}", kind.path(Some(namespace)));
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Failure::Other(error.to_string()))?;
    match client.request::<Value>(request).await {
        Ok(object) => Ok(Some(typed(kind, object))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => {
            let what = format!("{} {namespace}/{name}", kind.name);
            Err(Failure::api("get", &what, error))
        }
    }
}

/// Gets a Machine that has to exist.
pub(crate) async fn machine(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Value, Failure> {
    find(client, MACHINE, namespace, name).await?.ok_or_else(|| {
        Failure::Other(format!(
            "there is no Machine {name:?} in namespace {namespace}: list all with `kubectl machine list -A`"
        ))
    })
}

/// Changes fields of a Machine's spec.
pub(crate) async fn patch_spec(
    client: &Client,
    machine: (&str, &str),
    spec: Value,
) -> Result<Value, Failure> {
    let (namespace, name) = machine;
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(serde_json::json!({ "spec": spec }));
    let request = kube::core::Request::new(MACHINE.path(Some(namespace)))
        .patch(name, &params, &patch)
        .map_err(|error| Failure::Other(error.to_string()))?;
    let patched: Result<Value, _> = client.request(request).await;
    patched.map_err(|error| Failure::api("change", &format!("Machine {namespace}/{name}"), error))
}

/// Creates a Machine; as a dry run only if asked for.
pub(crate) async fn create(
    client: &Client,
    namespace: &str,
    machine: &Value,
    dry_run: bool,
) -> Result<Value, Failure> {
    let params = PostParams {
        dry_run,
        field_manager: Some(MANAGER.to_owned()),
    };
    let body = serde_json::to_vec(machine).map_err(|error| Failure::Other(error.to_string()))?;
    let request = kube::core::Request::new(MACHINE.path(Some(namespace)))
        .create(&params, body)
        .map_err(|error| Failure::Other(error.to_string()))?;
    let created: Result<Value, _> = client.request(request).await;
    let name = machine["metadata"]["name"].as_str().unwrap_or_default();
    created.map_err(|error| Failure::api("create", &format!("Machine {namespace}/{name}"), error))
}

/// Items of a list lack their type.
fn typed(kind: Kind, mut object: Value) -> Value {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name.into();
    object
}

/// Text at a path of fields; empty if absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// A condition of an object; null if absent.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}
