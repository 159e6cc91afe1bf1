//! Validation of metadata in documents that people write, with remedies in the messages.

use serde_json::{Map, Value};

use super::{FIELDS, MAX_ANNOTATION_BYTES};
use crate::{Problem, Violation, names, path::Path, unknown_fields::closest};

pub(crate) fn check(object: &Value, found: &mut Vec<Violation>) {
    let path = Path::At("metadata");
    let metadata = match object.get("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None | Some(Value::Null) => {
            found.push(Violation::new(&path.child("name"), Problem::Required));
            return;
        }
        Some(other) => {
            found.push(Violation::new(&path, wrong_type(&path, "object", other)));
            return;
        }
    };
    let mut check = Check {
        path,
        metadata,
        found,
    };
    check.unknown_fields();
    check.names();
    check.labels();
    check.annotations();
}

struct Check<'a> {
    path: Path<'a>,
    metadata: &'a Map<String, Value>,
    found: &'a mut Vec<Violation>,
}

impl Check<'_> {
    fn unknown_fields(&mut self) {
        for name in self
            .metadata
            .keys()
            .filter(|name| !FIELDS.contains(&name.as_str()))
        {
            let similar = closest(name, FIELDS.into_iter()).map(str::to_owned);
            self.found.push(Violation::new(
                &self.path.child(name),
                Problem::Unknown { similar },
            ));
        }
    }

    fn names(&mut self) {
        let name = self.text("name").filter(|name| !name.is_empty());
        let prefix = self
            .text("generateName")
            .filter(|prefix| !prefix.is_empty());
        let is_wrong_type = ["name", "generateName"].iter().any(|field| {
            self.metadata
                .get(*field)
                .is_some_and(|value| !value.is_string() && !value.is_null())
        });
        if name.is_none() && prefix.is_none() && !is_wrong_type {
            self.found
                .push(Violation::new(&self.path.child("name"), Problem::Required));
        }
        if let Some(name) = name.filter(|name| !names::dns_subdomain(name).is_empty()) {
            self.invalid("name", &name, "must be a DNS name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253");
        }
        if let Some(prefix) =
            prefix.filter(|prefix| !names::dns_subdomain(&format!("{prefix}x")).is_empty())
        {
            self.invalid(
                "generateName",
                &prefix,
                "must be the beginning of a DNS name: lower case letters, digits, '-' and '.'",
            );
        }
        let namespace = self
            .text("namespace")
            .filter(|namespace| !namespace.is_empty());
        if let Some(namespace) =
            namespace.filter(|namespace| !names::dns_label(namespace).is_empty())
        {
            self.invalid(
                "namespace",
                &namespace,
                "must be a DNS label: lower case letters, digits and '-', at most 63",
            );
        }
    }

    fn labels(&mut self) {
        for (key, value) in self.texts("labels") {
            let path = self.path.child("labels");
            if !names::qualified_name(&key).is_empty() {
                self.found.push(invalid(&path, &key, KEY));
            }
            if !names::label_value(&value).is_empty() {
                self.found.push(invalid(&path, &value, "must be a label value: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, at most 63"));
            }
        }
    }

    fn annotations(&mut self) {
        let path = Path::At("metadata.annotations");
        let mut bytes = 0;
        for (key, value) in self.texts("annotations") {
            bytes += key.len() + value.len();
            if !names::qualified_name(&key.to_lowercase()).is_empty() {
                self.found.push(invalid(&path, &key, KEY));
            }
        }
        if bytes > MAX_ANNOTATION_BYTES {
            let max = MAX_ANNOTATION_BYTES as u64;
            self.found
                .push(Violation::new(&path, Problem::TooLong { max }));
        }
    }

    /// A string field.
    fn text(&mut self, field: &str) -> Option<String> {
        match self.metadata.get(field)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => {
                let path = self.path.child(field);
                self.found
                    .push(Violation::new(&path, wrong_type(&path, "string", other)));
                None
            }
        }
    }

    /// A string map.
    fn texts(&mut self, field: &str) -> Vec<(String, String)> {
        let path = self.path.child(field);
        let entries = match self.metadata.get(field) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(entries)) => entries,
            Some(other) => {
                self.found
                    .push(Violation::new(&path, wrong_type(&path, "object", other)));
                return Vec::new();
            }
        };
        let mut texts = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match value {
                Value::String(text) => texts.push((key.clone(), text.clone())),
                Value::Null => texts.push((key.clone(), String::new())),
                other => {
                    let path = path.child(key);
                    self.found
                        .push(Violation::new(&path, wrong_type(&path, "string", other)));
                }
            }
        }
        texts
    }

    fn invalid(&mut self, field: &str, value: &str, detail: &str) {
        self.found
            .push(invalid(&self.path.child(field), value, detail));
    }
}

const KEY: &str = "must be a qualified name: letters, digits, '-', '_' and '.', at most 63 characters, optionally after a DNS subdomain and '/'";

fn invalid(path: &Path<'_>, value: &str, detail: &str) -> Violation {
    let problem = Problem::Invalid {
        value: Some(value.into()),
        detail: detail.to_owned(),
    };
    Violation::new(path, problem)
}

fn wrong_type(path: &Path<'_>, wanted: &str, value: &Value) -> Problem {
    let hint = match value {
        Value::Bool(_) | Value::Number(_) if wanted == "string" => " (put it in quotes)",
        _ => "",
    };
    Problem::Type {
        found: crate::structural::type_name(value).to_owned(),
        detail: format!("{path} in body must be of type {wanted}{hint}"),
    }
}
