//! Comparison of responses with recorded ones.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A server's normalised response to one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RecordedResponse {
    /// HTTP status; absent for steps that read from an open watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// Content type, unless JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Texts of `Warning` headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Value>>,
}

/// How much of a recorded response must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everything: for the sandbox, and for servers of the recorded minor version.
    Exact,
    /// What clients decide by: the HTTP status, a refusal's reason and fields (without list
    /// indices), and the types of watch events. For servers of other versions, whose messages and
    /// defaults differ.
    Essence,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// JSON pointer into the response.
    pub path: String,
    /// Absent for what the server added.
    pub expected: Option<Value>,
    /// Absent for what the server left out.
    pub actual: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| {
            value
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        write!(f, "{path}\n  expected {}", show(&self.expected))?;
        write!(f, "\n  actual   {}", show(&self.actual))
    }
}

/// All differences at this level.
pub(crate) fn compare(
    expected: &RecordedResponse,
    actual: &RecordedResponse,
    level: Level,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let shown = |response: &RecordedResponse| match level {
        Level::Exact => serde_json::to_value(response).unwrap_or_default(),
        Level::Essence => essence(response),
    };
    diff(
        "",
        Some(&shown(expected)),
        Some(&shown(actual)),
        &mut differences,
    );
    differences
}

fn essence(response: &RecordedResponse) -> Value {
    let status = |body: &Value| {
        if body.get("kind").and_then(Value::as_str) != Some("Status") {
            return Value::Null;
        }
        let causes = body.pointer("/details/causes").and_then(Value::as_array);
        let mut fields: Vec<String> = causes
            .into_iter()
            .flatten()
            .filter_map(|cause| cause.get("field").and_then(Value::as_str))
            // Newer releases mark truncated lists of errors with this.
            .filter(|field| *field != "<nil>")
            .map(without_positions)
            .collect();
        fields.sort_unstable();
        fields.dedup();
        json!({"status": body.get("status"), "reason": body.get("reason"), "fields": fields})
    };
    let event = |event: &Value| json!({"type": event.get("type"), "status": event.get("object").map(status)});
    json!({
        "code": response.code,
        "body": response.body.as_ref().map(status),
        "events": response.events.as_ref().map(|events| events.iter().map(event).collect::<Vec<_>>()),
    })
}

/// A field path without list indices, which not every release includes: `a[0].b` is `a.b`.
fn without_positions(field: &str) -> String {
    let mut parts = field.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((position, rest)) if position.bytes().all(|byte| byte.is_ascii_digit()) => {
                plain.push_str(rest);
            }
            _ => {
                plain.push('[');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn diff(
    path: &str,
    expected: Option<&Value>,
    actual: Option<&Value>,
    differences: &mut Vec<Difference>,
) {
    match (expected, actual) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                diff(&path, left.get(key), right.get(key), differences);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for at in 0..left.len().max(right.len()) {
                diff(
                    &format!("{path}/{at}"),
                    left.get(at),
                    right.get(at),
                    differences,
                );
            }
        }
        (left, right) if left == right => {}
        (left, right) => differences.push(Difference {
            path: path.to_owned(),
            expected: left.cloned(),
            actual: right.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(code: u16, body: Value) -> RecordedResponse {
        RecordedResponse {
            code: Some(code),
            content_type: None,
            warnings: Vec::new(),
            body: Some(body),
            events: None,
        }
    }

    #[test]
    fn every_difference_is_reported() {
        let expected = response(200, json!({"a": {"b": 1, "c/d": 2}, "l": [1, 2]}));
        let actual = response(201, json!({"a": {"b": 2}, "l": [1, 2, 3]}));
        let paths: Vec<String> = compare(&expected, &actual, Level::Exact)
            .into_iter()
            .map(|difference| difference.path)
            .collect();
        assert_eq!(paths, ["/body/a/b", "/body/a/c~1d", "/body/l/2", "/code"]);
    }

    #[test]
    fn the_essence_of_a_refusal_is_its_reason_and_fields() {
        let refusal = |reason: &str, message: &str, field: &str| {
            response(
                422,
                json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message,
                    "details": {"causes": [{"field": field}]}}),
            )
        };
        let recorded = refusal("Invalid", "in new words", "spec.a");
        let same = refusal("Invalid", "in old words", "spec.a");
        assert_eq!(compare(&recorded, &same, Level::Essence), []);
        assert_ne!(compare(&recorded, &same, Level::Exact), []);
        let placed = refusal("Invalid", "", "spec.l[0].a[b]");
        let unplaced = refusal("Invalid", "", "spec.l.a[b]");
        assert_eq!(compare(&placed, &unplaced, Level::Essence), []);
        for other in [
            refusal("Conflict", "", "spec.a"),
            refusal("Invalid", "", "spec.b"),
        ] {
            assert_ne!(compare(&recorded, &other, Level::Essence), []);
        }
    }
}
