//! Costs of objects and writes in the API server, in bytes and allocations. Counts are exact and
//! can be asserted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use allocation_counter::measure;
use apiserver::{ApiServer, InProcess, Options, User};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use rstest::rstest;
use serde_json::json;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start() -> (Runtime, ApiServer) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let server = runtime.block_on(async { ApiServer::start(Options::seeded(1)) });
    (runtime, server)
}

/// Sends a request and returns the length of the response.
async fn send(service: InProcess, method: Method, path: &str, media: &str, body: Bytes) -> usize {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Full::new(body))
        .unwrap();
    let response = service
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    assert!(response.status().is_success(), "{}", response.status());
    let body = response.into_body().collect().await.unwrap();
    body.to_bytes().len()
}

fn config_map(number: usize, value: usize) -> Bytes {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("object-{number}"), "labels": {"app": "load"}},
        "data": {"value": value.to_string()},
    })
    .to_string()
    .into()
}

#[test]
fn an_object_costs_less_than_a_kibibyte_besides_its_json() {
    const OBJECTS: usize = 1000;
    let (runtime, server) = start();
    let service = server.as_user(User::admin());
    let json = "application/json";
    let create = |numbers: std::ops::Range<usize>| {
        let mut length = 0;
        for number in numbers {
            let body = config_map(number, 0);
            let sent = send(service.clone(), Method::POST, CONFIG_MAPS, json, body);
            length += runtime.block_on(sent);
        }
        length
    };
    // One-time costs, such as the shape of the kind, do not count.
    create(0..10);
    let mut own = 0;
    let counted = measure(|| own = create(10..10 + OBJECTS));
    let used = usize::try_from(counted.bytes_current).unwrap();
    let overhead = used.saturating_sub(own) / OBJECTS;
    assert!(overhead < 1024, "{overhead} bytes an object");
}

#[rstest]
#[case::update(Method::PUT, "application/json", "", 280)]
#[case::merge_patch(Method::PATCH, "application/merge-patch+json", "", 410)]
#[case::apply(
    Method::PATCH,
    "application/apply-patch+yaml",
    "?fieldManager=a&force=true",
    630
)]
fn a_small_write_stays_within_its_allocations(
    #[case] method: Method,
    #[case] media: &str,
    #[case] query: &str,
    #[case] most: u64,
) {
    const WRITES: usize = 100;
    let (runtime, server) = start();
    let service = server.as_user(User::admin());
    let json = "application/json";
    let create = send(
        service.clone(),
        Method::POST,
        CONFIG_MAPS,
        json,
        config_map(0, 0),
    );
    runtime.block_on(create);
    let path = format!("{CONFIG_MAPS}/object-0{query}");
    let write = |values: std::ops::Range<usize>| {
        for value in values {
            let body = config_map(0, value);
            let sent = send(service.clone(), method.clone(), &path, media, body);
            runtime.block_on(sent);
        }
    };
    write(1..10);
    let counted = measure(|| write(100..100 + WRITES));
    let each = counted.count_total / WRITES as u64;
    assert!(each <= most, "{each} allocations, not {most}");
}
