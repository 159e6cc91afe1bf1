//! Parsers of list pages and watch lines. Objects stay JSON text.

use ::decode::Lenient;
use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::WatchFailure;

/// Identity of an object and its resourceVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl Identity {
    /// The identity of an object, empty if it does not decode.
    pub(super) fn of(object: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: Identity,
        }
        ::decode::from_slice::<Object>(object)
            .map(|object| object.metadata)
            .unwrap_or_default()
    }
}

/// A page of a list.
pub(super) struct Page {
    pub(super) items: Vec<Bytes>,
    pub(super) continue_token: Option<String>,
    pub(super) resource_version: String,
}

impl Page {
    pub(super) fn parse(body: &Bytes) -> Result<Self, WatchFailure> {
        #[derive(Deserialize)]
        struct List<'a> {
            metadata: Metadata,
            #[serde(borrow, default)]
            items: Option<Vec<&'a RawValue>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            resource_version: String,
            #[serde(default, rename = "continue")]
            continue_token: String,
        }
        let list: List<'_> = ::decode::from_slice(body)
            .map_err(|_| WatchFailure::local("the response to the list request is not a list"))?;
        let Metadata {
            resource_version,
            continue_token,
        } = list.metadata;
        let continue_token = Some(continue_token).filter(|token| !token.is_empty());
        if resource_version.is_empty() && continue_token.is_none() {
            return Err(WatchFailure::local("the list has no resourceVersion"));
        }
        let items = list.items.unwrap_or_default();
        Ok(Self {
            items: items
                .into_iter()
                .map(|item| body.slice_ref(item.get().as_bytes()))
                .collect(),
            continue_token,
            resource_version,
        })
    }
}

/// One line of a watch response.
pub(super) enum Line<'a> {
    Applied {
        identity: Identity,
        object: &'a [u8],
    },
    Deleted(Identity),
    Bookmark(Identity),
    Error(WatchFailure),
    Unknown,
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, WatchFailure> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(default)]
            r#type: String,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let event: Event<'a> = ::decode::from_slice(line).map_err(|_| {
            WatchFailure::local("a line of the watch response is not a watch event")
        })?;
        let object = event.object.get().as_bytes();
        Ok(match event.r#type.as_str() {
            "ADDED" | "MODIFIED" => Self::Applied {
                identity: Identity::of(object),
                object,
            },
            "DELETED" => Self::Deleted(Identity::of(object)),
            "BOOKMARK" => Self::Bookmark(Identity::of(object)),
            "ERROR" => Self::Error(WatchFailure::of_status(object)),
            _ => Self::Unknown,
        })
    }
}

/// Why an object does not decode: names of fields and types only, since values may be secret.
pub(super) fn explain<T: DeserializeOwned>(object: &[u8]) -> String {
    let mut text = serde_json::Deserializer::from_slice(object);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(Lenient(&mut text)) else {
        return "cannot be decoded".to_owned();
    };
    let problem = without_content(&error.inner().to_string());
    match error.path().to_string().as_str() {
        "." => problem,
        path => format!("{path}: {problem}"),
    }
}

/// Prefixes of serde's messages that quote the input.
const QUOTING: [&str; 5] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "unknown variant ",
    "unknown field ",
];

/// The part of serde's message that does not quote the input.
fn without_content(message: &str) -> String {
    let message = match message.rsplit_once(" at line ") {
        Some((message, _)) => message,
        None => message,
    };
    if message.starts_with("missing field `") || message.starts_with("duplicate field `") {
        return message.to_owned();
    }
    let known = QUOTING.iter().any(|begin| message.starts_with(begin));
    match message.rsplit_once(", expected ") {
        Some((found, expected)) if known => {
            let found = found.split(['`', '"']).next().unwrap_or_default();
            format!("{}, expected {expected}", found.trim_end())
        }
        _ => "cannot be decoded".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only decoded")]
    struct Sample {
        number: u8,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        nested: BTreeMap<String, Vec<bool>>,
    }

    #[derive(Deserialize, Debug)]
    enum Mode {
        On,
        Off,
    }

    #[rstest::rstest]
    #[case(
        r#"{"number": "s3cret, expected \"s3cret\""}"#,
        "number: invalid type: string, expected u8"
    )]
    #[case(r#"{"number": 31337}"#, "number: invalid value: integer, expected u8")]
    #[case(
        r#"{"number": 1, "mode": "s3cret"}"#,
        "mode: unknown variant, expected `On` or `Off`"
    )]
    #[case(
        r#"{"number": 1, "nested": {"a": [true, 31337]}}"#,
        "nested.a[1]: invalid type: integer, expected a boolean"
    )]
    #[case(r"{}", "missing field `number`")]
    #[case(
        r#"{"number": 1, "other": "s3cret"}"#,
        "other: unknown field, expected one of `number`, `mode`, `nested`"
    )]
    #[case(r#"{"number": s3cret"#, "number: cannot be decoded")]
    fn errors_name_fields_and_never_quote_values(#[case] object: &str, #[case] expected: &str) {
        let error = explain::<Sample>(object.as_bytes());
        assert_eq!(error, expected);
    }

    #[test]
    fn a_list_without_items_is_empty() {
        let page = |text: &'static str| Page::parse(&Bytes::from_static(text.as_bytes()));
        let empty = page(r#"{"metadata": {"resourceVersion": "7"}, "items": null}"#);
        assert!(empty.is_ok_and(|page| page.items.is_empty()));
        assert!(page(r#"{"metadata": {}, "items": []}"#).is_err());
        assert!(page(r#"{"kind": "Status"}"#).is_err());
    }
}
