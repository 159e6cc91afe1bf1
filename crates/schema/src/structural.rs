//! Structural validation: types, bounds and combined schemas.
//!
//! kube-apiserver validates in a fixed order. For `anyOf` and `oneOf` it reports the violations of
//! the best alternative, the one that passed the most checks, so every check counts what it passed.

pub(crate) mod format;
mod junctors;
mod number;

use serde_json::{Map, Value};

use crate::{
    Problem, Violation,
    node::{AdditionalProperties, Node, Type},
    path::Path,
    ratcheting,
};

/// Violations, and the number of passed checks.
#[derive(Debug, Default)]
struct StructuralResult {
    found: Vec<Violation>,
    passed: u64,
}

impl StructuralResult {
    fn merge(&mut self, other: Self) {
        self.found.extend(other.found);
        self.passed += other.passed;
    }

    fn is_valid(&self) -> bool {
        self.found.is_empty()
    }

    fn push(&mut self, path: &Path<'_>, problem: Problem) {
        self.found.push(Violation::at(path.dotted(), problem));
    }

    /// A violation without a path.
    fn push_without_path(&mut self, detail: String) {
        self.found.push(Violation::invalid("", "", detail));
    }
}

/// Validates `value`. With `old`, unchanged violations are tolerated.
pub(crate) fn check(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) {
    found.append(&mut check_value(node, value, old, path).found);
}

/// The same for a part of an object at `path`: error texts are relative to the part.
pub(crate) fn check_part(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let outcome = check_value(node, value, old, &Path::Root);
    found.extend(outcome.found.into_iter().map(|violation| Violation {
        path: match violation.path.as_str() {
            "" => path.to_owned(),
            below => format!("{path}.{below}"),
        },
        ..violation
    }));
}

fn check_value(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
) -> StructuralResult {
    let mut outcome = check_changed(node, value, old, path);
    if let Some(old) = old
        && !outcome.is_valid()
        && ratcheting::is_unchanged(node, value, old)
    {
        outcome.found.clear();
    }
    outcome
}

fn check_changed(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
) -> StructuralResult {
    let mut outcome = StructuralResult::default();
    if value.is_null() {
        if check_type(node, value, path, &mut outcome) {
            outcome.passed += 1;
        }
        check_enumeration(node, value, path, &mut outcome);
        return outcome;
    }
    if node.type_.is_some() || node.int_or_string || node.format.is_some() {
        outcome.passed += 1;
        if check_type(node, value, path, &mut outcome) {
            outcome.passed += 1;
        }
    }
    outcome.passed += 2;
    if let Some(junctors) = &node.junctors {
        outcome.merge(junctors::check(junctors, value, path));
    }
    match value {
        Value::String(text) => {
            check_string(node, text, path, &mut outcome);
            outcome.passed += 1;
            if let Some(format) = &node.format
                && format::is_of_strings(format)
            {
                outcome.passed += 1;
                if !format::fits(format, text) {
                    outcome.push(path, wrong_type(path, format, text));
                }
            }
        }
        Value::Number(number) => {
            number::check(node, number, path, &mut outcome);
            outcome.passed += 2;
        }
        Value::Array(items) => {
            check_list(node, items, old, path, &mut outcome);
            outcome.passed += 2;
        }
        Value::Object(_) | Value::Null | Value::Bool(_) => {}
    }
    check_enumeration(node, value, path, &mut outcome);
    outcome.passed += 1;
    if let Value::Object(fields) = value {
        check_object(node, fields, old, path, &mut outcome);
        outcome.passed += 1;
    }
    outcome.passed += 1;
    outcome
}

fn check_enumeration(node: &Node, value: &Value, path: &Path<'_>, outcome: &mut StructuralResult) {
    if let Some(supported) = &node.enumeration
        && (value.is_null() || !supported.contains(value))
    {
        let problem = Problem::Unsupported {
            value: value.clone(),
            supported: supported.clone(),
        };
        outcome.push(path, problem);
    }
}

fn wrong_type(path: &Path<'_>, wanted: &str, found: &str) -> Problem {
    Problem::Type {
        found: found.to_owned(),
        detail: format!("{} in body must be of type {wanted}", path.dotted()),
    }
}

/// Checks the type. The name of the found type depends on the format, and lists pass for strings
/// with a format, as in kube-apiserver.
fn check_type(node: &Node, value: &Value, path: &Path<'_>, outcome: &mut StructuralResult) -> bool {
    if value.is_null() && node.nullable {
        return true;
    }
    let found = type_name(value);
    let is_numeric = node.int_or_string || matches!(node.type_, Some(Type::Integer | Type::Number));
    let (right, wanted) = if node.int_or_string {
        (
            value.is_string() || number::is_integer(value),
            "integer,string",
        )
    } else {
        match node.type_ {
            None => (value.is_null(), ""),
            Some(Type::Object) => (value.is_object(), "object"),
            Some(Type::Array) => (value.is_array(), "array"),
            Some(Type::String) => (value.is_string(), "string"),
            Some(Type::Integer) => (number::is_integer(value), "integer"),
            Some(Type::Number) => (value.is_number(), "number"),
            Some(Type::Boolean) => (value.is_boolean(), "boolean"),
        }
    };
    if right {
        return true;
    }
    let problem = match (&node.format, value) {
        (Some(_), Value::String(_) | Value::Array(_)) if !is_numeric => return true,
        (Some(format), Value::Number(_) | Value::Bool(_) | Value::Object(_)) => {
            let found = match value {
                Value::Number(number) if number.is_i64() => "int64",
                Value::Number(_) => "float64",
                _ => "",
            };
            wrong_type(path, format, found)
        }
        _ => wrong_type(path, wanted, found),
    };
    outcome.push(path, problem);
    false
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reports only the first violated bound, as kube-apiserver does.
fn check_string(node: &Node, text: &str, path: &Path<'_>, outcome: &mut StructuralResult) {
    let bounds = &node.bounds;
    let characters = if bounds.max_length.is_some() || bounds.min_length.is_some() {
        text.chars().count() as u64
    } else {
        0
    };
    let invalid = |detail: String| Problem::Invalid {
        value: Some(text.into()),
        detail: format!("{} in body {detail}", path.dotted()),
    };
    if let Some(max) = bounds.max_length.filter(|&max| characters > max) {
        outcome.push(path, Problem::TooLong { max });
    } else if let Some(min) = bounds.min_length.filter(|&min| characters < min) {
        let problem = invalid(format!("should be at least {min} chars long"));
        outcome.push(path, problem);
    } else if let Some(pattern) = &node.pattern
        && !pattern.is_match(text)
    {
        let problem = invalid(format!("should match '{pattern}'"));
        outcome.push(path, problem);
    }
}

fn check_list(
    node: &Node,
    items: &[Value],
    old: Option<&Value>,
    path: &Path<'_>,
    outcome: &mut StructuralResult,
) {
    if let Some(schema) = &node.items {
        let old = ratcheting::OldItems::of(node, old);
        for (index, item) in items.iter().enumerate() {
            let old = old.same_as(item);
            outcome.merge(check_value(schema, item, old, &path.index(index)));
        }
    }
    let count = items.len() as u64;
    if let Some(min) = node.bounds.min_items.filter(|&min| count < min) {
        let problem = Problem::Invalid {
            value: Some(count.into()),
            detail: format!("{} in body should have at least {min} items", path.dotted()),
        };
        outcome.push(path, problem);
    }
    if let Some(max) = node.bounds.max_items.filter(|&max| count > max) {
        let found = items.len();
        outcome.push(path, Problem::TooMany { found, max });
    }
}

fn check_object(
    node: &Node,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    outcome: &mut StructuralResult,
) {
    let count = fields.len() as u64;
    if let Some(min) = node.bounds.min_properties.filter(|&min| count < min) {
        let problem = Problem::Invalid {
            value: Some(count.into()),
            detail: format!(
                "{} in body should have at least {min} properties",
                path.dotted()
            ),
        };
        outcome.push(path, problem);
    }
    if let Some(max) = node.bounds.max_properties.filter(|&max| count > max) {
        let found = fields.len();
        outcome.push(path, Problem::TooMany { found, max });
    }
    let old_field = |name: &str| match name {
        // Both objects are in the requested version.
        "apiVersion" | "kind" if path.is_root() => None,
        _ => old?.get(name),
    };
    match &node.additional_properties {
        AdditionalProperties::Unspecified | AdditionalProperties::Allowed(true) => {}
        AdditionalProperties::Allowed(false) => {
            for name in fields.keys() {
                if !node.properties.contains_key(name) {
                    let problem = Problem::Invalid {
                        value: Some(name.as_str().into()),
                        detail: format!("{}.{name} in body is a forbidden property", path.dotted()),
                    };
                    outcome.push(path, problem);
                }
            }
        }
        AdditionalProperties::Schema(schema) => {
            for (name, value) in fields {
                if !node.properties.contains_key(name) {
                    let old = old_field(name);
                    outcome.merge(check_value(schema, value, old, &path.key(name)));
                }
            }
        }
    }
    if !node.properties.is_empty() {
        for (name, value) in fields {
            if let Some(schema) = node.properties.get(name) {
                let old = old_field(name);
                outcome.merge(check_value(schema, value, old, &path.child(name)));
            }
        }
    }
    for name in &node.required {
        if !fields.contains_key(name) {
            outcome.push(&path.child(name), Problem::Required);
        }
    }
}
