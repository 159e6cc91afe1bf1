//! Changes to JSON objects.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::{list, seconds, text};

/// Sets the value at a JSON pointer and creates missing parents. Keys must not contain `/`.
pub fn set(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    let mut place = object;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Some(fields) = place.as_object_mut() else {
            return;
        };
        place = fields.entry(key.to_owned()).or_insert(Value::Null);
    }
    *place = value.into();
}

/// Removes and returns the value at a JSON pointer.
pub fn remove(object: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    object.pointer_mut(parent)?.as_object_mut()?.remove(key)
}

/// Sets a value that is missing, `null` or "".
pub fn set_default(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    if is_unset(object, pointer) {
        set(object, pointer, value);
    }
}

/// Whether the value at a JSON pointer is missing, `null` or "".
pub fn is_unset(object: &Value, pointer: &str) -> bool {
    match object.pointer(pointer) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Sets one entry of `metadata.annotations` or `metadata.labels`.
pub fn set_entry(metadata: &mut Value, of: &str, key: &str, value: &str) {
    let pointer = format!("/{of}");
    if metadata
        .pointer(&pointer)
        .is_none_or(|entries| !entries.is_object())
    {
        set(metadata, &pointer, json!({}));
    }
    if let Some(entries) = metadata
        .pointer_mut(&pointer)
        .and_then(Value::as_object_mut)
    {
        entries.insert(key.to_owned(), value.into());
    }
}

pub fn annotate(object: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        set_entry(metadata, "annotations", key, value);
    }
}

pub fn label(object: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        set_entry(metadata, "labels", key, value);
    }
}

/// Adds a finalizer if it is missing.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "/metadata/finalizers", finalizers);
    }
}

/// Removes a finalizer; removes the list with its last entry.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, "/metadata/finalizers").to_vec();
    finalizers.retain(|one| one != finalizer);
    if finalizers.is_empty() {
        remove(object, "/metadata/finalizers");
    } else {
        set(object, "/metadata/finalizers", finalizers);
    }
}

/// A condition as KubeVirt writes it: unknown times are `null`, and an empty reason or message is
/// omitted.
pub fn new_condition(
    of_type: &str,
    status: &str,
    reason: &str,
    message: &str,
    since: Option<Timestamp>,
) -> Value {
    let mut condition = json!({
        "type": of_type,
        "status": status,
        "lastProbeTime": null,
        "lastTransitionTime": since.map(seconds),
    });
    for (key, value) in [("reason", reason), ("message", message)] {
        if !value.is_empty() {
            set(&mut condition, &format!("/{key}"), value);
        }
    }
    condition
}

/// Sets the probe time to the transition time.
pub fn probed(mut condition: Value) -> Value {
    let since = condition
        .get("lastTransitionTime")
        .cloned()
        .unwrap_or_default();
    set(&mut condition, "/lastProbeTime", since);
    condition
}

/// Adds or replaces a condition. If status, reason and message are equal the old one is kept with
/// its times, as in KubeVirt.
pub fn put_condition(object: &mut Value, condition: Value) {
    let mut conditions = list(object, "/status/conditions").to_vec();
    let of_type = text(&condition, "/type").to_owned();
    match conditions
        .iter_mut()
        .find(|old| text(old, "/type") == of_type)
    {
        Some(old)
            if ["/status", "/reason", "/message"]
                .iter()
                .all(|field| text(old, field) == text(&condition, field)) => {}
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    set(object, "/status/conditions", conditions);
}

/// Removes a condition; removes the list with its last entry.
pub fn remove_condition(object: &mut Value, of_type: &str) {
    let mut conditions = list(object, "/status/conditions").to_vec();
    let before = conditions.len();
    conditions.retain(|condition| text(condition, "/type") != of_type);
    if conditions.is_empty() {
        remove(object, "/status/conditions");
    } else if conditions.len() != before {
        set(object, "/status/conditions", conditions);
    }
}

/// JSON merge patch from one object to another; `None` if they are equal. Lists are replaced as a
/// whole.
pub fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// FNV-1a hash.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// UUID derived from a seed and a text.
pub fn uuid(seed: u64, text: &str) -> String {
    let high = hash(&format!("{seed:x} high {text}"));
    let low = hash(&format!("{seed:x} low {text}"));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}
