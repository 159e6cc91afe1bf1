//! How long a server that refuses a call wishes to be left alone.
//!
//! It says so in the head of its answer, `Retry-After`, of which an error of kube tells nothing.
//! Errors do have a place for it, in the details of the `Status`: there it is put.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header, response::Parts};
use serde_json::{Value, json};

/// A server's wish to be left alone is honoured up to here.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// How long the server that refused a call wishes to be left alone.
pub fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    let wish = Duration::from_secs(seconds.into());
    (seconds > 0).then(|| wish.min(LONGEST_RETRY_AFTER))
}

/// The wish in the head of an answer.
pub(crate) fn of_head(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The body of an answer, with the wish that stands in its head.
pub(super) fn kept(head: &Parts, body: Bytes) -> Bytes {
    let is_refused = head.status.is_client_error() || head.status.is_server_error();
    let Some(wish) = of_head(&head.headers).filter(|_| is_refused) else {
        return body;
    };
    let told = serde_json::from_slice(&body).ok().filter(Value::is_object);
    // What stands before the API server, and its own outer layers, answer in plain words.
    let mut status = told.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": head.status.as_u16(), "reason": head.status.canonical_reason(),
            "message": String::from_utf8_lossy(&body).trim(),
        })
    });
    let seconds = wish.min(LONGEST_RETRY_AFTER).as_secs();
    if let Some(status) = status.as_object_mut() {
        let details = status.entry("details").or_insert_with(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            details.entry("retryAfterSeconds").or_insert(seconds.into());
        }
    }
    status.to_string().into()
}
