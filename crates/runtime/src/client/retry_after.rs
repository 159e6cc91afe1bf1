//! `Retry-After` of refused requests.
//!
//! kube's errors drop response headers, but have room for the delay in the details of the `Status`:
//! the header is copied there.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header, response::Parts};
use serde_json::{Value, json};

/// Longer delays than this are cut.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The delay that the API server asked for when it refused a request.
pub fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    let delay = Duration::from_secs(seconds.into());
    (seconds > 0).then(|| delay.min(MAX_RETRY_AFTER))
}

/// The delay in the headers of a response.
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The body of a response, with `Retry-After` of its headers in the `Status`.
pub(super) fn copy_to_status(head: &Parts, body: Bytes) -> Bytes {
    let is_refused = head.status.is_client_error() || head.status.is_server_error();
    if !is_refused {
        return body;
    }
    let mut status = serde_json::from_slice(&body).ok().filter(Value::is_object);
    // kube's client does not decode a Status with null fields, and then reports no reason.
    status.iter_mut().for_each(decode::without_null);
    let Some(delay) = from_headers(&head.headers) else {
        return status.map_or(body, |status| status.to_string().into());
    };
    // Proxies and the API server's filters respond with plain text.
    let mut status = status.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": head.status.as_u16(), "reason": head.status.canonical_reason(),
            "message": String::from_utf8_lossy(&body).trim(),
        })
    });
    let seconds = delay.min(MAX_RETRY_AFTER).as_secs();
    if let Some(status) = status.as_object_mut() {
        let details = status.entry("details").or_insert_with(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            details.entry("retryAfterSeconds").or_insert(seconds.into());
        }
    }
    status.to_string().into()
}

#[cfg(test)]
mod tests {
    use ::decode::testing::{Decoder, check, describe};
    use http::Response;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_status_decodes_whether_its_fields_are_null_absent_or_empty() {
        let sample = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"a\" already exists", "reason": "AlreadyExists", "code": 409,
            "details": {
                "name": "a", "group": "apps", "kind": "pods", "uid": "b", "retryAfterSeconds": 3,
                "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "spec"}],
            },
        });
        let decode = |value: &Value| {
            let (head, ()) = Response::builder()
                .status(409)
                .body(())
                .unwrap()
                .into_parts();
            let body = copy_to_status(&head, value.to_string().into());
            let status = serde_json::from_slice::<Status>(&body);
            status
                .map(|status| describe(&status))
                .map_err(|error| error.to_string())
        };
        check(&Decoder {
            name: "Status",
            sample,
            decode: &decode,
            required: &[],
            significant: &["/details", "/metadata"],
            validated: &["/status"],
            never_null: &[],
        });
    }
}
