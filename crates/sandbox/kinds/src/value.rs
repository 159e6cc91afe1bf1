//! Accessors for JSON values by dotted path; missing values are empty.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;
static NO_FIELDS: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

/// `null` if absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let mut parts = path.split('.');
    parts
        .try_fold(value, |value, part| value.get(part))
        .unwrap_or(&NULL)
}

/// Empty if absent.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// Zero if absent.
pub(crate) fn int(value: &Value, path: &str) -> i64 {
    at(value, path).as_i64().unwrap_or_default()
}

/// False if absent.
pub(crate) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// Empty if absent.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// Empty if absent.
pub(crate) fn map<'a>(value: &'a Value, path: &str) -> &'a Map<String, Value> {
    at(value, path).as_object().unwrap_or(&NO_FIELDS)
}

pub(crate) fn has(value: &Value, path: &str) -> bool {
    !at(value, path).is_null()
}

/// Map at a dotted path, created if missing.
pub(crate) fn fields_mut<'a>(
    value: &'a mut Value,
    path: &str,
) -> Option<&'a mut Map<String, Value>> {
    let mut fields = value.as_object_mut()?;
    for part in path.split('.') {
        let field = fields.entry(part).or_insert(Value::Null);
        if field.is_null() {
            *field = Value::Object(Map::new());
        }
        fields = field.as_object_mut()?;
    }
    Some(fields)
}

/// Sets the field if it is absent, `null` or an empty string.
pub(crate) fn set_default(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    let unset = match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if unset {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets the number if it is zero or absent.
pub(crate) fn set_number(fields: &mut Map<String, Value>, name: &str, value: i64) {
    if fields.get(name).and_then(Value::as_i64).unwrap_or_default() == 0 {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Map in a field, created if missing.
pub(crate) fn child<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    set_default(fields, name, Map::new());
    fields.get_mut(name)?.as_object_mut()
}

/// Copies the field from `old`, or removes it if `old` has none.
pub(crate) fn copy_field(new: &mut Value, old: &Value, name: &str) {
    if let Some(fields) = new.as_object_mut() {
        match old.get(name) {
            Some(value) => {
                fields.insert(name.to_owned(), value.clone());
            }
            None => {
                fields.remove(name);
            }
        }
    }
}
