//! Types, bounds and lists.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value};

use crate::{
    Problem, Violation,
    node::{ListType, Node, Type},
    path::Path,
};

pub(crate) fn check(node: &Node, value: &Value, path: &Path, found: &mut Vec<Violation>) {
    let wrong_type = wrong_type(node, value, path);
    let has_wrong_type = wrong_type.is_some();
    found.extend(wrong_type.map(|problem| Violation::new(path, problem)));
    if let Some(supported) = &node.enumeration
        && !supported.contains(value)
    {
        found.push(Violation::new(
            path,
            Problem::Unsupported {
                value: value.clone(),
                supported: supported.clone(),
            },
        ));
    }
    if has_wrong_type {
        return;
    }
    match value {
        Value::String(text) => check_string(node, text, path, found),
        Value::Number(number) => check_number(node, number, path, found),
        Value::Array(items) => check_list(node, items, path, found),
        Value::Object(fields) => check_object(node, fields, path, found),
        Value::Null | Value::Bool(_) => {}
    }
}

fn wrong_type(node: &Node, value: &Value, path: &Path) -> Option<Problem> {
    let is_integer = value.is_i64() || value.is_u64();
    if value.is_null() && node.nullable {
        return None;
    }
    let (right, wanted) = if node.int_or_string {
        (is_integer || value.is_string(), "integer,string")
    } else {
        match node.type_? {
            Type::Object => (value.is_object(), "object"),
            Type::Array => (value.is_array(), "array"),
            Type::String => (value.is_string(), "string"),
            Type::Integer => (is_integer, "integer"),
            Type::Number => (value.is_number(), "number"),
            Type::Boolean => (value.is_boolean(), "boolean"),
        }
    };
    // The API server names the format of an integer, and the type that it decoded to.
    let (wanted, found) = match &node.format {
        Some(format) if node.type_ == Some(Type::Integer) && value.is_f64() => {
            (format.as_str(), "float64")
        }
        _ => (wanted, type_name(value)),
    };
    (!right).then(|| Problem::Type {
        found: found.to_owned(),
        detail: format!("{path} in body must be of type {wanted}"),
    })
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_string(node: &Node, text: &str, path: &Path, found: &mut Vec<Violation>) {
    let invalid = |detail: String| Problem::Invalid {
        value: Some(text.into()),
        detail: format!("{path} in body {detail}"),
    };
    let characters = text.chars().count() as u64;
    if let Some(min) = node.bounds.min_length.filter(|&min| characters < min) {
        found.push(Violation::new(
            path,
            invalid(format!("should be at least {min} chars long")),
        ));
    }
    if let Some(max) = node.bounds.max_length.filter(|&max| characters > max) {
        found.push(Violation::new(path, Problem::TooLong { max }));
    }
    if let Some(pattern) = node
        .pattern
        .as_ref()
        .filter(|pattern| !pattern.is_match(text))
    {
        found.push(Violation::new(
            path,
            invalid(format!("should match '{pattern}'")),
        ));
    }
    if node.format.as_deref() == Some("date-time") && !is_date_time(text) {
        found.push(Violation::new(
            path,
            Problem::Type {
                found: text.to_owned(),
                detail: format!("{path} in body must be of type date-time"),
            },
        ));
    }
}

/// Whether a text is a time as RFC 3339 writes it.
fn is_date_time(text: &str) -> bool {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|[+-](\d\d):(\d\d))$",
        )
        .ok()
    });
    let Some(parts) = FORM.as_ref().and_then(|form| form.captures(text)) else {
        return false;
    };
    let part = |index| {
        parts
            .get(index)
            .map_or(0, |part| part.as_str().parse().unwrap_or(u32::MAX))
    };
    let [year, month, day] = [1, 2, 3].map(part);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
        && part(4) < 24
        && part(5) < 60
        && part(6) < 60
        && part(7) < 24
        && part(8) < 60
}

fn check_number(node: &Node, number: &serde_json::Number, path: &Path, found: &mut Vec<Violation>) {
    let Some(value) = number.as_f64() else { return };
    let bounds = &node.bounds;
    let mut invalid = |detail: String| {
        found.push(Violation::new(
            path,
            Problem::Invalid {
                value: Some(number.clone().into()),
                detail: format!("{path} in body should be {detail}"),
            },
        ));
    };
    match bounds.minimum {
        Some(minimum) if bounds.exclusive_minimum && value <= minimum => {
            invalid(format!("greater than {minimum}"));
        }
        Some(minimum) if value < minimum => invalid(format!("greater than or equal to {minimum}")),
        _ => {}
    }
    match bounds.maximum {
        Some(maximum) if bounds.exclusive_maximum && value >= maximum => {
            invalid(format!("less than {maximum}"));
        }
        Some(maximum) if value > maximum => invalid(format!("less than or equal to {maximum}")),
        _ => {}
    }
    let limit = match node.format.as_deref() {
        Some("int32") => i32::try_from(number.as_i64().unwrap_or(i64::MAX)).is_ok(),
        _ => true,
    };
    if !limit && bounds.maximum.is_none() {
        invalid("a number that fits into 32 bits".to_owned());
    }
}

fn check_list(node: &Node, items: &[Value], path: &Path, found: &mut Vec<Violation>) {
    let count = items.len() as u64;
    if let Some(max) = node.bounds.max_items.filter(|&max| count > max) {
        found.push(Violation::new(
            path,
            Problem::TooMany {
                found: items.len(),
                max,
            },
        ));
    }
    if let Some(min) = node.bounds.min_items.filter(|&min| count < min) {
        found.push(Violation::new(
            path,
            Problem::Invalid {
                value: Some(count.into()),
                detail: format!("{path} in body should have at least {min} items"),
            },
        ));
    }
    if let Some(schema) = &node.items {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &path.index(index), found);
        }
    }
    let identity = |item: &Value| match &node.list {
        ListType::Atomic => None,
        ListType::Set => Some(item.clone()),
        ListType::Map(keys) => {
            let item = item.as_object()?;
            let entries = keys
                .iter()
                .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Some(Value::Object(entries.collect()))
        }
    };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(value) = identity(item) else {
            continue;
        };
        if !seen.insert(value.to_string()) {
            found.push(Violation::new(
                &path.index(index),
                Problem::Duplicate { value },
            ));
        }
    }
}

fn check_object(node: &Node, fields: &Map<String, Value>, path: &Path, found: &mut Vec<Violation>) {
    let count = fields.len() as u64;
    for (bound, broken, word) in [
        (
            node.bounds.min_properties,
            node.bounds.min_properties.is_some_and(|min| count < min),
            "least",
        ),
        (
            node.bounds.max_properties,
            node.bounds.max_properties.is_some_and(|max| count > max),
            "most",
        ),
    ] {
        if let Some(bound) = bound.filter(|_| broken) {
            found.push(Violation::new(
                path,
                Problem::Invalid {
                    value: None,
                    detail: format!("{path} in body should have at {word} {bound} properties"),
                },
            ));
        }
    }
    for name in &node.required {
        let absent = fields
            .get(name)
            .is_none_or(|value| node.field(name).is_some_and(|schema| schema.drops(value)));
        if absent {
            found.push(Violation::new(&path.child(name), Problem::Required));
        }
    }
    for (name, value) in fields {
        let Some((schema, path)) = node.field_at(name, path) else {
            continue;
        };
        if !schema.drops(value) {
            check(schema, value, &path, found);
        }
    }
}
