//! Response representations: JSON, YAML, Table or PartialObjectMetadata.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    ApiError, Details,
    registry::Resource,
    store::Stored,
    table_convertor::{self, IncludeObject},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    Json,
    Yaml,
    Table(IncludeObject),
    Metadata,
}

#[derive(Debug, PartialEq)]
pub struct Accepted<'a> {
    pub media: &'a str,
    /// `as`
    pub transform: &'a str,
    /// `v`
    pub version: &'a str,
    /// `g`
    pub group: &'a str,
}

/// Entries of the `Accept` header, in order.
pub fn accepted(headers: &HeaderMap) -> Vec<Accepted<'_>> {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|entry| !entry.trim().is_empty())
        .map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let mut accepted = Accepted {
                media: parts.next().unwrap_or_default(),
                transform: "",
                version: "",
                group: "",
            };
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key {
                    "as" => accepted.transform = value,
                    "v" => accepted.version = value,
                    "g" => accepted.group = value,
                    _ => {}
                }
            }
            accepted
        })
        .collect()
}

impl Output {
    /// First supported representation that the client accepts.
    pub fn negotiate(headers: &HeaderMap, include: &str) -> Result<Self, ApiError> {
        let include = IncludeObject::parse(include)?;
        let accepted = accepted(headers);
        if accepted.is_empty() {
            return Ok(Self::Json);
        }
        accepted
            .iter()
            .find_map(|entry| Self::of(entry, include))
            .ok_or_else(|| {
                ApiError {
                    details: Some(Details::default()),
                    ..ApiError::new(
                        StatusCode::NOT_ACCEPTABLE,
                        "NotAcceptable",
                        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
                    )
                }
            })
    }

    fn of(entry: &Accepted<'_>, include: IncludeObject) -> Option<Self> {
        match (entry.media, entry.transform, entry.group) {
            ("application/json" | "*/*" | "application/*", "", _) => Some(Self::Json),
            ("application/yaml", "", _) => Some(Self::Yaml),
            ("application/json", "Table", "meta.k8s.io") if entry.version == "v1" => {
                Some(Self::Table(include))
            }
            (
                "application/json",
                "PartialObjectMetadata" | "PartialObjectMetadataList",
                "meta.k8s.io",
            ) if entry.version == "v1" => Some(Self::Metadata),
            _ => None,
        }
    }
}

pub fn json(resource: &Resource, stored: &Stored) -> Bytes {
    if is_stored_form(resource, stored) {
        let mut bytes = BytesMut::with_capacity(resource.json_prefix.len() + stored.body.len());
        write_json(resource, stored, true, &mut bytes);
        return bytes.freeze();
    }
    to_bytes(&value(resource, stored))
}

/// With or without `apiVersion` and `kind`.
pub fn write_json(resource: &Resource, stored: &Stored, typed: bool, bytes: &mut BytesMut) {
    if !is_stored_form(resource, stored) {
        let mut value = value(resource, stored);
        if !typed && let Value::Object(map) = &mut value {
            map.remove("apiVersion");
            map.remove("kind");
        }
        bytes.put(to_bytes(&value));
    } else if typed {
        bytes.put(resource.json_prefix.clone());
        bytes.put(stored.body.slice(1..));
    } else {
        bytes.put(stored.body.clone());
    }
}

/// Converts a stored object to the version of `resource`.
pub fn value(resource: &Resource, stored: &Stored) -> Value {
    let mut value = stored.value();
    if resource.needs_conversion() {
        value = kinds::convert_event(&value, &resource.group);
    }
    let map = crate::object::map_mut(&mut value);
    map.insert("apiVersion".to_owned(), resource.api_version().into());
    map.insert("kind".to_owned(), resource.kind.clone().into());
    if resource.as_custom().is_some() && !is_stored_form(resource, stored) {
        // Another version or an older schema may have stored fields that this one prunes or
        // defaults. Neither step can fail on stored objects.
        let _ = resource.decode(&mut value);
        resource.default(&mut value);
    }
    value
}

fn is_stored_form(resource: &Resource, stored: &Stored) -> bool {
    match resource.as_custom() {
        Some(custom) => custom.stored && stored.revision >= resource.since,
        None => !resource.needs_conversion(),
    }
}

pub fn to_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

pub fn one(output: Output, resource: &Resource, object: &Value, now: jiff::Timestamp) -> Bytes {
    match output {
        Output::Json => to_bytes(object),
        Output::Yaml => yaml(object),
        Output::Table(include) => to_bytes(&table_convertor::convert(
            resource,
            std::slice::from_ref(object),
            include,
            now,
            &json!({"resourceVersion": crate::object::meta(object, "resourceVersion")}),
            true,
        )),
        Output::Metadata => to_bytes(&partial(object)),
    }
}

pub fn yaml(value: &Value) -> Bytes {
    serde_saphyr::to_string(value)
        .unwrap_or_default()
        .into_bytes()
        .into()
}

/// PartialObjectMetadata.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}
