//! API server with many objects, and writes to them.

use apiserver::{ApiServer, Options};
use http::{Method, Request, header};
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// Namespaces of the objects.
pub const NAMESPACES: usize = 20;
const MACHINES: usize = 100;

/// A kind of write.
#[derive(Clone, Copy)]
pub enum Write {
    /// A small ConfigMap is replaced.
    Replace,
    /// A merge patch to the status of a Machine, whose definition has CEL rules.
    Status,
    /// Server-side apply of a small ConfigMap.
    Apply,
}

impl Write {
    pub const ALL: [Self; 3] = [Self::Replace, Self::Status, Self::Apply];

    pub fn name(self) -> &'static str {
        match self {
            Self::Replace => "update of a ConfigMap",
            Self::Status => "merge patch to the status of a Machine (CEL rules)",
            Self::Apply => "server-side apply of a ConfigMap",
        }
    }
}

/// The server and its objects.
pub struct Load {
    pub client: Client,
    objects: usize,
}

impl Load {
    /// A server with this many ConfigMaps, and some Machines.
    pub async fn start(objects: usize) -> Self {
        let server = ApiServer::start(Options::seeded(1));
        let load = Self {
            client: server.client(),
            objects,
        };
        let file = format!(
            "{}/../config/crd/vitistack.io_machines.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(file).expect("the definition is there");
        let definition: Value = serde_saphyr::from_str(&text).expect("the definition is YAML");
        load.send(
            Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "application/json",
            &definition,
        )
        .await;
        for number in 0..NAMESPACES {
            let namespace = json!({"metadata": {"name": namespace(number)}});
            load.send(
                Method::POST,
                "/api/v1/namespaces",
                "application/json",
                &namespace,
            )
            .await;
        }
        load.served("/apis/vitistack.io/v1alpha1/machines").await;
        for number in 0..MACHINES {
            let machine = json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": {"name": format!("machine-{number}")},
                "spec": {"template": "small"},
            });
            load.send(
                Method::POST,
                "/apis/vitistack.io/v1alpha1/namespaces/load-0/machines",
                "application/json",
                &machine,
            )
            .await;
        }
        for number in 0..objects {
            let path = format!("/api/v1/namespaces/{}/configmaps", namespace(number));
            load.send(
                Method::POST,
                &path,
                "application/json",
                &config_map(number, 0),
            )
            .await;
        }
        load
    }

    async fn served(&self, path: &str) {
        loop {
            let request = Request::get(path)
                .body(Body::empty())
                .expect("the request is one");
            let response = self.client.send(request).await.expect("there is an answer");
            if response.status().is_success() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Writes this many times, each time to another object.
    pub async fn write(&self, write: Write, times: usize) {
        for turn in 0..times {
            self.write_one(write, turn, turn).await;
        }
    }

    /// Writes new content to one object.
    pub async fn write_one(&self, write: Write, object: usize, turn: usize) {
        let object = object % self.objects;
        let config_map_path = format!(
            "/api/v1/namespaces/{}/configmaps/{}",
            namespace(object),
            name(object)
        );
        match write {
            Write::Replace => {
                let body = config_map(object, turn + 1);
                self.send(Method::PUT, &config_map_path, "application/json", &body)
                    .await;
            }
            Write::Apply => {
                let path = format!("{config_map_path}?fieldManager=load&force=true");
                let media = "application/apply-patch+yaml";
                let body = config_map(object, turn + 1);
                self.send(Method::PATCH, &path, media, &body).await;
            }
            Write::Status => {
                let path = format!(
                    "/apis/vitistack.io/v1alpha1/namespaces/load-0/machines/machine-{}/status",
                    object % MACHINES
                );
                let body = json!({"status": {"phase": "Running", "vmName": format!("vm-{turn}")}});
                self.send(Method::PATCH, &path, "application/merge-patch+json", &body)
                    .await;
            }
        }
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: &Value) {
        let bytes = serde_json::to_vec(body).expect("a value is JSON");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(bytes)
            .expect("the request is one");
        let answer = self.client.request_text(request).await;
        answer.expect("the API server accepts the object");
    }
}

fn namespace(object: usize) -> String {
    format!("load-{}", object % NAMESPACES)
}

fn name(object: usize) -> String {
    format!("object-{object}")
}

/// Contains the turn, so that watches can identify the write.
fn config_map(object: usize, turn: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name(object),
            "labels": {"app": "load", "tier": format!("tier-{}", object % 5)},
        },
        "data": {"turn": turn.to_string(), "text": "what a small object holds"},
    })
}
