//! OpenAPI documents: v3 for kubectl explain, apply and server-side field validation; v2 as an
//! empty document.
//!
//! kubectl and Helm ask for v2 where v3 has no answer: for a `List`, which is of no group, and for
//! kinds that are not served. With an empty document they skip client-side validation; the server
//! validates the items of a `List`, and discovery reports unknown kinds.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use http::{HeaderMap, Response, StatusCode, header};
use kinds::openapi::{self, Subresource};
use serde_json::{Value, json};

use crate::{
    body::Body,
    output,
    registry::{Registry, Resource, Source},
    respond::respond,
};

const TITLE: &str = "Kubernetes";
const VERSION: &str = "sandbox";
const ONLY_VERSION_3: &str = "Paths and definitions are in /openapi/v3 alone.";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Requested by client-go. Not a valid media type, so the response uses [`PROTOBUF`].
const PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// `/openapi/v3`.
pub fn index(registry: &Registry) -> Value {
    let versions: BTreeSet<(&str, &str)> = registry
        .all()
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    let documents: Vec<(String, String)> = versions
        .into_iter()
        .map(|(group, version)| {
            let path = match group {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            (path, format!("{:016X}", hash(registry, group, version)))
        })
        .collect();
    openapi::index(
        documents
            .iter()
            .map(|(path, hash)| (path.as_str(), hash.as_str())),
    )
}

/// Clients cache documents by hash.
fn hash(registry: &Registry, group: &str, version: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for resource in registry.group_version(group, version) {
        resource.plural.hash(&mut hasher);
        if let Some(custom) = resource.as_custom() {
            custom.open_api.to_string().hash(&mut hasher);
            custom.has_status.hash(&mut hasher);
            custom.scale.is_some().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// `/openapi/v3/apis/GROUP/VERSION`.
pub fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<openapi::Resource<'_>> = registry
        .group_version(group, version)
        .map(|resource| entry(resource))
        .collect();
    (!resources.is_empty()).then(|| openapi::document(group, version, &resources))
}

fn entry(resource: &Resource) -> openapi::Resource<'_> {
    const PART: [&str; 3] = ["get", "patch", "update"];
    match &resource.source {
        Source::BuiltIn(kind) => (*kind).into(),
        Source::Custom(custom) => {
            let mut subresources = Vec::new();
            if custom.has_status {
                subresources.push(Subresource {
                    name: "status",
                    gvk: (&resource.group, &resource.version, &resource.kind),
                    verbs: PART.to_vec(),
                });
            }
            if custom.scale.is_some() {
                subresources.push(Subresource {
                    name: "scale",
                    gvk: ("autoscaling", "v1", "Scale"),
                    verbs: PART.to_vec(),
                });
            }
            openapi::Resource {
                kind: &resource.kind,
                plural: &resource.plural,
                namespaced: resource.namespaced,
                verbs: kinds::STORED_VERBS.to_vec(),
                subresources,
                component: openapi::component_name(
                    &resource.group,
                    &resource.version,
                    &resource.kind,
                ),
                schema: &custom.open_api,
            }
        }
    }
}

/// `/openapi/v2` in the first format that the client accepts.
pub fn version_2(headers: &HeaderMap) -> Response<Body> {
    let accepted = output::accepted(headers);
    let json = || respond(StatusCode::OK, &frame());
    if accepted.is_empty() {
        return json();
    }
    let answer = accepted.iter().find_map(|entry| match entry.media {
        "*/*" | "application/*" | "application/json" => Some(json()),
        PROTOBUF | PROTOBUF_OLD => {
            let mut response = Response::new(Body::full(frame_in_protobuf()));
            let media = header::HeaderValue::from_static(PROTOBUF);
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            Some(response)
        }
        _ => None,
    });
    answer.unwrap_or_else(|| {
        let mut response = Response::new(Body::Full(None));
        *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
        response
    })
}

fn frame() -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": TITLE, "version": VERSION, "description": ONLY_VERSION_3 },
        "paths": {},
    })
}

/// The same document as a protobuf `openapi.v2.Document` of gnostic.
fn frame_in_protobuf() -> Vec<u8> {
    let info = [
        message_field(1, TITLE.as_bytes()),
        message_field(2, VERSION.as_bytes()),
        message_field(3, ONLY_VERSION_3.as_bytes()),
    ];
    let document = [
        message_field(1, b"2.0"),
        message_field(2, &info.concat()),
        message_field(8, b""),
    ];
    document.concat()
}

/// Length-delimited protobuf field.
fn message_field(number: u8, content: &[u8]) -> Vec<u8> {
    const HAS_LENGTH: u8 = 2;
    const MORE: u8 = 0x80;
    let mut field = vec![(number << 3) | HAS_LENGTH];
    let mut length = content.len();
    while length >= usize::from(MORE) {
        let [low, ..] = length.to_le_bytes();
        field.push(low | MORE);
        length >>= 7;
    }
    let [last, ..] = length.to_le_bytes();
    field.push(last);
    field.extend_from_slice(content);
    field
}

#[cfg(test)]
mod tests;
