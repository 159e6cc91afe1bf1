//! The requests we make, each exactly as it goes over the wire.

use http::{Method, Request};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use api::labels::MANAGER;

/// A client that speaks in paths and bodies.
#[derive(Clone)]
pub(super) struct Requests {
    client: Client,
}

impl Requests {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) async fn get(&self, path: &str) -> kube::Result<Value> {
        self.send(Method::GET, path, None, &()).await
    }

    /// Creates an object that must not be there yet.
    pub(super) async fn create(&self, path: &str, body: &impl Serialize) -> kube::Result<Value> {
        let path = format!("{path}?fieldManager={MANAGER}&fieldValidation=Ignore");
        self.send(Method::POST, &path, Some("application/json"), body)
            .await
    }

    /// Sets what is in `body`, and drops what we set before and is not in it.
    pub(super) async fn apply(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let path = format!("{path}?fieldManager={MANAGER}&force=true&fieldValidation=Ignore");
        self.send(
            Method::PATCH,
            &path,
            Some("application/apply-patch+yaml"),
            body,
        )
        .await
    }

    /// Puts labels back, in a name of its own: what is ours of the object is not meant by it.
    pub(super) async fn label(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let path = format!("{path}?fieldManager={MANAGER}-labels");
        let media = Some("application/merge-patch+json");
        self.send(Method::PATCH, &path, media, body).await
    }

    /// Changes what `operations` say, if all their tests hold.
    pub(super) async fn patch(&self, path: &str, operations: &Value) -> kube::Result<Value> {
        let path = format!("{path}?fieldManager={MANAGER}");
        let media = Some("application/json-patch+json");
        self.send(Method::PATCH, &path, media, operations).await
    }

    /// Deletes this very object; in the version that was seen, if one is given. What depends on it
    /// is left to the garbage collector.
    pub(super) async fn delete(
        &self,
        path: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> kube::Result<Value> {
        let mut preconditions = json!({ "uid": uid });
        if let Some(version) = resource_version {
            preconditions["resourceVersion"] = version.into();
        }
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": preconditions, "propagationPolicy": "Background",
        });
        self.send(Method::DELETE, path, Some("application/json"), &body)
            .await
    }

    /// Calls KubeVirt; it answers with nothing.
    pub(super) async fn call(&self, path: &str) -> kube::Result<()> {
        let request = request(Method::PUT, path, Some("application/json"), &json!({}))?;
        self.client.request_text(request).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: &impl Serialize,
    ) -> kube::Result<Value> {
        self.client
            .request(request(method, path, media, body)?)
            .await
    }
}

fn request(
    method: Method,
    path: &str,
    media: Option<&str>,
    body: &impl Serialize,
) -> kube::Result<Request<Vec<u8>>> {
    let mut request = Request::builder().method(method).uri(path);
    let mut bytes = Vec::new();
    if let Some(media) = media {
        request = request.header(http::header::CONTENT_TYPE, media);
        bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    }
    request.body(bytes).map_err(kube::Error::HttpError)
}
