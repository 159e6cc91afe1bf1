//! Validation of type and metadata of embedded resources (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value};

use crate::{
    Problem, Violation,
    metadata::{self, Scope},
    names,
    node::Node,
    path::Path,
};

pub(crate) fn check(node: &Node, value: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    if !node.subtree.embedded {
        return;
    }
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                check_resource(value, fields, path, found);
            }
            for (name, value) in fields {
                if let Some((schema, path)) = node.field_at(name, path) {
                    check(schema, value, &path, found);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    check(schema, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn check_resource(
    value: &Value,
    fields: &Map<String, Value>,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) {
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            found.push(Violation::new(&path.child(name), Problem::Required));
        }
    }
    for (name, check) in [
        (
            "apiVersion",
            api_version_error as fn(&str) -> Option<String>,
        ),
        ("kind", kind_error),
    ] {
        let Some(field) = fields.get(name) else {
            continue;
        };
        let wrong = match field {
            Value::String(text) if text.is_empty() => Some("must not be empty".to_owned()),
            Value::String(text) => check(text),
            _ => Some("must be a string".to_owned()),
        };
        if let Some(wrong) = wrong {
            let place = path.child(name).to_string();
            found.push(Violation::invalid(place, field.clone(), wrong));
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        let place = path.child("metadata").to_string();
        if let Some(error) = metadata::type_error(value) {
            found.push(Violation::invalid(place, metadata.clone(), error));
            return;
        }
        let has_namespace = metadata
            .get("namespace")
            .and_then(Value::as_str)
            .is_some_and(|namespace| !namespace.is_empty());
        let scope = if has_namespace {
            Scope::Namespaced
        } else {
            Scope::Cluster
        };
        let findings = metadata::validate_create_at(value, scope, names::path_segment, &place);
        // The name is optional in an embedded resource.
        let name = format!("{place}.name");
        found.extend(findings.into_iter().filter(|violation| {
            violation.path != name || !matches!(violation.problem, Problem::RequiredBecause { .. })
        }));
    }
}

fn api_version_error(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind_error(text: &str) -> Option<String> {
    let wrong = names::dns_1035_label(&text.to_lowercase());
    (!wrong.is_empty()).then(|| {
        format!(
            "may have mixed case, but should otherwise match: {}",
            wrong.join(",")
        )
    })
}

/// Decoding error of an embedded resource.
pub(crate) fn decode_error(node: &Node, value: &Value, path: &Path<'_>) -> Option<String> {
    if !node.subtree.embedded {
        return None;
    }
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                for name in ["apiVersion", "kind"] {
                    if let Some(field) = fields.get(name).filter(|field| !field.is_string()) {
                        let place = path.child(name).to_string();
                        let wrong = Violation::invalid(place, field.clone(), "must be a string");
                        return Some(wrong.to_string());
                    }
                }
                if let Some(error) = metadata::type_error(value) {
                    let metadata = fields.get("metadata").cloned().unwrap_or_default();
                    let place = path.child("metadata").to_string();
                    return Some(Violation::invalid(place, metadata, error).to_string());
                }
            }
            fields.iter().find_map(|(name, value)| {
                let (schema, path) = node.field_at(name, path)?;
                decode_error(schema, value, &path)
            })
        }
        Value::Array(items) => {
            let schema = node.items.as_ref()?;
            let item = |(index, item)| decode_error(schema, item, &path.index(index));
            items.iter().enumerate().find_map(item)
        }
        _ => None,
    }
}
