//! Requests of a user, with assertions on the API server's responses.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{
    kinds,
    scenario::{Scenario, WEBHOOK},
};

/// Response of the API server.
pub(super) struct ApiResponse {
    code: u16,
    pub(super) message: String,
    pub(super) boot_warnings: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl ApiResponse {
    async fn of(response: Response<Body>) -> Self {
        let warnings = response.headers().get_all("warning").iter();
        let (boot_warnings, warnings): (Vec<String>, Vec<String>) = warnings
            .map(|warning| {
                let text = warning.to_str().unwrap();
                let text = text.strip_prefix("299 - \"").unwrap();
                text.strip_suffix('"').unwrap().replace("\\\"", "\"")
            })
            // Most Machines of these scenarios have empty disks on purpose.
            .partition(|warning: &String| warning.contains("finds nothing to boot"));
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        Self {
            code,
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            boot_warnings,
            warnings,
        }
    }

    /// Asserts that the request succeeded without warnings.
    #[track_caller]
    pub(super) fn succeeds(&self) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        assert!(self.warnings.is_empty(), "{:?}", self.warnings);
    }

    /// Asserts that the request succeeded with warnings that contain these texts.
    #[track_caller]
    pub(super) fn warns(&self, texts: &[&str]) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        let warnings = self.warnings.join("\n");
        for text in texts {
            assert!(warnings.contains(text), "{text:?} is not in {warnings:?}");
        }
    }

    /// Asserts that the request was refused as invalid with a message that contains these texts.
    #[track_caller]
    pub(super) fn is_refused(&self, texts: &[&str]) {
        self.is_refused_with(422, texts);
    }

    /// Asserts that the request was refused with a status code and a message that contains these texts.
    #[track_caller]
    pub(super) fn is_refused_with(&self, code: u16, texts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.message);
        for text in texts {
            let message = &self.message;
            assert!(message.contains(text), "{text:?} is not in {message:?}");
        }
    }
}

impl Scenario {
    pub(super) async fn send(
        &self,
        method: Method,
        kind: &str,
        name: &str,
        (media, body): (&str, &Value),
    ) -> ApiResponse {
        let resource = kinds::resource(kind);
        let plural = &resource.plural;
        let namespace = if kinds::is_cluster_scoped(kind) {
            String::new()
        } else {
            format!("/namespaces/{}", self.namespace)
        };
        let root = match resource.group.as_str() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let name = match name {
            query if query.is_empty() || query.starts_with('?') => query.to_owned(),
            name => format!("/{name}"),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{root}{namespace}/{plural}{name}"))
            .header("content-type", media)
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        ApiResponse::of(self.client.send(request).await.unwrap()).await
    }

    /// Sends a create and returns the response.
    pub(super) async fn try_create(&self, kind: &str, name: &str, spec: Value) -> ApiResponse {
        let resource = kinds::resource(kind);
        let object = json!({
            "apiVersion": resource.api_version, "kind": kind,
            "metadata": { "name": name }, "spec": spec,
        });
        let json = "application/json";
        self.send(Method::POST, kind, "", (json, &object)).await
    }

    /// Sends a merge patch and returns the response.
    pub(super) async fn try_patch(&self, kind: &str, name: &str, patch: Value) -> ApiResponse {
        let merge = "application/merge-patch+json";
        self.send(Method::PATCH, kind, name, (merge, &patch)).await
    }

    /// Sends a delete and returns the response.
    pub(super) async fn try_delete(&self, kind: &str, name: &str) -> ApiResponse {
        let json = "application/json";
        self.send(Method::DELETE, kind, name, (json, &json!({})))
            .await
    }

    /// Asserts the number of admission reviews of a resource with a verdict.
    #[track_caller]
    pub(super) fn assert_reviews(&self, resource: &str, verdict: &str, count: usize) {
        let text = self.metrics.expose();
        let line = format!(
            "kubevirt_operator_admission_requests_total{{resource=\"{resource}\",verdict=\"{verdict}\"}} {count}\n"
        );
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }

    /// Stops the webhook's server.
    pub(super) async fn stop_webhook(&self) {
        self.cluster.stop_service(WEBHOOK).await;
    }

    /// Restarts the operator and waits until it is ready.
    pub(super) async fn restart_operator(&mut self) {
        self.stop_operator().await;
        self.start_operator();
        self.until_operator_is_ready().await;
    }

    pub(super) async fn create_network(&self, name: &str) {
        let network = json!({ "metadata": { "name": name }, "spec": { "bridge": "br0" } });
        self.create("NetworkConfiguration", network).await;
    }
}
