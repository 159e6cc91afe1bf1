//! Reproducibility: equal seeds and equal requests give equal bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{collections::BTreeMap, time::Duration};

use apiserver::{ApiServer, Body, Options, User};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// A run on virtual time.
fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> (u16, Body) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Full::new(body))
        .unwrap();
    let response = server.as_user(User::admin()).oneshot(request).await;
    let response = response.unwrap_or_else(|never| match never {});
    (response.status().as_u16(), response.into_body())
}

/// Reads a body until nothing arrives for a second.
async fn read(mut body: Body) -> String {
    let mut text = String::new();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(1), body.frame()).await {
        text += std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap();
    }
    text
}

/// Responses to requests of all verbs, and the events of watches meanwhile.
async fn transcript(seed: u64) -> Vec<String> {
    let server = ApiServer::start(Options::seeded(seed));
    let json = "application/json";
    let watch = |path: &'static str| send(&server, Method::GET, path, json, &Value::Null);
    let mut watches = Vec::new();
    for path in [
        "/api/v1/configmaps?watch=true&allowWatchBookmarks=true",
        "/api/v1/namespaces?watch=true&allowWatchBookmarks=true",
        "/apis/apps/v1/deployments?watch=true",
    ] {
        watches.push(watch(path).await.1);
    }
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let owner = json!({"metadata": {"generateName": "owner-"}, "data": {"a": "1"}});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    });
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "applied"}, "data": {"b": "2"},
    });
    let requests = [
        (Method::POST, config_maps.to_owned(), json, owner.clone()),
        (Method::POST, config_maps.to_owned(), json, owner),
        (
            Method::PATCH,
            format!("{config_maps}/applied?fieldManager=one"),
            "application/apply-patch+yaml",
            applied,
        ),
        (
            Method::PATCH,
            format!("{config_maps}/applied"),
            "application/merge-patch+json",
            json!({"data": {"c": "3"}}),
        ),
        (
            Method::POST,
            "/apis/apps/v1/namespaces/default/deployments".to_owned(),
            json,
            deployment,
        ),
        (
            Method::POST,
            "/api/v1/namespaces".to_owned(),
            json,
            json!({"metadata": {"name": "short"}}),
        ),
        (
            Method::POST,
            "/api/v1/namespaces/short/configmaps".to_owned(),
            json,
            json!({"metadata": {"name": "inner"}}),
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/short".to_owned(),
            json,
            Value::Null,
        ),
        (
            Method::POST,
            config_maps.to_owned(),
            json,
            json!({"metadata": {"name": "Wrong!"}, "nonsense": 1}),
        ),
        (Method::GET, "/apis".to_owned(), json, Value::Null),
        (Method::GET, "/openapi/v3".to_owned(), json, Value::Null),
        (
            Method::GET,
            format!("{config_maps}?limit=1"),
            json,
            Value::Null,
        ),
    ];
    let mut transcript = Vec::new();
    for (method, path, media, body) in requests {
        let (status, answer) = send(&server, method.clone(), &path, media, &body).await;
        transcript.push(format!("{method} {path}: {status} {}", read(answer).await));
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    for watch in watches {
        transcript.push(read(watch).await);
    }
    server.stop().unwrap();
    transcript
}

#[test]
fn equal_requests_get_equal_responses_and_watch_events() {
    let one = run(transcript(7));
    let other = run(transcript(7));
    assert_eq!(one, other);
    assert_ne!(one, run(transcript(8)), "the seed matters");
    let events = one.last().unwrap();
    assert!(events.contains(r#""type":"ADDED""#), "{events}");
}

/// All objects of a cluster, by path.
async fn objects(server: &ApiServer) -> BTreeMap<String, Value> {
    let json = "application/json";
    let get = async |path: String| -> Value {
        let (status, body) = send(server, Method::GET, &path, json, &Value::Null).await;
        assert_eq!(status, 200, "{path}");
        serde_json::from_str(&read(body).await).unwrap()
    };
    let mut versions = vec!["/api/v1".to_owned()];
    for group in get("/apis".to_owned()).await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            versions.push(format!(
                "/apis/{}",
                version["groupVersion"].as_str().unwrap()
            ));
        }
    }
    let mut objects = BTreeMap::new();
    for version in versions {
        for resource in get(version.clone()).await["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array();
            if !verbs.is_some_and(|verbs| verbs.contains(&"list".into())) {
                continue;
            }
            let path = format!("{version}/{}", resource["name"].as_str().unwrap());
            for item in get(path.clone()).await["items"].as_array().unwrap() {
                let metadata = &item["metadata"];
                let key = format!("{path} {} {}", metadata["namespace"], metadata["name"]);
                objects.insert(key, item.clone());
            }
        }
    }
    objects
}

/// A VM starts, runs for minutes and is stopped; a Deployment rolls out meanwhile.
async fn run_scenario(seed: u64) -> (BTreeMap<String, Value>, BTreeMap<String, Value>) {
    let cluster = Cluster::start(Setup::seeded(seed), None).await.unwrap();
    let server = cluster.server().clone();
    let json = "application/json";
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "vm"},
        "spec": {
            "runStrategy": "Always",
            "template": {"spec": {
                "domain": {
                    "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
                    "memory": {"guest": "1Gi"},
                },
                "volumes": [{"name": "root", "containerDisk": {"image": "example.com/disk"}}],
            }},
        },
    });
    let machines = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
    let (status, body) = send(&server, Method::POST, machines, json, &machine).await;
    assert_eq!(status, 201, "{}", read(body).await);
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let (status, _) = send(&server, Method::POST, deployments, json, &deployment).await;
    assert_eq!(status, 201);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let running = objects(&server).await;
    let halted = json!({"spec": {"runStrategy": "Halted"}});
    let media = "application/merge-patch+json";
    let path = format!("{machines}/vm");
    let (status, _) = send(&server, Method::PATCH, &path, media, &halted).await;
    assert_eq!(status, 200);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let stopped = objects(&server).await;
    cluster.stop().await.unwrap();
    (running, stopped)
}

#[test]
fn equal_seeds_give_equal_clusters() {
    let one = run(run_scenario(3));
    let other = run(run_scenario(3));
    let (running, stopped) = &one;
    let instance = running
        .iter()
        .find(|(key, _)| key.contains("/virtualmachineinstances "))
        .map(|(_, instance)| instance.clone())
        .unwrap_or_default();
    assert_eq!(instance["status"]["phase"], "Running", "{instance:#}");
    assert!(
        !stopped
            .keys()
            .any(|key| key.contains("/virtualmachineinstances "))
    );
    for (key, object) in running {
        assert_eq!(Some(object), other.0.get(key), "{key}");
    }
    assert_eq!(one, other);
}
