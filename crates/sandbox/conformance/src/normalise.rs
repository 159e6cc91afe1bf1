//! Normalisation of responses: replaces what differs from run to run.
//!
//! Within one case, equal UIDs and resource versions stay equal and different ones stay different:
//! each becomes a number in order of first appearance. Times, tokens, addresses, generated names
//! and the case's namespace become placeholders. A time or name that the case itself sent is kept,
//! since a server must return it unchanged.
//!
//! The resource version of a list, table or bookmark becomes a placeholder: it depends on the
//! writes of concurrent cases.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::hide::{anonymise_version, hide_ages, sort_causes};

/// Compiles a pattern of this file. An invalid one matches nothing, and the tests below fail.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})"));

/// Resource versions in messages: as a word, in brackets after another, and in quoted objects.
static VERSIONS_IN_MESSAGES: LazyLock<[Option<Regex>; 3]> = LazyLock::new(|| {
    [
        pattern(r"(resource version: \d+ \()(\d+)"),
        pattern(
            r"(ResourceVersion in (?:precondition: |object meta: |record \()|resource version: |, current: )(\d+)",
        ),
        pattern(r#"(\\?"resourceVersion\\?":\\?")(\d+)"#),
    ]
});

/// Values that one case has encountered so far.
#[derive(Debug)]
pub(crate) struct Normaliser {
    managed_fields: bool,
    uids: Vec<String>,
    versions: Vec<String>,
    /// Texts of this run and their placeholders, longest first.
    names: Vec<(String, String)>,
    generated: BTreeMap<String, usize>,
    sent: String,
}

impl Normaliser {
    pub(crate) fn new(namespace: &str, managed_fields: bool) -> Self {
        Self {
            managed_fields,
            uids: Vec::new(),
            versions: Vec::new(),
            names: vec![(namespace.to_owned(), "${ns}".to_owned())],
            generated: BTreeMap::new(),
            sent: String::new(),
        }
    }

    /// Replaces `text` by `placeholder` from now on.
    pub(crate) fn name(&mut self, text: String, placeholder: String) {
        if text.is_empty() || self.names.iter().any(|(known, _)| *known == text) {
            return;
        }
        self.names.push((text, placeholder));
        self.names
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    }

    pub(crate) fn sent(&mut self, text: &str) {
        self.sent.push_str(text);
        self.sent.push('\n');
    }

    pub(crate) fn body(&mut self, body: &Value) -> Value {
        self.find_generated(body);
        let mut body = body.clone();
        self.value("", &mut body);
        body
    }

    pub(crate) fn event(&mut self, event: &Value) -> Value {
        let mut event = self.body(event);
        if event.get("type").and_then(Value::as_str) == Some("BOOKMARK") {
            anonymise_version(event.get_mut("object"));
        }
        event
    }

    /// Collects generated names before they occur elsewhere in the same response.
    fn find_generated(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let text = |key| fields.get(key).and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
                    && name.starts_with(prefix)
                    && name != prefix
                    && !self.sent.contains(name)
                    && !self.names.iter().any(|(known, _)| known == name)
                {
                    let count = self.generated.entry(prefix.to_owned()).or_default();
                    *count += 1;
                    let placeholder = format!("{prefix}<generated {count}>");
                    self.name(name.to_owned(), placeholder);
                }
                fields.values().for_each(|value| self.find_generated(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.find_generated(item)),
            _ => {}
        }
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.value(key, item);
                }
                if key == "managedFields" {
                    // Servers order them by time, whose seconds depend on the run.
                    items.sort_by_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"].map(|key| {
                            entry
                                .get(key)
                                .and_then(Value::as_str)
                                .unwrap_or_default()
                                .to_owned()
                        })
                    });
                }
            }
            Value::String(text) => *text = self.text(key, text),
            Value::Number(_) if key == "nodePort" || key == "healthCheckNodePort" => {
                *value = Value::from("<port>");
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        if !self.managed_fields {
            fields.remove("managedFields");
        }
        // Opaque: clients may only compare two of them.
        fields.remove("storageVersionHash");
        // Descriptions of columns differ between servers.
        if let Some(columns) = fields
            .get_mut("columnDefinitions")
            .and_then(Value::as_array_mut)
        {
            for column in columns.iter_mut().filter_map(Value::as_object_mut) {
                column.remove("description");
            }
        }
        let is_table = fields.get("kind").and_then(Value::as_str) == Some("Table");
        if is_table {
            hide_ages(fields);
        }
        if matches!(
            fields.get("reason").and_then(Value::as_str),
            Some("Invalid" | "Conflict")
        ) {
            sort_causes(fields);
        }
        if is_table || fields.get("items").is_some_and(Value::is_array) {
            let mut metadata = fields.remove("metadata");
            anonymise_version(metadata.as_mut());
            if let Some(metadata) = metadata {
                fields.insert("metadata".to_owned(), metadata);
            }
        }
        // Sorted, since numbers are given in order of appearance.
        let mut entries: Vec<(&String, &mut Value)> = fields.iter_mut().collect();
        entries.sort_by_key(|(key, _)| key.to_owned());
        for (key, value) in entries {
            self.value(key, value);
        }
        let renamed: Vec<String> = fields
            .keys()
            .filter(|key| self.renamed(key) != **key)
            .cloned()
            .collect();
        for key in renamed {
            if let Some(value) = fields.remove(&key) {
                fields.insert(self.renamed(&key), value);
            }
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        match key {
            "resourceVersion" if is_version(text) => return self.version(text),
            "continue" if !text.is_empty() => return "<continue>".to_owned(),
            "token" if !self.sent.contains(text) => return "<token>".to_owned(),
            "serverRelativeURL" => {
                let path = text.split_once("?hash=").map_or(text, |(path, _)| path);
                return self.renamed(path);
            }
            "clusterIP" | "clusterIPs"
                if text != "None" && !text.is_empty() && !self.sent.contains(text) =>
            {
                return "<ip>".to_owned();
            }
            _ => {}
        }
        let text = self.renamed(text);
        let text = self.replaced(UID.as_ref(), &text, |this, uid| {
            format!("<uid {}>", position(&mut this.uids, uid))
        });
        let text = self.replaced(TIME.as_ref(), &text, |this, time| {
            if this.sent.contains(time) {
                time.to_owned()
            } else {
                "<time>".to_owned()
            }
        });
        if key != "message" {
            return text;
        }
        VERSIONS_IN_MESSAGES
            .iter()
            .flatten()
            .fold(text, |text, pattern| {
                let hidden = |found: &regex::Captures<'_>| {
                    let sent = self.sent.contains(&found[2]);
                    format!("{}{}", &found[1], if sent { &found[2] } else { "<rv>" })
                };
                pattern.replace_all(&text, hidden).into_owned()
            })
    }

    fn renamed(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (name, placeholder)| {
                text.replace(name.as_str(), placeholder)
            })
    }

    fn replaced(
        &mut self,
        pattern: Option<&Regex>,
        text: &str,
        mut with: impl FnMut(&mut Self, &str) -> String,
    ) -> String {
        match pattern {
            Some(pattern) if pattern.is_match(text) => pattern
                .replace_all(text, |found: &regex::Captures<'_>| with(self, &found[0]))
                .into_owned(),
            _ => text.to_owned(),
        }
    }

    fn version(&mut self, text: &str) -> String {
        format!("<rv {}>", position(&mut self.versions, text))
    }
}

fn is_version(text: &str) -> bool {
    text != "0" && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Number of a value in order of first appearance, from 1.
fn position(known: &mut Vec<String>, value: &str) -> usize {
    if let Some(at) = known.iter().position(|known| known == value) {
        return at + 1;
    }
    known.push(value.to_owned());
    known.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "00000000-0000-0000-0000-00000000000a";
    const B: &str = "00000000-0000-0000-0000-00000000000b";

    #[test]
    fn equal_values_stay_equal_and_different_ones_different() {
        let mut normaliser = Normaliser::new("conf-1", false);
        let body = json!({"a": {"uid": B}, "b": {"uid": A, "owner": A},
            "metadata": {"resourceVersion": "17"}});
        assert_eq!(
            normaliser.body(&body),
            json!({"a": {"uid": "<uid 1>"}, "b": {"uid": "<uid 2>", "owner": "<uid 2>"},
                "metadata": {"resourceVersion": "<rv 1>"}})
        );
        let later = json!({"metadata": {"resourceVersion": "18", "uid": A}});
        assert_eq!(
            normaliser.body(&later),
            json!({"metadata": {"resourceVersion": "<rv 2>", "uid": "<uid 2>"}})
        );
    }

    #[test]
    fn times_are_hidden_unless_the_case_sent_them() {
        let mut normaliser = Normaliser::new("conf-1", false);
        normaliser.sent("renewTime: 2020-01-01T00:00:00.000000Z");
        let body = json!(["2026-01-01T00:00:00Z", "2020-01-01T00:00:00.000000Z"]);
        assert_eq!(
            normaliser.body(&body),
            json!(["<time>", "2020-01-01T00:00:00.000000Z"])
        );
    }

    #[test]
    fn the_namespace_and_generated_names_are_placeholders_everywhere() {
        let mut normaliser = Normaliser::new("conf-1", false);
        let body = json!({"metadata": {"namespace": "conf-1", "generateName": "a-", "name": "a-xyz"},
            "message": "conf-1/a-xyz"});
        assert_eq!(
            normaliser.body(&body),
            json!({"metadata": {"namespace": "${ns}", "generateName": "a-",
                "name": "a-<generated 1>"}, "message": "${ns}/a-<generated 1>"})
        );
    }

    #[test]
    fn resource_versions_of_lists_are_hidden() {
        let mut normaliser = Normaliser::new("conf-1", false);
        let list = json!({"metadata": {"resourceVersion": "9", "continue": "abc"},
            "items": [{"metadata": {"resourceVersion": "9"}}]});
        assert_eq!(
            normaliser.body(&list),
            json!({"metadata": {"resourceVersion": "<rv>", "continue": "<continue>"},
                "items": [{"metadata": {"resourceVersion": "<rv 1>"}}]})
        );
        let bookmark =
            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
        assert_eq!(
            normaliser.event(&bookmark),
            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "<rv>"}}})
        );
        let expired = json!({"message": "too old resource version: 1 (99)"});
        assert_eq!(
            normaliser.body(&expired),
            json!({"message": "too old resource version: <rv> (<rv>)"})
        );
    }

    #[test]
    fn causes_of_a_refusal_are_sorted() {
        let mut normaliser = Normaliser::new("conf-1", false);
        let cause = |field: &str| json!({"field": field, "message": "Required value"});
        let refusal = |first: &str, second: &str| {
            json!({"reason": "Invalid", "details": {"causes": [cause(first), cause(second)]},
            "message": format!(
                "X \"a\" is invalid: [{first}: Required value, {second}: Required value]"
            )})
        };
        let in_order = normaliser.body(&refusal("a", "b"));
        assert_eq!(in_order, refusal("a", "b"));
        assert_eq!(normaliser.body(&refusal("b", "a")), in_order);
    }

    #[test]
    fn ages_in_tables_are_hidden() {
        let mut normaliser = Normaliser::new("conf-1", false);
        let table = json!({"kind": "Table",
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
            "rows": [{"cells": ["a", "5s"]}]});
        assert_eq!(
            normaliser.body(&table)["rows"],
            json!([{"cells": ["a", "<age>"]}])
        );
        let later = json!({"kind": "Table", "columnDefinitions": null,
            "rows": [{"cells": ["a", "pods", "5s"]}]});
        assert_eq!(
            normaliser.body(&later)["rows"],
            json!([{"cells": ["a", "pods", "<age>"]}])
        );
    }
}
