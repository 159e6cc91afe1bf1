//! Property of a decoder of server answers: null, absent and empty mean the same.
//!
//! [`check`] varies a sample answer: every field, at any depth, becomes null, absent and empty in turn.
//! The sample must have every field that the decoder knows.

use std::fmt::Debug;

use serde_json::{Map, Value};

/// A decoder and a sample of what it decodes.
pub struct Decoder<'a> {
    /// Shown in failures.
    pub name: &'a str,
    /// An answer with every field that is decoded.
    pub sample: Value,
    /// Decodes an answer and describes the result with [`describe`].
    pub decode: &'a dyn Fn(&Value) -> Result<String, String>,
    /// Fields without which an answer is refused. `*` stands for any index of a list.
    pub required: &'a [&'a str],
    /// Fields that mean something even when they are empty, such as the kind of a network. With `/**`
    /// at the end it stands for all fields below as well.
    pub significant: &'a [&'a str],
    /// Fields whose empty value no API server stores, such as enumerations.
    pub validated: &'a [&'a str],
    /// Fields that are never null: a schema refuses it or the API server removes it.
    pub never_null: &'a [&'a str],
}

/// Fields that are maps: their entries are not fields, and null is an entry with an empty value.
const MAPS: [&str; 9] = [
    "labels",
    "annotations",
    "data",
    "stringData",
    "capacity",
    "hard",
    "used",
    "matchLabels",
    "fieldsV1",
];

/// A description of a decoded value in which an empty collection or text is the same as none.
pub fn describe(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    for empty in ["Some([])", "Some({})", "Some(\"\")"] {
        text = text.replace(empty, "None");
    }
    text
}

/// Checks every field of a sample.
///
/// # Panics
/// When a decoder refuses null, absent or empty, or distinguishes them.
pub fn check(decoder: &Decoder<'_>) -> usize {
    let Decoder {
        name,
        sample,
        decode,
        required,
        significant,
        validated,
        never_null,
    } = decoder;
    let refused = decode(sample).err();
    assert!(
        refused.is_none(),
        "{name}: the sample is refused: {refused:?}"
    );
    let mut wrong = Vec::new();
    let mut variants = 0;
    for path in paths(sample) {
        let pattern = pattern(&path);
        let is_in = |list: &[&str]| list.iter().any(|listed| covers(listed, &pattern));
        let found = sample.pointer(&path);
        let absent = decode(&with(sample, &path, None));
        if is_in(never_null) {
            continue;
        }
        if is_in(required) {
            if absent.is_ok() {
                wrong.push(format!("{path}: not required"));
            }
            continue;
        }
        let mut compare = |variant: &str, value: Value, exact: bool| {
            variants += 1;
            match (decode(&with(sample, &path, Some(value))), &absent) {
                (Ok(answer), Ok(absent)) if !exact || answer == *absent => {}
                (Ok(answer), Ok(absent)) => {
                    wrong.push(format!(
                        "{path}: {variant} is not absent:\n  {answer}\n  {absent}"
                    ));
                }
                (Err(error), _) => wrong.push(format!("{path}: {variant} is refused: {error}")),
                (_, Err(error)) => wrong.push(format!("{path}: absent is refused: {error}")),
            }
        };
        compare("null", Value::Null, true);
        if is_in(validated) {
            continue;
        }
        // An entry that owns nothing is not one whose fields are unknown.
        let exact = !is_in(significant) && !pattern.ends_with("/fieldsV1");
        match found {
            Some(Value::Array(_)) => compare("[]", Value::Array(Vec::new()), exact),
            Some(Value::Object(_)) => compare("{}", Value::Object(Map::new()), exact),
            Some(Value::String(_)) => compare("\"\"", Value::from(""), exact),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    assert!(variants > 0, "{name}: the sample has no field");
    variants
}

/// Pointers to all fields of a value, at any depth.
fn paths(value: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    let path = format!("{path}/{name}");
                    if !MAPS.contains(&&*name) {
                        walk(field, &path, found);
                    }
                    found.push(path);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{path}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

/// Whether an entry of a list of fields covers this one.
fn covers(listed: &str, pattern: &str) -> bool {
    match listed.strip_suffix("/**") {
        Some(above) => pattern
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        None => listed == pattern,
    }
}

/// A pointer with `*` for each index.
fn pattern(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let is_index = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_index { "*" } else { part }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A copy of a sample with another value in a field, or without the field.
fn with(sample: &Value, path: &str, value: Option<Value>) -> Value {
    let mut copy = sample.clone();
    let (parent, field) = path.rsplit_once('/').unwrap_or_default();
    let field = field.replace("~1", "/").replace("~0", "~");
    if let Some(fields) = copy.pointer_mut(parent).and_then(Value::as_object_mut) {
        match value {
            Some(value) => fields.insert(field, value),
            None => fields.remove(&field),
        };
    }
    copy
}
