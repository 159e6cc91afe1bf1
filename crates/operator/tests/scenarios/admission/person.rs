//! Somebody who writes, and looks at what is said.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{
    kinds,
    story::{Story, WEBHOOK},
};

/// What the API server answers to a person.
pub(super) struct Answer {
    code: u16,
    pub(super) message: String,
    pub(super) boot_warnings: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let warnings = response.headers().get_all("warning").iter();
        let (boot_warnings, warnings): (Vec<String>, Vec<String>) = warnings
            .map(|warning| {
                let text = warning.to_str().unwrap();
                let text = text.strip_prefix("299 - \"").unwrap();
                text.strip_suffix('"').unwrap().replace("\\\"", "\"")
            })
            // Most Machines of these stories have empty disks, and are not about that.
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

    /// That it was taken, with nothing said.
    #[track_caller]
    pub(super) fn is_silent(&self) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        assert!(self.warnings.is_empty(), "{:?}", self.warnings);
    }

    /// That it was taken, and these words were said.
    #[track_caller]
    pub(super) fn warns(&self, words: &[&str]) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        let said = self.warnings.join("\n");
        for words in words {
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }

    /// That it was refused with these words.
    #[track_caller]
    pub(super) fn refuses(&self, words: &[&str]) {
        self.refuses_with(422, words);
    }

    /// That it was refused with this code and these words.
    #[track_caller]
    pub(super) fn refuses_with(&self, code: u16, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.message);
        for words in words {
            let said = &self.message;
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }
}

impl Story {
    pub(super) async fn send(
        &self,
        method: Method,
        kind: &str,
        name: &str,
        (media, body): (&str, &Value),
    ) -> Answer {
        let resource = kinds::resource(kind);
        let plural = &resource.plural;
        let namespace = if kinds::is_of_the_cluster(kind) {
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
        Answer::of(self.client.send(request).await.unwrap()).await
    }

    /// Creates an object, and tells what is said.
    pub(super) async fn try_create(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let resource = kinds::resource(kind);
        let object = json!({
            "apiVersion": resource.api_version, "kind": kind,
            "metadata": { "name": name }, "spec": spec,
        });
        let json = "application/json";
        self.send(Method::POST, kind, "", (json, &object)).await
    }

    /// Changes an object, and tells what is said.
    pub(super) async fn try_patch(&self, kind: &str, name: &str, patch: Value) -> Answer {
        let merge = "application/merge-patch+json";
        self.send(Method::PATCH, kind, name, (merge, &patch)).await
    }

    /// Deletes an object, and tells what is said.
    pub(super) async fn try_delete(&self, kind: &str, name: &str) -> Answer {
        let json = "application/json";
        self.send(Method::DELETE, kind, name, (json, &json!({})))
            .await
    }

    /// That the webhook has come to a verdict so many times.
    #[track_caller]
    pub(super) fn counts(&self, resource: &str, verdict: &str, count: usize) {
        let text = self.metrics.expose();
        let line = format!(
            "kubevirt_operator_admission_requests_total{{resource=\"{resource}\",verdict=\"{verdict}\"}} {count}\n"
        );
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }

    /// Has nobody answer for the webhook any more.
    pub(super) async fn forget_webhook(&self) {
        self.ground.end_answers_at(WEBHOOK).await;
    }

    /// Has the operator start again, and answer.
    pub(super) async fn restart_operator(&mut self) {
        self.stop_operator().await;
        self.start_operator();
        self.until_operator_is_ready().await;
    }

    pub(super) async fn network(&self, name: &str) {
        let network = json!({ "metadata": { "name": name }, "spec": { "bridge": "br0" } });
        self.create("NetworkConfiguration", network).await;
    }
}
