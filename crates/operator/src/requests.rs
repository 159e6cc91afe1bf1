//! HTTP requests to the API server, as paths and JSON bodies.

use api::ObjectMeta;
use http::{Method, Request};
use kube::{Client, Error, core::Status};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Requests {
    client: Client,
    /// Field manager of all writes.
    manager: &'static str,
}

impl Requests {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    pub(crate) async fn get(&self, path: &str) -> kube::Result<Value> {
        self.send(Method::GET, path, None, &()).await
    }

    /// Reads into a type without building a tree of JSON values first.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str) -> kube::Result<T> {
        self.decoded(request(Method::GET, path, None, &())?).await
    }

    async fn decoded<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> kube::Result<T> {
        let text = self.client.request_text(request).await?;
        decode::from_str(&text).map_err(Error::SerdeError)
    }

    /// Lists the metadata of objects, without their content.
    pub(crate) async fn list_metadata(&self, path: &str) -> kube::Result<MetadataList> {
        let request = Request::get(path).header(
            http::header::ACCEPT,
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        );
        let request = request.body(Vec::new()).map_err(Error::HttpError)?;
        self.decoded(request).await
    }

    /// Deletes all objects of a collection.
    pub(crate) async fn delete_collection(&self, path: &str) -> kube::Result<()> {
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        let request = request(Method::DELETE, path, Some("application/json"), &body)?;
        self.client.request_text(request).await.map(drop)
    }

    /// Aggregated discovery below `/api`, the core group, or `/apis`, all other groups.
    pub(crate) async fn discover<T: DeserializeOwned>(&self, root: &str) -> kube::Result<T> {
        let request = Request::get(root).header(
            http::header::ACCEPT,
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
             application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        );
        let request = request.body(Vec::new()).map_err(Error::HttpError)?;
        self.decoded(request).await
    }

    /// Creates an object; fails if it exists.
    pub(crate) async fn create(&self, path: &str, body: &impl Serialize) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?fieldManager={manager}&fieldValidation=Ignore");
        self.send(Method::POST, &path, Some("application/json"), body)
            .await
    }

    pub(crate) async fn create_dry_run(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?dryRun=All&fieldManager={manager}&fieldValidation=Ignore");
        self.send(Method::POST, &path, Some("application/json"), body)
            .await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?fieldManager={manager}&force=true&fieldValidation=Ignore");
        self.send(
            Method::PATCH,
            &path,
            Some("application/apply-patch+yaml"),
            body,
        )
        .await
    }

    /// Merge patch of metadata with a separate field manager, so that the fields owned through apply stay
    /// unchanged.
    pub(crate) async fn label(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?fieldManager={manager}-labels");
        let media = Some("application/merge-patch+json");
        self.send(Method::PATCH, &path, media, body).await
    }

    /// JSON patch.
    pub(crate) async fn patch(&self, path: &str, operations: &Value) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?fieldManager={manager}");
        let media = Some("application/json-patch+json");
        self.send(Method::PATCH, &path, media, operations).await
    }

    /// Deletes the object with this UID and, if given, this version. Dependents are left to the garbage
    /// collector.
    pub(crate) async fn delete(
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

    /// Merge patch.
    pub(crate) async fn merge(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let manager = self.manager;
        let path = format!("{path}?fieldManager={manager}");
        let media = Some("application/merge-patch+json");
        self.send(Method::PATCH, &path, media, body).await
    }

    /// PUT to a subresource of KubeVirt's API, whose answer is empty.
    pub(crate) async fn call(&self, path: &str) -> kube::Result<()> {
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
        let request = request(method, path, media, body)?;
        debug_assert!(
            may_contain_null(path, media)
                || serde_json::from_slice(request.body())
                    .ok()
                    .and_then(|body| plan::null::find(&body))
                    .is_none(),
            "the body of a write to {path} contains null",
        );
        self.client.request(request).await
    }
}

/// `PartialObjectMetadataList`: one page of a collection, metadata only.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MetadataList {
    #[serde(default)]
    pub(crate) metadata: ListMetadata,
    #[serde(default)]
    pub(crate) items: Vec<PartialObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    /// Empty on the last page.
    #[serde(rename = "continue")]
    pub(crate) continue_token: String,
    pub(crate) remaining_item_count: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PartialObject {
    pub(crate) metadata: ObjectMeta,
}

impl PartialObject {
    /// Namespace and name; the namespace is empty for objects without one.
    pub(crate) fn into_key(self) -> (String, String) {
        let ObjectMeta {
            namespace, name, ..
        } = self.metadata;
        (namespace.unwrap_or_default(), name.unwrap_or_default())
    }
}

/// Turns the 422 of a JSON patch into a conflict: a failed `test` means that someone else changed the
/// object first.
pub(crate) fn as_conflict(error: Error) -> Error {
    match error {
        Error::Api(mut status) if status.code == 422 => {
            status.code = 409;
            Error::Api(status)
        }
        error => error,
    }
}

/// Whether the object exists; perhaps from an earlier attempt whose answer was lost.
pub(crate) fn already_exists(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

pub(crate) fn is_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

/// The API server's message. It may quote fields of the request, which is safe: only Secrets contain
/// confidential data, and the API server does not quote their values.
pub(crate) fn status_message(status: &Status) -> String {
    let message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("HTTP status {}", status.code),
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    };
    in_one_line(&message)
}

/// Whether null has a meaning in the body of a request ([`plan::null`]).
fn may_contain_null(path: &str, media: Option<&str>) -> bool {
    media == Some("application/merge-patch+json") || path.contains("/securitycontextconstraints/")
}

pub(crate) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
        bytes = serde_json::to_vec(body).map_err(Error::SerdeError)?;
    }
    request.body(bytes).map_err(Error::HttpError)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::MetadataList;

    #[rstest]
    #[case(r#"{"metadata":{"resourceVersion":"7"},"items":null}"#)]
    #[case(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#)]
    #[case(r#"{"metadata":{"continue":null,"remainingItemCount":null}}"#)]
    #[case(r#"{"metadata":null}"#)]
    #[case("{}")]
    fn an_empty_metadata_list_is_decoded_whether_null_absent_or_empty(#[case] text: &str) {
        let list: MetadataList = decode::from_str(text).unwrap();
        assert!(list.items.is_empty());
        assert!(list.metadata.continue_token.is_empty());
        assert_eq!(list.metadata.remaining_item_count, 0);
    }
}
