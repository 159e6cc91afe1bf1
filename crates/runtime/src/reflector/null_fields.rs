//! Property of the parsers: null, absent and empty fields mean the same.

use ::decode::testing::{Decoder, check, describe};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    WatchFailure,
    decode::{Line, Page},
};

fn is_decoded(
    name: &str,
    sample: Value,
    required: &[&str],
    significant: &[&str],
    decode: &dyn Fn(Bytes) -> Result<String, WatchFailure>,
) {
    let decode = |value: &Value| {
        let text = Bytes::from(value.to_string());
        decode(text).map_err(|failure| failure.summary)
    };
    check(&Decoder {
        name,
        sample,
        decode: &decode,
        required,
        significant,
        validated: &[],
        never_null: &[],
    });
}

#[test]
fn lists() {
    let sample = json!({
        "kind": "List", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}],
        "metadata": {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 3},
    });
    // Items are text for someone else to decode.
    let significant = ["/items/**"];
    let decode = |text: Bytes| {
        let Page {
            items,
            continue_token,
            resource_version,
        } = Page::parse(&text)?;
        Ok(describe(&(items.len(), continue_token, resource_version)))
    };
    is_decoded(
        "a page of a list",
        sample.clone(),
        &["/metadata"],
        &significant,
        &decode,
    );
    let mut last = sample;
    last["metadata"] = json!({ "resourceVersion": "7", "continue": "" });
    let required = ["/metadata", "/metadata/resourceVersion"];
    is_decoded(
        "the last page of a list",
        last,
        &required,
        &significant,
        &decode,
    );
}

#[test]
fn events() {
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7"},
        "message": "gone", "code": 410, "details": {"retryAfterSeconds": 3, "causes": []},
    });
    for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"] {
        let sample = json!({ "type": kind, "object": object });
        let decode = |text: Bytes| {
            Ok(match Line::parse(&text)? {
                Line::Applied { identity, .. } => describe(&("applied", identity)),
                Line::Deleted(identity) => describe(&("deleted", identity)),
                Line::Bookmark(identity) => describe(&("bookmark", identity)),
                Line::Error(failure) => describe(&("error", failure)),
                Line::Unknown => "unknown".to_owned(),
            })
        };
        is_decoded(kind, sample, &["/object"], &[], &decode);
    }
}
