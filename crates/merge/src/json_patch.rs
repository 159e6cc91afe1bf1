//! JSON patch (RFC 6902), with the server's extensions.
//!
//! Negative indices count from the end; `replace` of a missing map field adds it; `add` without a
//! value adds null; `copy` of a missing field copies null; text before the first slash of a path is
//! ignored.

use serde_json::{Map, Value};

use crate::PatchError;
use crate::go;

const MAX_OPERATIONS: usize = 10_000;
/// Limit of all `copy` operations of one patch, in bytes of JSON.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Maximum nesting of the document: recursive readers use stack for each level.
const MAX_DEPTH: usize = 250;

const MISSING: &str = "missing value";
const INVALID_INDEX: &str = "invalid index referenced";
const TEST_FAILED: &str = "test failed";

/// Executes the operations in order. The document changes only if all of them succeed.
pub fn apply(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = Patched {
        document: document.clone(),
        copied: 0,
    };
    for operation in operations {
        patched
            .execute(operation)
            .map_err(PatchError::Unprocessable)?;
    }
    *document = patched.document;
    Ok(())
}

/// Rejects a value that would nest the document too deep. Not recursive.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    let above = path.matches('/').count();
    let mut left = vec![(value, above + 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(format!(
                "the document would be nested more than {MAX_DEPTH} levels deep"
            ));
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => left.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Operation<'a>(Option<&'a Map<String, Value>>);

fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    match patch {
        Value::Array(operations) => operations.iter().map(Operation::decode).collect(),
        other => Err(undecodable(other, "value of type []handlers.jsonPatchOp")),
    }
}

fn undecodable(value: &Value, target: &str) -> PatchError {
    let kind = go::json_type(value);
    PatchError::BadRequest(format!(
        "error decoding patch: json: cannot unmarshal {kind} into Go {target}"
    ))
}

impl<'a> Operation<'a> {
    fn decode(operation: &'a Value) -> Result<Self, PatchError> {
        let fields = match operation {
            Value::Object(fields) => fields,
            Value::Null => return Ok(Self(None)),
            other => return Err(undecodable(other, "value of type handlers.jsonPatchOp")),
        };
        for name in ["op", "path", "from"] {
            let value = fields.get(name).unwrap_or(&Value::Null);
            if !value.is_null() && !value.is_string() {
                return Err(undecodable(
                    value,
                    &format!("struct field jsonPatchOp.{name} of type string"),
                ));
            }
        }
        Ok(Self(Some(fields)))
    }

    fn text(self, name: &str) -> Option<&'a str> {
        self.0?.get(name)?.as_str()
    }

    fn path(self) -> Result<&'a str, String> {
        self.text("path")
            .ok_or_else(|| format!("operation missing path field: {MISSING}"))
    }

    fn from(self) -> Result<&'a str, String> {
        self.text("from")
            .ok_or_else(|| format!("operation, missing from field: {MISSING}"))
    }

    fn value(self) -> Value {
        self.0
            .and_then(|fields| fields.get("value"))
            .cloned()
            .unwrap_or(Value::Null)
    }
}

struct Patched {
    document: Value,
    copied: usize,
}

impl Patched {
    fn execute(&mut self, operation: Operation<'_>) -> Result<(), String> {
        match operation.text("op").unwrap_or("unknown") {
            "add" => self.add(operation),
            "remove" => self.remove(operation),
            "replace" => self.replace(operation),
            "move" => self.relocate(operation),
            "test" => self.test(operation),
            "copy" => self.copy(operation),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let (mut container, key) = self.find(path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let value = operation.value();
        check_depth(path, &value)?;
        container
            .add(&key, value)
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let (mut container, key) = self.find(path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        container
            .remove(&key)
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        let value = operation.value();
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array".to_owned());
            }
            self.document = value;
            return Ok(());
        }
        let (mut container, key) = self.find(path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        check_depth(path, &value)?;
        container.set(&key, value).map_err(|_| {
            format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
        })
    }

    fn relocate(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let from = operation
            .from()
            .map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let (mut container, key) = self.find(from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let in_move = |error| format!("error in move for path: '{key}': {error}");
        let value = container.get(&key).map_err(in_move)?;
        container.remove(&key).map_err(in_move)?;
        let path = operation
            .path()
            .map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let (mut container, key) = self.find(path).ok_or_else(|| {
            format!(
                "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        check_depth(path, &value)?;
        container
            .add(&key, value)
            .map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn copy(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let from = operation
            .from()
            .map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let (container, key) = self.find(from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = container
            .get(&key)
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let path = operation
            .path()
            .map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        self.copied += value.to_string().len();
        let copied = self.copied;
        let (mut container, key) = self.find(path).ok_or_else(|| {
            format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        if copied > MAX_COPIED {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, limit is {MAX_COPIED}"
            ));
        }
        check_depth(path, &value)?;
        container
            .add(&key, value)
            .map_err(|error| format!("error while adding value during copy: {error}"))
    }

    fn test(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let value = if path.is_empty() {
            self.document.clone()
        } else {
            let (container, key) = self.find(path).ok_or_else(|| {
                format!("test operation does not apply: is missing path: {path}: {MISSING}")
            })?;
            container
                .get(&key)
                .map_err(|error| format!("error in test for path: '{path}': {error}"))?
        };
        if value == operation.value() {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: {TEST_FAILED}"))
        }
    }

    /// The container of the last step of a path, and that step.
    fn find(&mut self, path: &str) -> Option<(Container<'_>, String)> {
        let mut steps = path.split('/').skip(1).map(unescape);
        let mut key = steps.next()?;
        let mut value = &mut self.document;
        for next in steps {
            value = match value {
                Value::Object(map) => map.get_mut(&key)?,
                Value::Array(items) => {
                    let index = existing(items, &key).ok()?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
            key = next;
        }
        match value {
            Value::Object(map) => Some((Container::Map(map), key)),
            Value::Array(items) => Some((Container::List(items), key)),
            _ => None,
        }
    }
}

enum Container<'a> {
    Map(&'a mut Map<String, Value>),
    List(&'a mut Vec<Value>),
}

impl Container<'_> {
    fn get(&self, key: &str) -> Result<Value, String> {
        match self {
            Self::Map(map) => Ok(map.get(key).cloned().unwrap_or(Value::Null)),
            Self::List(items) => {
                existing(items, key).map(|index| items.get(index).cloned().unwrap_or(Value::Null))
            }
        }
    }

    fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match self {
            Self::Map(map) => {
                map.insert(key.to_owned(), value);
            }
            Self::List(items) => {
                let index = existing(items, key)?;
                if let Some(item) = items.get_mut(index) {
                    *item = value;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &str, value: Value) -> Result<(), String> {
        match self {
            Self::Map(map) => {
                map.insert(key.to_owned(), value);
            }
            Self::List(items) if key == "-" => items.push(value),
            Self::List(items) => {
                let index = parse_index(key).map_err(|error| {
                    format!("value was not a proper array index: '{key}': {error}")
                })?;
                items.insert(within(index, items.len() + 1)?, value);
            }
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), String> {
        match self {
            Self::Map(map) => match map.remove(key) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "Unable to remove nonexistent key: {key}: {MISSING}"
                )),
            },
            Self::List(items) => {
                let index = existing(items, key)?;
                items.remove(index);
                Ok(())
            }
        }
    }
}

/// Index of an existing item.
fn existing(items: &[Value], key: &str) -> Result<usize, String> {
    within(parse_index(key)?, items.len())
}

fn parse_index(key: &str) -> Result<i64, String> {
    key.parse()
        .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", go::quote(key)))
}

/// Index within a length; negative ones count from the end.
fn within(index: i64, length: usize) -> Result<usize, String> {
    let place = if index < 0 {
        usize::try_from(index.unsigned_abs())
            .ok()
            .and_then(|back| length.checked_sub(back))
    } else {
        usize::try_from(index).ok().filter(|place| *place < length)
    };
    place.ok_or_else(|| format!("Unable to access invalid index: {index}: {INVALID_INDEX}"))
}

fn unescape(step: &str) -> String {
    let mut text = String::with_capacity(step.len());
    let mut rest = step;
    while let Some((before, after)) = rest.split_once('~') {
        text.push_str(before);
        rest = match after.as_bytes().first() {
            Some(b'0') => {
                text.push('~');
                after.get(1..).unwrap_or_default()
            }
            Some(b'1') => {
                text.push('/');
                after.get(1..).unwrap_or_default()
            }
            _ => {
                text.push('~');
                after
            }
        };
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests;
