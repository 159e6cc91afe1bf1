//! Defaulting.

use serde_json::Value;

use crate::node::Node;

/// Sets defaults in existing objects; a default may itself be defaulted.
pub(crate) fn fill(node: &Node, value: &mut Value) {
    if !node.subtree.defaults {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, schema) in &node.properties {
                let Some(default) = &schema.default else {
                    continue;
                };
                if fields.get(name).is_none_or(|value| schema.drops(value)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = node.properties.get(name) {
                    fill(schema, value);
                } else if let Some(schema) = node.additional_properties.schema() {
                    fill_item(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for item in items {
                    fill_item(schema, item);
                }
            }
        }
        _ => {}
    }
}

/// A null item is still an item.
fn fill_item(schema: &Node, item: &mut Value) {
    if let Some(default) = schema.default.as_ref().filter(|_| schema.drops(item)) {
        *item = default.clone();
    }
    fill(schema, item);
}
