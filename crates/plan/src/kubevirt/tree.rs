//! Access to JSON values of any shape.

use serde_json::{Map, Value};

/// The map at a path, created if absent. None if a value on the path is not a map.
pub(super) fn map<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut at = value;
    for name in path {
        at = present(at)
            .as_object_mut()?
            .entry(*name)
            .or_insert(Value::Null);
    }
    present(at).as_object_mut()
}

fn present(value: &mut Value) -> &mut Value {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value
}

/// The list of that name, created if absent. None if the value is not a list.
pub(super) fn list<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Vec<Value>> {
    let at = fields.entry(name).or_insert(Value::Null);
    if at.is_null() {
        *at = Value::Array(Vec::new());
    }
    at.as_array_mut()
}

/// The items of a list; none without a list.
pub(super) fn items<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The items of a list; none without a list.
pub(super) fn items_mut<'a>(
    value: &'a mut Value,
    pointer: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let list = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// A string; None without one.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Removes all nulls from maps: an applied null would own a field without a value.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
