//! Defaulting.
//!
//! Defaults belong to components, not to kinds: a container gets the same ones in a Pod and in a
//! Deployment. Parents are defaulted before their children.

mod cluster;
mod core;
mod workloads;

use serde_json::{Map, Value};

use crate::{Kind, type_info};

type Fields = Map<String, Value>;

pub fn default(kind: &Kind, object: &mut Value) {
    if let Value::Object(fields) = object {
        component(kind.component, type_info::schema(kind), fields);
    }
}

fn component(name: &str, schema: &Value, fields: &mut Fields) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (field, property) in properties {
        // The schema also lists zero values as defaults, for fields that are always written.
        let declared = property.get("default").filter(|value| !is_zero(value));
        if let Some(declared) = declared {
            crate::value::set_default(fields, field, declared.clone());
        }
    }
    let _ = core::set(name, fields) || workloads::set(name, fields) || cluster::set(name, fields);
    for (field, property) in properties {
        if let Some(value) = fields.get_mut(field) {
            inside(property, value);
        }
    }
}

fn inside(schema: &Value, value: &mut Value) {
    if let Some((name, target)) = type_info::target(schema) {
        if let Value::Object(fields) = value {
            component(name, target, fields);
        }
        return;
    }
    match value {
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    inside(schema, item);
                }
            }
        }
        Value::Object(entries) => {
            if let Some(schema) = schema.get("additionalProperties") {
                for entry in entries.values_mut() {
                    inside(schema, entry);
                }
            }
        }
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(value) => !value,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
