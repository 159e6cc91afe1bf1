//! Conversion of JSON values to CEL values.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{
    Value as CelValue,
    objects::{Key, Map as CelMap},
};
use serde_json::{Map, Value};

use super::functions::timestamp;
use crate::node::{Node, Type};

/// Unknown fields and nulls are not visible to rules.
pub(super) fn to_cel(node: &Node, value: &Value, is_object: bool) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match (node.type_, number.as_i64(), number.as_f64()) {
            (Some(Type::Number), _, Some(number)) => CelValue::Float(number),
            (_, Some(number), _) => CelValue::Int(number),
            // An integer written with a decimal point.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the schema says it is whole"
            )]
            (Some(Type::Integer), None, Some(number)) => CelValue::Int(number as i64),
            (_, None, number) => CelValue::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => {
            let text = || Arc::new(text.clone());
            match node.format.as_deref() {
                Some("date-time" | "datetime") => timestamp(text()),
                Some("date") => timestamp(Arc::new(format!("{}T00:00:00Z", text()))),
                _ => CelValue::String(text()),
            }
        }
        Value::Array(items) => {
            let schema = node.items.as_deref().unwrap_or(node);
            CelValue::List(Arc::new(
                items
                    .iter()
                    .map(|item| to_cel(schema, item, schema.embedded_resource))
                    .collect(),
            ))
        }
        Value::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    // Fields without a type are not visible to rules.
                    let is_visible = schema.type_.is_some() || schema.int_or_string;
                    if is_visible && !schema.drops(value) {
                        map.insert(
                            key(&escaped(name)),
                            to_cel(schema, value, schema.embedded_resource),
                        );
                    }
                } else if let Some(schema) = node.additional_properties.schema() {
                    map.insert(key(name), to_cel(schema, value, schema.embedded_resource));
                }
            }
            if is_object {
                add_object_fields(fields, &mut map);
            }
            CelValue::Map(CelMap { map: Arc::new(map) })
        }
    }
}

/// Fields visible on every object: type and name.
fn add_object_fields(fields: &Map<String, Value>, map: &mut HashMap<Key, CelValue>) {
    let text = |value: &str| CelValue::String(Arc::new(value.to_owned()));
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).and_then(Value::as_str) {
            map.insert(key(name), text(value));
        }
    }
    let metadata = fields.get("metadata");
    let mut names = HashMap::new();
    for name in ["name", "generateName"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(name)?.as_str()) {
            names.insert(key(name), text(value));
        }
    }
    // The name is an empty string while it is not generated.
    names.entry(key("name")).or_insert_with(|| text(""));
    map.insert(
        key("metadata"),
        CelValue::Map(CelMap {
            map: Arc::new(names),
        }),
    );
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// Reserved words, which are escaped as field names.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const ESCAPES: [(&str, &str); 4] = [
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
];

fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let escape = |name: String, (plain, escaped): &(&str, &str)| name.replace(plain, escaped);
    ESCAPES.iter().fold(name.to_owned(), escape)
}

pub(super) fn unescaped(name: &str) -> String {
    let word = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"));
    if let Some(word) = word.filter(|word| RESERVED.contains(word)) {
        return word.to_owned();
    }
    let unescape = |name: String, (plain, escaped): &(&str, &str)| name.replace(escaped, plain);
    ESCAPES.iter().rev().fold(name.to_owned(), unescape)
}
