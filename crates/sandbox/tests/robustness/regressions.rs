//! Regression tests of defects that crashed the process or lost an object.

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, DEFINITIONS, JSON, Server, definition};

const PATCH: &str = "application/json-patch+json";

fn nested(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({"a": inner}))
}

fn anything(plural: &str) -> Value {
    definition(
        plural,
        &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    )
}

fn path(plural: &str) -> String {
    format!("/apis/robust.example.com/v1/namespaces/default/{plural}")
}

fn object(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "robust.example.com/v1", "kind": format!("Kind{plural}"),
        "metadata": {"name": "a"}, "spec": spec,
    })
}

#[tokio::test]
async fn a_patch_that_copies_an_object_into_its_own_leaf_is_refused() {
    let server = Server::start();
    server.define(&anything("leaves")).await;
    let made = object("leaves", &json!({"r": nested(50)}));
    server.post(&path("leaves"), &made).await.ok();
    let mut depth = 50;
    let operations: Vec<Value> = (0..12)
        .map(|_| {
            let leaf = format!("/spec/r{}", "/a".repeat(depth));
            depth = 2 * depth + 1;
            json!({"op": "copy", "from": "/spec/r", "path": leaf})
        })
        .collect();
    let answer = server
        .send(
            Method::PATCH,
            &format!("{}/a", path("leaves")),
            PATCH,
            json!(operations).to_string(),
        )
        .await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    server.get(&format!("{}/a", path("leaves"))).await.ok();
}

#[tokio::test]
async fn a_column_with_nested_filters_stays_empty() {
    let server = Server::start();
    let mut deep = anything("columns");
    deep["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Deep", "type": "string", "jsonPath": format!(".a{}", "[?(@".repeat(200_000))},
    ]);
    let answer = server
        .send(Method::POST, DEFINITIONS, JSON, deep.to_string())
        .await;
    assert!(answer.status.is_success() || answer.status.is_client_error());
    server.get("/apis").await.ok();
}

#[tokio::test]
async fn an_index_far_before_the_first_item_finds_nothing() {
    let server = Server::start();
    let mut last = anything("lasts");
    last["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Last", "type": "integer", "jsonPath": ".spec.a[-9223372036854775808]"},
    ]);
    server.define(&last).await.ok();
    let made = object("lasts", &json!({"a": [1, 2]}));
    server.post(&path("lasts"), &made).await.ok();
    let request = Request::get(path("lasts"))
        .header(
            header::ACCEPT,
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        )
        .body(Full::default())
        .unwrap();
    let body = server.request(request).await.into_body();
    let table: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(table["rows"][0]["cells"], json!(["a", null]));
}

#[tokio::test]
async fn an_unbounded_scale_path_creates_no_unbounded_object() {
    let server = Server::start();
    let mut deep = anything("scales");
    deep["spec"]["versions"][0]["subresources"] = json!({"scale": {
        "specReplicasPath": format!(".spec{}", ".a".repeat(200_000)),
        "statusReplicasPath": ".status.replicas",
    }});
    server
        .send(Method::POST, DEFINITIONS, JSON, deep.to_string())
        .await;
    server
        .send(
            Method::PATCH,
            &format!("{}/a/scale", path("scales")),
            "application/merge-patch+json",
            json!({"spec": {"replicas": 3}}).to_string(),
        )
        .await;
    server.get("/apis").await.ok();
}

#[tokio::test]
async fn an_object_that_could_not_be_read_back_is_refused() {
    let server = Server::start();
    server.define(&anything("deeps")).await;
    for (depth, expected) in [(90, StatusCode::CREATED), (123, StatusCode::BAD_REQUEST)] {
        let mut made = object("deeps", &nested(depth));
        made["metadata"]["name"] = format!("d{depth}").into();
        let answer = server.post(&path("deeps"), &made).await;
        assert_eq!(answer.status, expected, "{depth}");
    }
    let kept = server.get(&format!("{}/d90", path("deeps"))).await.ok();
    assert_eq!(kept["spec"], nested(90));
}

#[tokio::test]
async fn an_object_cannot_grow_without_bound_by_patches() {
    let server = Server::start();
    server.define(&anything("growing")).await;
    server
        .post(&path("growing"), &object("growing", &json!({})))
        .await
        .ok();
    let mut refused = 0;
    for number in 0..5 {
        let patch = json!({"spec": {format!("k{number}"): "x".repeat(600_000)}});
        let answer = server
            .send(
                Method::PATCH,
                &format!("{}/a", path("growing")),
                "application/merge-patch+json",
                patch.to_string(),
            )
            .await;
        refused += usize::from(answer.status == StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(refused, 2);
}

#[tokio::test]
async fn a_head_has_no_body() {
    let server = Server::start();
    let answer = server
        .send(Method::HEAD, CONFIG_MAPS, JSON, String::new())
        .await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(answer.body.is_empty());
}
