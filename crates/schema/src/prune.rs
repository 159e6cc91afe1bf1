//! Pruning: removes unknown fields and disallowed nulls.

use serde_json::{Map, Value};

use crate::{Nulls, metadata, node::Node, path::Path};

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Returns the removed paths in the order of kube-apiserver: metadata, other fields, metadata of
/// embedded resources.
pub(crate) fn prune(root: &Node, object: &mut Value, nulls: Nulls) -> Vec<String> {
    write_integers(object);
    let mut removed = metadata::prune(object, "metadata");
    let mut unknown = Vec::new();
    walk(root, object, &Path::Root, true, &mut unknown);
    unknown.sort();
    removed.append(&mut unknown);
    if nulls == Nulls::Dropped {
        drop_nulls(root, object);
    }
    embedded(root, object, &Path::Root, &mut unknown);
    unknown.sort();
    removed.append(&mut unknown);
    removed
}

/// Prunes a default.
pub(crate) fn prune_default(node: &Node, value: &mut Value) {
    walk(
        node,
        value,
        &Path::Root,
        node.embedded_resource,
        &mut Vec::new(),
    );
}

fn walk(
    node: &Node,
    value: &mut Value,
    path: &Path<'_>,
    is_object: bool,
    removed: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                if is_object && OBJECT_FIELDS.contains(&name.as_str()) {
                    return true;
                }
                let path = path.child(name);
                if let Some(schema) = node.field(name) {
                    walk(schema, value, &path, schema.embedded_resource, removed);
                    return true;
                }
                if node.preserve_unknown_fields {
                    return true;
                }
                if node.additional_properties.is_specified() {
                    // Additional properties are allowed, but their content is unspecified.
                    strip(value, &path, removed);
                    return true;
                }
                removed.push(path.dotted());
                false
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = path.index(index);
                match &node.items {
                    Some(schema) => {
                        let keeps = node.preserve_unknown_fields;
                        if keeps {
                            walk_keeping(schema, item, &path, removed);
                        } else {
                            walk(schema, item, &path, schema.embedded_resource, removed);
                        }
                    }
                    None if node.preserve_unknown_fields => {}
                    None => strip(item, &path, removed),
                }
            }
        }
        _ => {}
    }
}

/// `x-kubernetes-preserve-unknown-fields` of a list applies to its items too.
fn walk_keeping(node: &Node, value: &mut Value, path: &Path<'_>, removed: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = node.field(name) {
                    let path = path.child(name);
                    walk(schema, value, &path, schema.embedded_resource, removed);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (index, item) in items.iter_mut().enumerate() {
                    walk_keeping(schema, item, &path.index(index), removed);
                }
            }
        }
        _ => {}
    }
}

/// Prunes a value without a schema.
fn strip(value: &mut Value, path: &Path<'_>, removed: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            removed.extend(fields.keys().map(|name| path.child(name).dotted()));
            *fields = Map::new();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                strip(item, &path.index(index), removed);
            }
        }
        _ => {}
    }
}

/// Writes integral floats as integers.
fn write_integers(value: &mut Value) {
    /// Floats beyond this skip integers.
    const MOST: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() <= MOST);
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
            if let Some(float) = whole {
                *value = Value::from(float as i64);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(write_integers),
        Value::Array(items) => items.iter_mut().for_each(write_integers),
        _ => {}
    }
}

/// Removes nulls from fields that are not nullable and have no default.
pub(crate) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| match node.field(name) {
            Some(schema) if schema.drops(value) => schema.default.is_some(),
            Some(schema) => {
                drop_nulls(schema, value);
                true
            }
            None => true,
        }),
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for item in items {
                    drop_nulls(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn embedded(node: &Node, value: &mut Value, path: &Path<'_>, removed: &mut Vec<String>) {
    if !node.subtree.embedded {
        return;
    }
    if node.embedded_resource {
        removed.extend(metadata::prune(value, &path.child("metadata").to_string()));
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if let Some((schema, path)) = node.field_at(name, path) {
                    embedded(schema, value, &path, removed);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (index, item) in items.iter_mut().enumerate() {
                    embedded(schema, item, &path.index(index), removed);
                }
            }
        }
        _ => {}
    }
}
