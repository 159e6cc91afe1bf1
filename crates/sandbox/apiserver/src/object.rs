//! Accessors for objects and their metadata.

use serde_json::{Map, Value};

/// String at `metadata.FIELD`, empty if absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Metadata; replaced by an empty map if absent or not a map.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(map_mut(object), "metadata")
}

/// The value as a map; replaced by an empty one if it is not a map.
pub fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Map at `key`; replaced by an empty one if absent or not a map.
pub fn child_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    // `entry` would allocate a key even if present.
    if !map.contains_key(key) {
        map.insert(key.to_owned(), Value::Null);
    }
    match map.get_mut(key) {
        Some(value) => map_mut(value),
        None => unreachable!("inserted above"),
    }
}

/// Sets `metadata.FIELD`, or removes it where `value` is null.
pub fn set_meta(object: &mut Value, field: &str, value: Value) {
    let metadata = meta_mut(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Sets a list at `metadata.FIELD`, or removes it if it is empty.
pub fn set_meta_list(object: &mut Value, field: &str, items: Vec<Value>) {
    let value = if items.is_empty() {
        Value::Null
    } else {
        items.into()
    };
    set_meta(object, field, value);
}

/// Items of the list at a JSON pointer.
pub fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Strings of a list; empty if the value is not a list.
pub fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("finalizers")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// ownerReferences.
pub fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("ownerReferences")?.as_array())
        .into_iter()
        .flatten()
}

pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("labels")?.as_object())
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

pub fn is_terminating(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// Storage key: `namespace/name`, or the name alone.
pub fn key(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

pub fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
