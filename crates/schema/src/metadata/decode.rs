//! Decoding of metadata into the fixed ObjectMeta type, independent of the schema.

use apimachinery::go::json_type;
use serde_json::{Map, Value};

use super::FIELDS;
use crate::structural::format;

#[derive(Clone, Copy)]
enum Form {
    Text,
    Integer,
    Bool,
    Time,
    Texts,
    TextsByKey,
    Owners,
    ManagedFields,
    Raw,
}

fn form(field: &str) -> Option<Form> {
    Some(match field {
        "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion" => {
            Form::Text
        }
        "generation" | "deletionGracePeriodSeconds" => Form::Integer,
        "creationTimestamp" | "deletionTimestamp" => Form::Time,
        "labels" | "annotations" => Form::TextsByKey,
        "ownerReferences" => Form::Owners,
        "finalizers" => Form::Texts,
        "managedFields" => Form::ManagedFields,
        _ => return None,
    })
}

fn owner_form(field: &str) -> Option<Form> {
    Some(match field {
        "apiVersion" | "kind" | "name" | "uid" => Form::Text,
        "controller" | "blockOwnerDeletion" => Form::Bool,
        _ => return None,
    })
}

fn managed_fields_form(field: &str) -> Option<Form> {
    Some(match field {
        "manager" | "operation" | "apiVersion" | "fieldsType" | "subresource" => Form::Text,
        "time" => Form::Time,
        "fieldsV1" => Form::Raw,
        _ => return None,
    })
}

/// Decoding error of the metadata, as kube-apiserver words it.
pub fn type_error(object: &Value) -> Option<String> {
    match object.get("metadata")? {
        Value::Null => None,
        Value::Object(fields) => fields_error(fields, form, "ObjectMeta", ""),
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_type(other)
        )),
    }
}

fn fields_error(
    fields: &Map<String, Value>,
    form: fn(&str) -> Option<Form>,
    type_: &str,
    prefix: &str,
) -> Option<String> {
    fields.iter().find_map(|(name, value)| {
        let form = form(name)?;
        value_error(form, value, type_, &format!("{prefix}{name}"))
    })
}

fn value_error(form: Form, value: &Value, type_: &str, field: &str) -> Option<String> {
    let wrong = |value: &Value, wanted: &str| {
        let found = match (value, wanted) {
            (Value::Number(number), "int64") => format!("number {number}"),
            _ => json_type(value).to_owned(),
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field {type_}.{field} of type {wanted}"
        )
    };
    match (form, value) {
        (_, Value::Null)
        | (Form::Text, Value::String(_))
        | (Form::Bool, Value::Bool(_))
        | (Form::Raw, _) => None,
        (Form::Integer, Value::Number(number)) if number.is_i64() => None,
        (Form::Bool, other) => Some(wrong(other, "bool")),
        (Form::Integer, other) => Some(wrong(other, "int64")),
        (Form::Time, Value::String(text)) if format::fits("datetime", text) => None,
        (Form::Time, Value::String(text)) => Some(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        (Form::Text | Form::Time, other) => Some(wrong(other, "string")),
        (Form::Texts, Value::Array(items)) => items
            .iter()
            .find(|item| !item.is_string() && !item.is_null())
            .map(|item| wrong(item, "string")),
        (Form::Texts, other) => Some(wrong(other, "[]string")),
        (Form::TextsByKey, Value::Object(entries)) => entries
            .values()
            .find(|value| !value.is_string() && !value.is_null())
            .map(|value| wrong(value, "string")),
        (Form::TextsByKey, other) => Some(wrong(other, "map[string]string")),
        (Form::Owners, value) => items_error(value, owner_form, type_, field, "v1.OwnerReference"),
        (Form::ManagedFields, value) => items_error(
            value,
            managed_fields_form,
            type_,
            field,
            "v1.ManagedFieldsEntry",
        ),
    }
}

fn items_error(
    value: &Value,
    form: fn(&str) -> Option<Form>,
    type_: &str,
    field: &str,
    item_type: &str,
) -> Option<String> {
    let wrong = |found: &Value, wanted: &str| {
        let found = json_type(found);
        format!(
            "json: cannot unmarshal {found} into Go struct field {type_}.{field} of type {wanted}"
        )
    };
    let Value::Array(items) = value else {
        return Some(wrong(value, &format!("[]{item_type}")));
    };
    items.iter().find_map(|item| match item {
        Value::Null => None,
        Value::Object(fields) => {
            let type_ = item_type.trim_start_matches("v1.");
            fields_error(fields, form, type_, &format!("{field}."))
        }
        other => Some(wrong(other, item_type)),
    })
}

/// Removes unknown, empty and null fields. Returns the paths of the unknown ones below `at`.
pub fn prune(object: &mut Value, at: &str) -> Vec<String> {
    let mut removed = Vec::new();
    let Some(metadata) = object.get_mut("metadata") else {
        return removed;
    };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(fields) = metadata else {
        return removed;
    };
    retain(fields, |name| FIELDS.contains(&name), at, &mut removed);
    for (list, known) in [
        ("ownerReferences", owner_form as fn(&str) -> Option<Form>),
        ("managedFields", managed_fields_form),
    ] {
        let items = fields.get_mut(list).and_then(Value::as_array_mut);
        for (index, item) in items.into_iter().flatten().enumerate() {
            if let Value::Object(fields) = item {
                let at = format!("{at}.{list}[{index}]");
                retain(fields, |name| known(name).is_some(), &at, &mut removed);
            }
        }
    }
    for entries in ["labels", "annotations"] {
        let entries = fields.get_mut(entries).and_then(Value::as_object_mut);
        for (_, value) in entries.into_iter().flatten() {
            if value.is_null() {
                *value = Value::String(String::new());
            }
        }
    }
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        Value::Number(_) | Value::Bool(_) => true,
    });
    removed
}

fn retain(
    fields: &mut Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
    at: &str,
    removed: &mut Vec<String>,
) {
    fields.retain(|name, _| {
        let keeps = is_known(name);
        if !keeps {
            removed.push(format!("{at}.{name}"));
        }
        keeps
    });
}
