//! Changing objects that are kept as JSON.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::{list, seconds, text};

/// Puts a value at a JSON pointer, with the maps that lead to it. The keys hold no `/`.
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

/// Takes the value at a JSON pointer away, and gives it back.
pub fn remove(object: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    object.pointer_mut(parent)?.as_object_mut()?.remove(key)
}

/// Puts a value where there is none, or only `null` or an empty text.
pub fn set_default(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    if is_unset(object, pointer) {
        set(object, pointer, value);
    }
}

/// Whether there is nothing, `null` or an empty text at a JSON pointer.
pub fn is_unset(object: &Value, pointer: &str) -> bool {
    match object.pointer(pointer) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Puts one entry into `metadata.annotations` or `metadata.labels`.
pub fn mark(metadata: &mut Value, of: &str, key: &str, value: &str) {
    let pointer = format!("/{of}");
    if metadata
        .pointer(&pointer)
        .is_none_or(|marks| !marks.is_object())
    {
        set(metadata, &pointer, json!({}));
    }
    if let Some(marks) = metadata
        .pointer_mut(&pointer)
        .and_then(Value::as_object_mut)
    {
        marks.insert(key.to_owned(), value.into());
    }
}

/// Annotates an object.
pub fn annotate(object: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        mark(metadata, "annotations", key, value);
    }
}

/// Labels an object.
pub fn label(object: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = object.get_mut("metadata") {
        mark(metadata, "labels", key, value);
    }
}

/// Adds a finalizer that is not there.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "/metadata/finalizers", finalizers);
    }
}

/// Removes a finalizer, and the list with the last of them.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, "/metadata/finalizers").to_vec();
    finalizers.retain(|one| one != finalizer);
    if finalizers.is_empty() {
        remove(object, "/metadata/finalizers");
    } else {
        set(object, "/metadata/finalizers", finalizers);
    }
}

/// A condition as KubeVirt writes it: its times are `null` when nobody knows them, and an empty
/// reason or message is left out.
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

/// The same condition, looked at just when it changed.
pub fn probed(mut condition: Value) -> Value {
    let since = condition
        .get("lastTransitionTime")
        .cloned()
        .unwrap_or_default();
    set(&mut condition, "/lastProbeTime", since);
    condition
}

/// Puts a condition in the place of the one of its type. One that says the same keeps its times:
/// KubeVirt compares status, reason and message.
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

/// Removes the condition of a type, and the list with the last of them.
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

/// The JSON merge patch that makes one object of another, or nothing when they are the same.
/// Lists are replaced as a whole.
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

/// Numbers that look random and are the same each time for the same text (FNV-1a).
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A UUID that follows from a seed and a word.
pub fn uuid(seed: u64, word: &str) -> String {
    let high = hash(&format!("{seed:x} high {word}"));
    let low = hash(&format!("{seed:x} low {word}"));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}
