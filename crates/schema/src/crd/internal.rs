//! Definitions as Go prints them in error texts: the internal type with every field.

use serde_json::{Map, Value};

use crate::go_format::shown;

#[derive(Clone, Copy)]
enum Absent {
    Null,
    Text,
    False,
}

/// Fields in order: Go name and JSON name.
const SCHEMA: [(&str, &str, Absent); 43] = [
    ("ID", "id", Absent::Text),
    ("Schema", "$schema", Absent::Text),
    ("Ref", "$ref", Absent::Null),
    ("Description", "description", Absent::Text),
    ("Type", "type", Absent::Text),
    ("Nullable", "nullable", Absent::False),
    ("Format", "format", Absent::Text),
    ("Title", "title", Absent::Text),
    ("Default", "default", Absent::Null),
    ("Maximum", "maximum", Absent::Null),
    ("ExclusiveMaximum", "exclusiveMaximum", Absent::False),
    ("Minimum", "minimum", Absent::Null),
    ("ExclusiveMinimum", "exclusiveMinimum", Absent::False),
    ("MaxLength", "maxLength", Absent::Null),
    ("MinLength", "minLength", Absent::Null),
    ("Pattern", "pattern", Absent::Text),
    ("MaxItems", "maxItems", Absent::Null),
    ("MinItems", "minItems", Absent::Null),
    ("UniqueItems", "uniqueItems", Absent::False),
    ("MultipleOf", "multipleOf", Absent::Null),
    ("Enum", "enum", Absent::Null),
    ("MaxProperties", "maxProperties", Absent::Null),
    ("MinProperties", "minProperties", Absent::Null),
    ("Required", "required", Absent::Null),
    ("Items", "items", Absent::Null),
    ("AllOf", "allOf", Absent::Null),
    ("OneOf", "oneOf", Absent::Null),
    ("AnyOf", "anyOf", Absent::Null),
    ("Not", "not", Absent::Null),
    ("Properties", "properties", Absent::Null),
    ("AdditionalProperties", "additionalProperties", Absent::Null),
    ("PatternProperties", "patternProperties", Absent::Null),
    ("Dependencies", "dependencies", Absent::Null),
    ("AdditionalItems", "additionalItems", Absent::Null),
    ("Definitions", "definitions", Absent::Null),
    ("ExternalDocs", "externalDocs", Absent::Null),
    ("Example", "example", Absent::Null),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Absent::Null,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Absent::False,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Absent::False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Absent::Null),
    ("XListType", "x-kubernetes-list-type", Absent::Null),
    ("XMapType", "x-kubernetes-map-type", Absent::Null),
];

pub(super) fn schema(schema: &Value) -> String {
    let mut fields: Vec<String> = SCHEMA
        .iter()
        .map(|(name, key, absent)| {
            let value = match schema.get(key).filter(|value| !value.is_null()) {
                None => absent_form(*absent).to_owned(),
                Some(value) => field(key, value),
            };
            format!("\"{name}\":{value}")
        })
        .collect();
    let rules = match schema.get("x-kubernetes-validations") {
        Some(Value::Array(rules)) => list(rules.iter().map(rule)),
        _ => "null".to_owned(),
    };
    fields.push(format!("\"XValidations\":{rules}"));
    format!("{{{}}}", fields.join(","))
}

fn field(key: &str, value: &Value) -> String {
    match (key, value) {
        ("items", items @ Value::Object(_)) => {
            format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(items))
        }
        ("additionalProperties" | "additionalItems", Value::Bool(allows)) => {
            format!("{{\"Allows\":{allows},\"Schema\":null}}")
        }
        ("additionalProperties" | "additionalItems", values) => {
            format!("{{\"Allows\":true,\"Schema\":{}}}", schema(values))
        }
        ("not", not) => schema(not),
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => list(schemas.iter().map(schema)),
        ("properties" | "patternProperties" | "definitions", Value::Object(schemas)) => {
            let entries: Vec<String> = schemas
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), schema(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        (_, value @ (Value::Object(_) | Value::Array(_))) => shown(value),
        (_, value) => value.to_string(),
    }
}

fn absent_form(absent: Absent) -> &'static str {
    match absent {
        Absent::Null => "null",
        Absent::Text => "\"\"",
        Absent::False => "false",
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

pub(super) fn rule(rule: &Value) -> String {
    let text = |name: &str| {
        let text = rule.get(name).and_then(Value::as_str).unwrap_or("");
        shown_text(text)
    };
    let raw = |name: &str| match rule.get(name) {
        None | Some(Value::Null) => "null".to_owned(),
        Some(value) => value.to_string(),
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        raw("reason"),
        text("fieldPath"),
        raw("optionalOldSelf")
    )
}

/// A string inside JSON.
fn shown_text(text: &str) -> String {
    Value::from(text)
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Versions without the hoisted fields.
pub(super) fn versions(versions: &[Value], hoisted: &Map<String, Value>) -> String {
    list(versions.iter().map(|version| {
        let flag = |name: &str| version.get(name) == Some(&Value::Bool(true));
        let raw = |name: &str| match version.get(name) {
            None | Some(Value::Null) => "null".to_owned(),
            Some(value) => value.to_string(),
        };
        let schema = match version.pointer("/schema/openAPIV3Schema") {
            Some(value) if !hoisted.contains_key("schema") => {
                format!("{{\"OpenAPIV3Schema\":{}}}", schema(value))
            }
            _ => "null".to_owned(),
        };
        let subresources = match version.get("subresources") {
            Some(value) if !value.is_null() && !hoisted.contains_key("subresources") => {
                subresources(value)
            }
            _ => "null".to_owned(),
        };
        let columns = match version.get("additionalPrinterColumns") {
            Some(Value::Array(columns)) if !hoisted.contains_key("additionalPrinterColumns") => {
                list(columns.iter().map(column))
            }
            _ => "null".to_owned(),
        };
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":null}}",
            raw("name"),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            raw("deprecationWarning"),
        )
    }))
}

fn subresources(value: &Value) -> String {
    let raw = |value: Option<&Value>| value.map_or("null".to_owned(), Value::to_string);
    let status = value.get("status").map_or("null", |_| "{}");
    let scale = value.get("scale").map_or("null".to_owned(), |scale| {
        format!(
            "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
            raw(scale.get("specReplicasPath")),
            raw(scale.get("statusReplicasPath")),
            raw(scale.get("labelSelectorPath"))
        )
    });
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn column(column: &Value) -> String {
    let text = |name: &str| shown_text(column.get(name).and_then(Value::as_str).unwrap_or(""));
    let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{priority},\"JSONPath\":{}}}",
        text("name"),
        text("type"),
        text("format"),
        text("description"),
        text("jsonPath")
    )
}
