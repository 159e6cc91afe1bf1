//! Structural schema checks: every field has exactly one type, and combined schemas only restrict
//! it.

use serde_json::{Value, json};

use crate::Violation;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Violations in the order of kube-apiserver.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    invariants(schema, Level::Root, path, &mut found);
    completeness(schema, Some(schema), path, path, &mut found);
    found.sort_by_cached_key(ToString::to_string);
    found
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or("")
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

pub(super) fn entries<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let entries = schema.get(name).and_then(Value::as_object);
    let entry = |(name, value): (&'a String, &'a Value)| (name.as_str(), value);
    entries.into_iter().flatten().map(entry)
}

pub(super) fn items<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = schema.get(name).and_then(Value::as_array);
    items.into_iter().flatten()
}

fn invariants(schema: &Value, level: Level, path: &str, found: &mut Vec<Violation>) {
    let type_ = text(schema, "type");
    match schema.get("items") {
        Some(items) => invariants(items, Level::Item, &format!("{path}.items"), found),
        None if type_ == "array" => {
            found.push(Violation::required(
                format!("{path}.items"),
                "must be specified",
            ));
        }
        None => {}
    }
    for (name, property) in entries(schema, "properties") {
        let path = format!("{path}.properties[{name}]");
        invariants(property, Level::Field, &path, found);
    }
    let additional = format!("{path}.additionalProperties");
    if let Some(values) = schema.get("additionalProperties") {
        if level == Level::Root {
            found.push(Violation::forbidden(
                &additional,
                "must not be used at the root",
            ));
        }
        if values.is_object() {
            invariants(values, Level::Field, &additional, found);
        }
    }
    extensions(schema, path, found);
    value_validation(schema, is_int_or_string(schema.get("anyOf")), path, found);
    types(schema, level, path, found);
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let is_object = level == Level::Root || is_embedded;
    for name in ["kind", "apiVersion"] {
        let property = schema.get("properties").and_then(|fields| fields.get(name));
        if let Some(property) = property.filter(|_| is_object)
            && text(property, "type") != "string"
        {
            found.push(Violation::invalid(
                format!("{path}.properties[{name}].type"),
                text(property, "type"),
                "must be string",
            ));
        }
    }
    let properties = schema.get("properties");
    if let Some(metadata) = properties.and_then(|fields| fields.get("metadata")) {
        let path = format!("{path}.properties[metadata]");
        metadata_invariants(metadata, is_object, level, &path, found);
    }
    let has_properties = entries(schema, "properties").next().is_some();
    let keeps = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if is_embedded && !keeps && !has_properties {
        found.push(Violation::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn extensions(schema: &Value, path: &str, found: &mut Vec<Violation>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, name) {
            found.push(Violation::invalid(
                format!("{path}.{name}"),
                true,
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }
}

fn types(schema: &Value, level: Level, path: &str, found: &mut Vec<Violation>) {
    let type_ = text(schema, "type");
    let place = format!("{path}.type");
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let is_free = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if is_embedded && type_ != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        found.push(if type_.is_empty() {
            Violation::required(place.clone(), detail)
        } else {
            Violation::invalid(place.clone(), type_, detail)
        });
    } else if type_.is_empty() && !is_free {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(Violation::required(place.clone(), detail));
    }
    if is_embedded && schema.get("additionalProperties").is_some() {
        found.push(Violation::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        found.push(Violation::invalid(
            place,
            type_,
            "must be object at the root",
        ));
    }
}

fn metadata_invariants(
    metadata: &Value,
    is_object: bool,
    level: Level,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let type_ = text(metadata, "type");
    if is_object && type_ != "object" {
        found.push(Violation::invalid(
            format!("{path}.type"),
            type_,
            "must be object",
        ));
    }
    if level != Level::Root {
        return;
    }
    let names: Vec<&str> = entries(metadata, "properties")
        .map(|(name, _)| name)
        .collect();
    let only_names = names
        .iter()
        .all(|name| matches!(*name, "name" | "generateName"));
    let says_more = metadata
        .as_object()
        .into_iter()
        .flatten()
        .any(|(name, _)| !matches!(name.as_str(), "type" | "default" | "properties"));
    if says_more || !only_names {
        found.push(Violation::forbidden(
            path,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// The pattern of IntOrString.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn value_validation(schema: &Value, skips_any_of: bool, path: &str, found: &mut Vec<Violation>) {
    if !skips_any_of {
        for (index, nested) in items(schema, "anyOf").enumerate() {
            nested_validation(nested, false, &format!("{path}.anyOf[{index}]"), found);
        }
    }
    for (index, nested) in items(schema, "allOf").enumerate() {
        let skips = index == 0 && is_int_or_string(nested.get("anyOf"));
        nested_validation(nested, skips, &format!("{path}.allOf[{index}]"), found);
    }
    for (index, nested) in items(schema, "oneOf").enumerate() {
        nested_validation(nested, false, &format!("{path}.oneOf[{index}]"), found);
    }
    if let Some(not) = schema.get("not") {
        nested_validation(not, false, &format!("{path}.not"), found);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = cel::compile_pattern(pattern) {
        found.push(Violation::invalid(
            format!("{path}.pattern"),
            pattern,
            format!("must be a valid regular expression, but isn't: {error}"),
        ));
    }
}

fn nested_validation(nested: &Value, skips_any_of: bool, path: &str, found: &mut Vec<Violation>) {
    value_validation(nested, skips_any_of, path, found);
    if let Some(items) = nested.get("items") {
        nested_validation(items, false, &format!("{path}.items"), found);
    }
    for (name, property) in entries(nested, "properties") {
        let path = format!("{path}.properties[{name}]");
        nested_validation(property, false, &path, found);
    }
    let mut forbidden = |name: &str, is_there: bool, what: &str| {
        if is_there {
            let detail = format!("must be {what} to be structural");
            found.push(Violation::forbidden(format!("{path}.{name}"), detail));
        }
    };
    let is_there = |name: &str| nested.get(name).is_some_and(|value| !value.is_null());
    forbidden("type", !text(nested, "type").is_empty(), "empty");
    forbidden(
        "additionalProperties",
        is_there("additionalProperties"),
        "undefined",
    );
    forbidden("default", is_there("default"), "undefined");
    for name in ["title", "description"] {
        forbidden(name, !text(nested, name).is_empty(), "empty");
    }
    for name in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbidden(name, flag(nested, name), "false");
    }
    let keys = "x-kubernetes-list-map-keys";
    forbidden(keys, items(nested, keys).next().is_some(), "empty");
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        forbidden(name, is_there(name), "undefined");
    }
    let rules = "x-kubernetes-validations";
    forbidden(rules, items(nested, rules).next().is_some(), "empty");
    if entries(nested, "properties").any(|(name, _)| name == "metadata") {
        found.push(Violation::forbidden(
            format!("{path}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
}

/// Combined schemas must not introduce fields.
fn completeness(
    says: &Value,
    schema: Option<&Value>,
    schema_path: &str,
    path: &str,
    found: &mut Vec<Violation>,
) {
    if let Some(not) = says.get("not") {
        nested_completeness(not, schema, schema_path, &format!("{path}.not"), found);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in items(says, name).enumerate() {
            let path = format!("{path}.{name}[{index}]");
            nested_completeness(nested, schema, schema_path, &path, found);
        }
    }
}

fn nested_completeness(
    nested: &Value,
    schema: Option<&Value>,
    schema_path: &str,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let Some(schema) = schema else {
        let detail = format!("because it is defined in {path}");
        found.push(Violation::required(schema_path, detail));
        return;
    };
    completeness(nested, Some(schema), schema_path, path, found);
    if let Some(items) = nested.get("items") {
        let (schema_path, path) = (format!("{schema_path}.items"), format!("{path}.items"));
        nested_completeness(items, schema.get("items"), &schema_path, &path, found);
    }
    for (name, property) in entries(nested, "properties") {
        let known = schema.get("properties").and_then(|fields| fields.get(name));
        let schema_path = format!("{schema_path}.properties[{name}]");
        let path = format!("{path}.properties[{name}]");
        nested_completeness(property, known, &schema_path, &path, found);
    }
}
