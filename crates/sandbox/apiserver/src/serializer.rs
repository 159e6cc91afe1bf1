//! Decoding of request bodies: content type, kind check, field validation, pruning and defaulting.

use std::fmt::Write as _;

use http::{HeaderMap, StatusCode, header};
use kinds::ProtobufError;
use serde_json::Value;

use crate::{
    ApiError, Details, decode, limits, object, output, request::FieldValidation, verbs::Call,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ContentType {
    Json,
    Yaml,
    /// Built-in kinds only.
    Protobuf,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply.
    Apply,
}

impl ContentType {
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        match media_type(headers).as_str() {
            "" | "application/json" | "*/*" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(unsupported(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    pub fn read(self, body: &[u8]) -> Result<decode::Decoded, String> {
        match self {
            Self::Json => decode::json(body),
            Self::Yaml => decode::yaml(body),
            Self::Protobuf => kinds::from_protobuf(body)
                .map(|value| decode::Decoded {
                    value,
                    duplicates: Vec::new(),
                })
                .map_err(|error| error.to_string()),
        }
    }
}

impl PatchType {
    pub fn of(headers: &HeaderMap, is_custom: bool) -> Result<Self, ApiError> {
        match media_type(headers).as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !is_custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if is_custom => Err(unsupported(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError {
                details: Some(Details::default()),
                ..ApiError::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "UnsupportedMediaType",
                    "415: Unsupported Media Type",
                )
            }),
        }
    }
}

fn media_type(headers: &HeaderMap) -> String {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

fn unsupported(accepted: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}

/// Decodes a body into an object of the call's resource: kind checked, unknown fields pruned,
/// defaults set.
pub fn decode_object(
    call: &mut Call<'_>,
    content: ContentType,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let decoded = match content {
        ContentType::Protobuf => from_protobuf(call, body)?,
        _ => content.read(body).map_err(|error| {
            let error = format!("couldn't get version/kind; json parse error: {error}");
            unrecognized(call, &error, body)
        })?,
    };
    if !decoded.value.is_object() && !decoded.value.is_null() {
        let error = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            apimachinery::go::json_type(&decoded.value)
        );
        return Err(unrecognized(call, &error, body));
    }
    let mut value = decoded.value;
    check_kind(call, &mut value)?;
    prune_and_default(call, &mut value, validation, &decoded.duplicates)?;
    Ok(value)
}

fn from_protobuf(call: &Call<'_>, body: &[u8]) -> Result<decode::Decoded, ApiError> {
    if call.resource.as_custom().is_some() {
        return Err(unsupported("application/json, application/yaml"));
    }
    let value = kinds::from_protobuf(body).map_err(|error| match error {
        ProtobufError::Envelope(error) => unrecognized(call, &error, body),
        ProtobufError::Object { version, error } => {
            let kind = &call.resource.kind;
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            ))
        }
    })?;
    Ok(decode::Decoded {
        value,
        duplicates: Vec::new(),
    })
}

/// Prunes unknown fields, applies field validation and sets defaults.
pub fn prune_and_default(
    call: &mut Call<'_>,
    value: &mut Value,
    validation: FieldValidation,
    duplicates: &[String],
) -> Result<(), ApiError> {
    limits::check(value)?;
    let unknown = call.resource.decode(value).map_err(|error| {
        let resource = call.resource;
        ApiError::bad_request(if resource.as_custom().is_some() {
            format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {error}",
                resource.version,
                kind = resource.kind
            )
        } else {
            error
        })
    })?;
    call.apply_field_validation(validation, duplicates, &unknown)?;
    call.resource.default(value);
    Ok(())
}

/// Checks `apiVersion` and `kind` of the body. Built-in kinds may omit them.
pub fn check_kind(call: &Call<'_>, value: &mut Value) -> Result<(), ApiError> {
    let resource = call.resource;
    let map = object::map_mut(value);
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let expected = resource.api_version();
    if resource.as_custom().is_some() {
        for (key, field, given) in [
            ("Kind", "kind", kind),
            ("apiVersion", "apiVersion", api_version),
        ] {
            if given.is_empty() {
                let shown = String::from_utf8_lossy(&output::to_bytes(&Value::Object(map.clone())))
                    .into_owned();
                let _ = field;
                return Err(ApiError::bad_request(format!(
                    "Object '{key}' is missing in '{shown}'"
                )));
            }
        }
    }
    if !kind.is_empty() && kind != resource.kind && resource.built_in_kind().is_some() {
        let (group, version) = object::split_api_version(api_version);
        let registry = call.server.registry();
        if registry.find_kind(group, version, kind).is_none() {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                resource.kind,
            )));
        }
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {own}: converting ({version}.{kind}) to ({}.{own}): unknown conversion",
            match resource.group.split('.').next() {
                None | Some("") => "core",
                Some(group) => group,
            },
            own = resource.kind,
        )));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::invalid(
            &resource.group,
            kind,
            map.get("metadata")
                .and_then(|metadata| metadata.get("name")?.as_str())
                .unwrap_or_default(),
            &[schema::Violation::at(
                "kind",
                schema::Problem::Invalid {
                    value: Some(kind.into()),
                    detail: format!("must be {}", resource.kind),
                },
            )],
        ));
    }
    let map = object::map_mut(value);
    map.insert("apiVersion".to_owned(), expected.into());
    map.insert("kind".to_owned(), resource.kind.clone().into());
    Ok(())
}

fn unrecognized(call: &Call<'_>, error: &str, body: &[u8]) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        call.resource.kind,
        excerpt(body)
    ))
}

/// First bytes of a body: as text if it may be JSON, else in hexadecimal.
fn excerpt(body: &[u8]) -> String {
    const LENGTH: usize = 30;
    let short = body.get(..LENGTH).unwrap_or(body);
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(short).into_owned(),
        Some(_) => short.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        }),
    };
    if short.len() < body.len() {
        format!("{shown} ...")
    } else {
        shown
    }
}
