//! AdmissionReview requests and responses.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Request, Resource, call::Reply, hook::text, matching::Invocation};
use crate::{ApiError, Cause, Details};

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

pub(super) fn body(invocation: &Invocation<'_>, request: &Request<'_>, uid: &str) -> Value {
    json!({"kind": KIND, "apiVersion": VERSION, "request": self::request(invocation, request, uid)})
}

pub(super) fn request(invocation: &Invocation<'_>, request: &Request<'_>, uid: &str) -> Value {
    let kind = |resource: &Resource<'_>| json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let resource = |of: &Resource<'_>| json!({"group": of.group, "version": of.version, "resource": of.resource});
    let converted = |object: Option<&Value>| {
        let mut object = object.cloned().unwrap_or(Value::Null);
        if invocation.resource != request.resource && object.is_object() {
            object["apiVersion"] = invocation.resource.api_version().into();
            object["kind"] = invocation.resource.kind.into();
        }
        object
    };
    let mut map = Map::new();
    let mut set = |field: &str, value: Value| {
        if value != "" {
            map.insert(field.into(), value);
        }
    };
    map_fields(&mut set, request, uid);
    set("kind", kind(&invocation.resource));
    set("resource", resource(&invocation.resource));
    set("requestKind", kind(&request.resource));
    set("requestResource", resource(&request.resource));
    set("object", converted(request.object));
    set("oldObject", converted(request.old_object));
    Value::Object(map)
}

fn map_fields(set: &mut impl FnMut(&str, Value), request: &Request<'_>, uid: &str) {
    set("uid", uid.into());
    set("subResource", request.subresource.into());
    set("requestSubResource", request.subresource.into());
    set("name", request.name.into());
    set("namespace", request.namespace.into());
    set("operation", request.operation.as_str().into());
    set("userInfo", request.user.to_user_info());
    set("dryRun", request.dry_run.into());
    set("options", request.options.clone());
}

#[derive(Debug, PartialEq)]
pub(super) struct AdmissionResponse {
    /// Refusal, or the JSON patch to apply; null for none.
    pub(super) verdict: Result<Value, ApiError>,
    pub(super) warnings: Vec<String>,
}

/// Decodes a response. The error says what is invalid.
pub(super) fn decode_response(
    hook: &str,
    uid: &str,
    mutating: bool,
    reply: &Reply,
) -> Result<AdmissionResponse, String> {
    let review = decode_review(reply).map_err(|why| format!("failed to call webhook: {why}"))?;
    let response =
        verify(&review, uid).map_err(|why| format!("received invalid webhook response: {why}"))?;
    let patch = patch(response, mutating)?;
    let warnings = response["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|warning| warning.as_str().map(str::to_owned))
        .collect();
    let verdict = if response["allowed"] == true {
        Ok(decode_patch(response, &patch)?)
    } else {
        Err(denial(hook, &response["status"]))
    };
    Ok(AdmissionResponse { verdict, warnings })
}

fn decode_review(reply: &Reply) -> Result<Value, String> {
    if !reply.status.is_success() {
        return Err(failure(reply));
    }
    if reply.body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            reply.status.as_u16(),
            reply.content_type
        ));
    }
    let review: Value = serde_json::from_slice(&reply.body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    if !review.is_object() {
        return Err("couldn't get version/kind; json parse error: not an object".into());
    }
    if text(&review, "apiVersion") == "admission.k8s.io/v1beta1" && text(&review, "kind") == KIND {
        return Err(
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
                .into(),
        );
    }
    Ok(review)
}

/// Error text of a non-2xx response: the message of the `Status` in the body, else the text
/// client-go has for the code.
fn failure(reply: &Reply) -> String {
    let status: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if text(&status, "kind") == "Status" && !text(&status, "message").is_empty() {
        return text(&status, "message").to_owned();
    }
    let meaning = match reply.status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        code => {
            let message =
                if reply.content_type.is_empty() || reply.content_type.starts_with("text/") {
                    String::from_utf8_lossy(&reply.body).trim().to_owned()
                } else {
                    "unknown".to_owned()
                };
            return match code {
                403 | 406 => message,
                500.. => format!(
                    "an error on the server ({message:?}) has prevented the request from succeeding"
                ),
                code => format!(
                    "the server responded with the status code {code} but did not return more \
                     information"
                ),
            };
        }
    };
    meaning.to_owned()
}

fn verify<'a>(review: &'a Value, uid: &str) -> Result<&'a Value, String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".into());
    }
    let given = text(response, "uid");
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let (version, kind) = (text(review, "apiVersion"), text(review, "kind"));
    if (version, kind) != (VERSION, KIND) {
        let slash = if version.contains('/') { "" } else { "/" };
        return Err(format!(
            "expected webhook response of {VERSION}, Kind={KIND}, got {slash}{version}, Kind={kind}"
        ));
    }
    Ok(response)
}

/// Empty for no patch.
fn patch(response: &Value, mutating: bool) -> Result<Vec<u8>, String> {
    let patch = STANDARD
        .decode(text(response, "patch"))
        .map_err(|error| format!("failed to call webhook: illegal base64 data: {error}"))?;
    let has_type = !response["patchType"].is_null();
    let wrong = match (mutating, patch.is_empty(), has_type) {
        (true, false, false) => "webhook returned response.patch but not response.patchType",
        (true, true, true) => "webhook returned response.patchType but not response.patch",
        (true, ..) | (false, true, false) => return Ok(patch),
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, true) => "validating webhook may not return response.patchType",
    };
    Err(format!("received invalid webhook response: {wrong}"))
}

fn decode_patch(response: &Value, patch: &[u8]) -> Result<Value, String> {
    if patch.is_empty() {
        return Ok(Value::Null);
    }
    let decoded: Value = serde_json::from_slice(patch)
        .map_err(|error| format!("received undecodable patch in webhook response: {error}"))?;
    match (&decoded, text(response, "patchType")) {
        (Value::Array(operations), _) if operations.is_empty() => Ok(Value::Null),
        (Value::Array(_), "JSONPatch") => Ok(decoded),
        (Value::Array(_), other) => Err(format!("unsupported patch type {other:?}")),
        _ => Err("received undecodable patch in webhook response: not a list of operations".into()),
    }
}

/// Refusal for the `status` of a response.
fn denial(hook: &str, status: &Value) -> ApiError {
    let denied = format!("admission webhook {hook:?} denied the request");
    let (message, reason) = (text(status, "message"), text(status, "reason"));
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"]
        .as_u64()
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| *code >= 400)
        .and_then(|code| StatusCode::from_u16(code).ok())
        .unwrap_or(StatusCode::BAD_REQUEST);
    ApiError {
        reason: Cow::Owned(reason.to_owned()),
        details: status["details"]
            .is_object()
            .then(|| details(&status["details"])),
        ..ApiError::new(code, "", message)
    }
}

fn details(details: &Value) -> Details {
    let field = |name: &str| text(details, name).to_owned();
    let causes = details["causes"].as_array().into_iter().flatten();
    Details {
        name: field("name"),
        group: field("group"),
        kind: field("kind"),
        uid: field("uid"),
        causes: causes
            .map(|cause| Cause {
                reason: text(cause, "reason").to_owned(),
                message: text(cause, "message").to_owned(),
                field: text(cause, "field").to_owned(),
            })
            .collect(),
        retry_after_seconds: details["retryAfterSeconds"]
            .as_u64()
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or_default(),
    }
}
