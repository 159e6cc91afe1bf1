//! Access to fields of JSON objects. Missing fields and fields of another type read as empty.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::Kind;

/// An object as the API server returned it, without `managedFields`.
pub type Object = Arc<Value>;

/// Namespace and name; the namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    pub fn of(object: &Value) -> Self {
        Self::new(namespace(object), name(object))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// String at a JSON pointer, or "".
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Integer at a JSON pointer.
pub fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// Whether a JSON pointer refers to `true`.
pub fn truth(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

/// List at a JSON pointer, or an empty one.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`, or "".
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

pub fn generation(object: &Value) -> i64 {
    number(object, "/metadata/generation").unwrap_or_default()
}

/// Whether the object has a deletion timestamp.
pub fn is_deleted(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(Value::is_string)
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers")
        .iter()
        .any(|one| one.as_str() == Some(finalizer))
}

pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Formats a time as `metav1.Time`: in whole seconds.
pub fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// Owner reference to the object's controller.
pub fn controller(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|reference| truth(reference, "/controller"))
}

/// Key of the object's controller, if it is of this kind.
pub fn controller_key(object: &Value, kind: Kind) -> Option<Key> {
    let reference = controller(object)?;
    let group = text(reference, "/apiVersion")
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    (text(reference, "/kind") == kind.kind && group == kind.group).then(|| Key {
        namespace: if kind.namespaced {
            namespace(object).to_owned()
        } else {
            String::new()
        },
        name: text(reference, "/name").to_owned(),
    })
}

/// Owner reference that makes `owner` the controller.
pub fn controlled_by(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

pub fn condition<'a>(object: &'a Value, of_type: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == of_type)
}

/// Whether a condition of the status is `True`.
pub fn is_true(object: &Value, of_type: &str) -> bool {
    condition(object, of_type).is_some_and(|condition| text(condition, "/status") == "True")
}

/// Adds or replaces a condition. Keeps the transition time while the status does not change.
pub fn set_condition(conditions: &mut Vec<Value>, mut wanted: Value, now: Timestamp) {
    let of_type = text(&wanted, "/type").to_owned();
    let old = conditions
        .iter_mut()
        .find(|condition| text(condition, "/type") == of_type);
    let since = old
        .as_deref()
        .filter(|old| text(old, "/status") == text(&wanted, "/status"))
        .map(|old| text(old, "/lastTransitionTime"))
        .filter(|since| !since.is_empty())
        .map_or_else(|| seconds(now), str::to_owned);
    if let Some(fields) = wanted.as_object_mut() {
        fields.insert("lastTransitionTime".to_owned(), since.into());
    }
    match old {
        Some(old) => *old = wanted,
        None => conditions.push(wanted),
    }
}

/// Applies a JSON merge patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Removes the nulls of a merge patch that delete nothing: of missing fields, and in lists. Some
/// API servers store them as values, which then have the wrong type.
pub fn drop_idle_nulls(patch: &mut Value, target: Option<&Value>) {
    match patch {
        Value::Object(fields) => fields.retain(|key, value| {
            let target = target.and_then(|target| target.get(key));
            drop_idle_nulls(value, target);
            !value.is_null() || target.is_some()
        }),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| drop_idle_nulls(item, None)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_nulls_that_remove_something_are_sent() {
        let target = json!({"a": 1, "m": {"x": 1}, "l": [{"n": 1}]});
        let mut patch = json!({"a": null, "b": null, "m": {"x": null, "y": null},
            "new": {"z": null, "k": 1}, "l": [{"n": null, "k": 1}]});
        drop_idle_nulls(&mut patch, Some(&target));
        assert_eq!(
            patch,
            json!({"a": null, "m": {"x": null}, "new": {"k": 1}, "l": [{"k": 1}]})
        );
    }
}
