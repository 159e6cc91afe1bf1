//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Applies the patch to the document. Null removes a field.
///
/// As on the server, null also removes fields of maps that are new to the document, even inside
/// lists.
pub fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = without_nulls(patch);
        return;
    };
    match document {
        Value::Object(document) => {
            for (name, value) in patch {
                match (value, document.get_mut(name)) {
                    (Value::Null, _) => {
                        document.remove(name);
                    }
                    (value, Some(current)) if !current.is_null() => apply_field(current, value),
                    (value, _) => {
                        document.insert(name.clone(), without_nulls(value));
                    }
                }
            }
        }
        other => *other = without_nulls(&Value::Object(patch.clone())),
    }
}

/// A list or scalar that replaces a map is used as it is.
fn apply_field(current: &mut Value, patch: &Value) {
    if current.is_object() && !patch.is_object() {
        current.clone_from(patch);
    } else {
        apply(current, patch);
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                entries
                    .map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}
