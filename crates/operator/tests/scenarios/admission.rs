//! What is let in, refused and warned of when it is written.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{ground::tell_in_sandbox, kinds, story::Story};

const BECAUSE: &str = "the API server has no way to the operator inside of the test";

/// What the API server answers to a person.
struct Answer {
    code: u16,
    message: String,
    warnings: Vec<String>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings
            .map(|warning| {
                let text = warning.to_str().unwrap();
                let text = text.strip_prefix("299 - \"").unwrap();
                text.strip_suffix('"').unwrap().replace("\\\"", "\"")
            })
            .collect();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        Self {
            code,
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            warnings,
        }
    }

    /// That it was taken, with nothing said.
    #[track_caller]
    fn is_silent(&self) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        assert!(self.warnings.is_empty(), "{:?}", self.warnings);
    }

    /// That it was taken, and these words were said.
    #[track_caller]
    fn warns(&self, words: &[&str]) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        let said = self.warnings.join("\n");
        for words in words {
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }

    /// That it was refused with these words.
    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        assert_eq!(self.code, 422, "{}", self.message);
        for words in words {
            let said = &self.message;
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }
}

impl Story {
    async fn send(
        &self,
        method: Method,
        kind: &str,
        name: &str,
        (media, body): (&str, &Value),
    ) -> Answer {
        let resource = kinds::resource(kind);
        let plural = &resource.plural;
        let namespace = match kinds::is_of_the_cluster(kind) {
            true => String::new(),
            false => format!("/namespaces/{}", self.namespace),
        };
        let root = match resource.group.as_str() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let name = match name {
            "" => String::new(),
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
    async fn try_create(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let resource = kinds::resource(kind);
        let object = json!({
            "apiVersion": resource.api_version, "kind": kind,
            "metadata": { "name": name }, "spec": spec,
        });
        let json = "application/json";
        self.send(Method::POST, kind, "", (json, &object)).await
    }

    /// Changes an object, and tells what is said.
    async fn try_patch(&self, kind: &str, name: &str, patch: Value) -> Answer {
        let merge = "application/merge-patch+json";
        self.send(Method::PATCH, kind, name, (merge, &patch)).await
    }

    /// Deletes an object, and tells what is said.
    async fn try_delete(&self, kind: &str, name: &str) -> Answer {
        let json = "application/json";
        self.send(Method::DELETE, kind, name, (json, &json!({})))
            .await
    }

    async fn network(&self, name: &str) {
        let network = json!({ "metadata": { "name": name }, "spec": { "bridge": "br0" } });
        self.create("NetworkConfiguration", network).await;
    }
}

fn on(network: &str, mac: &str) -> Value {
    json!([{ "name": "lan", "networkName": network, "macAddress": mac }])
}

#[test]
fn a_machine_that_is_fine_is_taken_and_runs_and_the_operators_own_writes_pass() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        story
            .try_create("Machine", "web", json!({}))
            .await
            .is_silent();
        story.until_phase("web", "Running").await;
        let machine = story.get("Machine", "web").await;
        let finalizers = &machine["metadata"]["finalizers"];
        assert_eq!(finalizers[0], "machine.vitistack.io/cleanup");
        story.try_delete("Machine", "web").await.is_silent();
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn what_contradicts_itself_is_refused_with_all_that_is_wrong() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let spec = json!({
            "template": "small",
            "disks": [{ "name": "data" }, { "name": "iso", "size": "1Gi", "type": "cdrom", "bus": "virtio" }],
        });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.refuses(&[
            "spec.disks[0].size: is missing: give the size of disk \"data\"",
            "spec.disks[1].bus: a cdrom cannot be on the virtio bus",
        ]);
        assert!(story.find("Machine", "web").await.is_none());
    });
}
