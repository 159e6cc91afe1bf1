//! An API server where nothing acts, and as many copies of a Machine that runs as are wanted.
//!
//! The sandbox's actors bring up a few hundred Machines in a minute, not ten thousand. So one Machine
//! is brought up by an operator and by the actors, and its objects are copied, with other names and
//! uids.

use std::{sync::Arc, time::Duration};

use apiserver::{ApiServer, Options};
use http::Request;
use kube::Client;
use runtime::client::CallCounter;
use sandbox::Component;
use serde_json::{Value, json};

use crate::ground::{self, Running};

const ORIGINAL: &str = "the-original";
/// The objects of a Machine, those first that others refer to.
const PATHS: [&str; 4] = [
    "/apis/vitistack.io/v1alpha1/namespaces/default/machines",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachines",
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances",
];
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// The objects of a Machine that runs, and the storage classes of its cluster.
pub struct Original {
    objects: Vec<(&'static str, Value)>,
    classes: Vec<Value>,
}

impl Original {
    pub async fn bring_up() -> Self {
        let cluster = ground::cluster(1).await;
        let client = cluster.client();
        let calls = Arc::new(CallCounter::default());
        let operator = Running::start(cluster.server(), cluster.client(), calls);
        ground::create(&client, ORIGINAL).await;
        ground::until_running(&client, 1, Duration::from_millis(20)).await;
        // Whatever is still to come.
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

    /// A server that has the definitions and the storage classes.
    pub async fn server(&self) -> ApiServer {
        let server = ApiServer::start(Options {
            start: jiff::Timestamp::now(),
            ..Options::seeded(1)
        });
        let client = server.client();
        let ours = api::crds();
        let ours = ours.iter().map(serde_json::to_value);
        let ours = ours.map(|definition| definition.expect("a definition is JSON"));
        let others = Component::ALL.into_iter().flat_map(Component::definitions);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in ours.chain(others) {
            write(&client, "POST", path, &definition).await;
        }
        // The server's own controller serves them next.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for class in &self.classes {
            write(&client, "POST", STORAGE_CLASSES, &bare(class)).await;
        }
        server
    }

    /// Makes a copy.
    pub async fn copy(&self, client: &Client, name: &str) {
        let mut others = vec![(ORIGINAL.to_owned(), name.to_owned())];
        for (path, object) in &self.objects {
            let mut text = bare(object).to_string();
            for (old, new) in &others {
                text = text.replace(old, new);
            }
            let copy: Value = serde_json::from_str(&text).expect("it was JSON before");
            let by = format!("{path}?fieldManager={}", api::labels::MANAGER);
            let made = write(client, "POST", &by, &copy).await;
            // Not every kind has a status that is written apart.
            if made["status"] != copy["status"] {
                let status = json!({ "status": copy["status"] });
                let path = format!("{path}/{}/status", text_at(&copy, "name"));
                write(client, "PATCH", &path, &status).await;
            }
            others.push((text_at(object, "uid"), text_at(&made, "uid")));
        }
    }
}

/// An object without what the server gives it.
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
        // Items of lists do not say what they are.
        item["apiVersion"] = api_version.clone().into();
        item["kind"] = kind.trim_end_matches("List").into();
        item
    });
    named.collect()
}

/// How many objects there are.
pub async fn count(client: &Client, path: &str) -> u64 {
    let request = Request::get(format!("{path}?limit=1")).body(Vec::new());
    let list: Value = client
        .request(request.expect("the request is one"))
        .await
        .expect("there is a list");
    let first = list["items"].as_array().map_or(0, Vec::len) as u64;
    first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0)
}

/// Writes, and tells what the server made of it.
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
    answer.expect("the server takes the object")
}
