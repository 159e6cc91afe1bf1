//! Answers without what differs from run to run.
//!
//! Within one case, equal uids and resource versions stay equal and different ones stay different:
//! each becomes a number in the order of its first appearance. Times, tokens, addresses, generated
//! names and the case's namespace become placeholders. A time or a name that the case itself sent
//! stays, since a server must give it back as it is.
//!
//! The resource version of a list, of a table and of a bookmark loses its number as well: it tells
//! how far the whole server has come, and other cases write to it at the same time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Compiles a pattern of this file. One that is wrong matches nothing, and the tests below fail.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})"));

/// Where messages name a resource version.
static VERSION_IN_MESSAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"((?:ResourceVersion in precondition: |ResourceVersion in object meta: |resource version: |, current: |\())(\d+)",
    )
});

/// What one case has seen so far.
#[derive(Debug)]
pub(crate) struct Normaliser {
    managed_fields: bool,
    uids: Vec<String>,
    versions: Vec<String>,
    /// Texts of this run and what they are called in recordings, longest first.
    names: Vec<(String, String)>,
    generated: BTreeMap<String, usize>,
    /// Everything that was sent.
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

    /// Shows `text` as `placeholder` from now on.
    pub(crate) fn name(&mut self, text: String, placeholder: String) {
        if text.is_empty() || self.names.iter().any(|(known, _)| *known == text) {
            return;
        }
        self.names.push((text, placeholder));
        self.names
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    }

    /// Remembers what the case sent.
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

    /// Learns the names that the server made up, before they are met elsewhere in the same answer.
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
                items.iter_mut().for_each(|item| self.value(key, item));
                if key == "managedFields" {
                    // Servers order them by their times, whose seconds depend on the run.
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
        let is_table = fields.get("kind").and_then(Value::as_str) == Some("Table");
        if is_table {
            hide_ages(fields);
        }
        if is_table || fields.get("items").is_some_and(Value::is_array) {
            let mut metadata = fields.remove("metadata");
            anonymise_version(metadata.as_mut());
            if let Some(metadata) = metadata {
                fields.insert("metadata".to_owned(), metadata);
            }
        }
        // In one order on every server, since the order of appearance counts.
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
        match VERSION_IN_MESSAGE.as_ref() {
            Some(pattern) if key == "message" => pattern
                .replace_all(&text, |found: &regex::Captures<'_>| {
                    let sent = self.sent.contains(&found[2]);
                    format!("{}{}", &found[1], if sent { &found[2] } else { "<rv>" })
                })
                .into_owned(),
            _ => text,
        }
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

/// The number of a value in the order of first appearance, from one.
fn position(known: &mut Vec<String>, value: &str) -> usize {
    if let Some(at) = known.iter().position(|known| known == value) {
        return at + 1;
    }
    known.push(value.to_owned());
    known.len()
}

fn anonymise_version(metadata_or_object: Option<&mut Value>) {
    let Some(value) = metadata_or_object else {
        return;
    };
    let metadata = match value.get_mut("metadata") {
        Some(metadata) => metadata,
        None => value,
    };
    if let Some(version) = metadata.get_mut("resourceVersion")
        && version
            .as_str()
            .is_some_and(|text| !text.is_empty() && text != "0")
    {
        *version = Value::from("<rv>");
    }
}

/// Ages in tables count from the creation to the moment of the request.
fn hide_ages(table: &mut Map<String, Value>) {
    let is_age = |column: &Value| {
        column.get("name").and_then(Value::as_str) == Some("Age")
            || column.get("type").and_then(Value::as_str) == Some("date")
    };
    let ages: Vec<usize> = table
        .get("columnDefinitions")
        .and_then(Value::as_array)
        .map(|columns| {
            columns
                .iter()
                .enumerate()
                .filter(|(_, c)| is_age(c))
                .map(|(at, _)| at)
                .collect()
        })
        .unwrap_or_default();
    let rows = table
        .get_mut("rows")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for cells in rows.filter_map(|row| row.get_mut("cells").and_then(Value::as_array_mut)) {
        for at in &ages {
            if let Some(cell) = cells.get_mut(*at).filter(|cell| *cell != "<unknown>") {
                *cell = Value::from("<age>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "00000000-0000-0000-0000-00000000000a";
    const B: &str = "00000000-0000-0000-0000-00000000000b";

    #[test]
    fn equal_stays_equal_and_different_stays_different() {
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
    fn how_far_the_server_is_does_not_count() {
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
        let gone = json!({"message": "too old resource version: 1 (99)"});
        assert_eq!(
            normaliser.body(&gone),
            json!({"message": "too old resource version: <rv> (<rv>)"})
        );
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
    }
}
