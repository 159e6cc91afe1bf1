//! API server without actors, filled with copies of a running Machine.
//!
//! The sandbox's actors start a few hundred Machines in a minute, not ten thousand. So an operator and
//! the actors start one Machine, and its objects are copied with other names and UIDs.

use std::{sync::Arc, time::Duration};

use apiserver::{ApiServer, Options};
use http::Request;
use kube::Client;
use runtime::client::CallCounter;
use sandbox::Component;
use serde_json::{Value, json};

use crate::cluster::{self, InProcessOperator};

const ORIGINAL: &str = "the-original";
/// Collections of a Machine's objects, in the order of their references.
const PATHS: [&str; 4] = [
    "/apis/vitistack.io/v1alpha1/namespaces/default/machines",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachines",
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances",
];
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Objects of a running Machine, and the storage classes of its cluster.
pub struct Original {
    objects: Vec<(&'static str, Value)>,
    classes: Vec<Value>,
}

impl Original {
    pub async fn create() -> Self {
        let cluster = cluster::start(1).await;
        let client = cluster.client();
        let calls = Arc::new(CallCounter::default());
        let operator = InProcessOperator::start(cluster.server(), cluster.client(), calls);
        cluster::create(&client, ORIGINAL).await;
        cluster::until_running(&client, 1, Duration::from_millis(20)).await;
        // For late updates.
        tokio::time::sleep(Duration::from_secs(2)).await;
        operator.stop().await;
        let mut objects = Vec::new();
        for path in PATHS {
            let found = items(&client, path).await;
            objects.extend(found.into_iter().map(|object| (path, object)));
        }
        assert_eq!(objects.len(), PATHS.len(), "it has one object of each kind");
        let classes = items(&client, STORAGE_CLASSES).await;
        cluster.stop().await.expect("the cluster ends in order");
        Self { objects, classes }
    }

    /// An API server with the definitions and the storage classes.
    pub async fn server(&self) -> ApiServer {
        let server = ApiServer::start(Options {
            start: jiff::Timestamp::now(),
            ..Options::seeded(1)
        });
        let client = server.client();
        let own = api::crds();
        let own = own.iter().map(serde_json::to_value);
        let own = own.map(|definition| definition.expect("a definition is JSON"));
        let others = Component::ALL.into_iter().flat_map(Component::definitions);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in own.chain(others) {
            write(&client, "POST", path, &definition).await;
        }
        // Until the API server serves them.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for class in &self.classes {
            write(&client, "POST", STORAGE_CLASSES, &bare(class)).await;
        }
        server
    }

    /// Creates a copy under another name.
    pub async fn copy(&self, client: &Client, name: &str) {
        let mut replacements = vec![(ORIGINAL.to_owned(), name.to_owned())];
        for (path, object) in &self.objects {
            let mut text = bare(object).to_string();
            for (old, new) in &replacements {
                text = text.replace(old, new);
            }
            let copy: Value = serde_json::from_str(&text).expect("it was JSON before");
            let by = format!("{path}?fieldManager={}", api::labels::MANAGER);
            let created = write(client, "POST", &by, &copy).await;
            // Not every kind has a status subresource.
            if created["status"] != copy["status"] {
                let status = json!({ "status": copy["status"] });
                let path = format!("{path}/{}/status", text_at(&copy, "name"));
                write(client, "PATCH", &path, &status).await;
            }
            replacements.push((text_at(object, "uid"), text_at(&created, "uid")));
        }
    }
}

/// An object without the fields that the API server sets.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            metadata.remove(field);
        }
    }
    object
}

fn text_at(object: &Value, field: &str) -> String {
    let text = object["metadata"][field].as_str();
    text.expect("every object has it").to_owned()
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    let request = Request::get(path).body(Vec::new());
    let list: Value = client
        .request(request.expect("the request is one"))
        .await
        .expect("there is a list");
    let text = |field: &str| list[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let named = items.into_iter().map(|mut item| {
        // Items of lists have no apiVersion and kind.
        item["apiVersion"] = api_version.clone().into();
        item["kind"] = kind.trim_end_matches("List").into();
        item
    });
    named.collect()
}

/// Number of objects of a collection.
pub async fn count(client: &Client, path: &str) -> u64 {
    let request = Request::get(format!("{path}?limit=1")).body(Vec::new());
    let list: Value = client
        .request(request.expect("the request is one"))
        .await
        .expect("there is a list");
    let first = list["items"].as_array().map_or(0, Vec::len) as u64;
    first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0)
}

/// Sends a write and returns the answer.
async fn write(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(body.to_string().into_bytes())
        .expect("the request is one");
    let answer = client.request(request).await;
    answer.expect("the API server accepts the object")
}
