//! Responses to non-resource requests, and error responses.

use http::{HeaderMap, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    ApiError,
    body::Body,
    output::{self, Output},
    registry::Registry,
};

pub fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: std::collections::BTreeSet<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    for resource in registry.all() {
        if resource.group.is_empty() {
            paths.insert(format!("/api/{}", resource.version));
        } else {
            paths.insert(format!("/apis/{}", resource.group));
            paths.insert(format!("/apis/{}/{}", resource.group, resource.version));
        }
    }
    paths.into_iter().collect()
}

/// The Kubernetes release that the conformance recordings were made with.
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": format!("v1.37.0+kubevirt-operator-sandbox.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }),
    })
}

pub fn page_not_found() -> Response<Body> {
    let mut response = plain("404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

pub fn plain(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

pub fn respond(code: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::full(output::to_bytes(value)));
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

pub fn refusal(headers: &HeaderMap, error: &ApiError) -> Response<Body> {
    let status = error.to_status();
    let mut response = respond(error.code, &status);
    if Output::negotiate(headers, "") == Ok(Output::Yaml) {
        *response.body_mut() = Body::full(output::yaml(&status));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/yaml"),
        );
    }
    response
}
