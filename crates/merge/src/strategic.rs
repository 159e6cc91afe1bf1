//! Strategic merge patch: a merge patch that knows which lists merge item by item.
//!
//! Fields named `$...` are directives and never reach the document:
//! - `$patch: replace | delete` in a map, or in an item of a list;
//! - `$retainKeys`: the only fields of a map that stay;
//! - `$deleteFromPrimitiveList/FIELD`: values to remove from a list;
//! - `$setElementOrder/FIELD`: the order of a list's items.
//!
//! Only built-in kinds have such patches: the server refuses them for custom resources.

mod lists;
mod order;

use serde_json::{Map, Value};

use crate::PatchError;
use crate::go;
use crate::shape::{ListType, MapType, PatchMeta, Shape, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies the patch to the document.
pub fn apply(shape: &Shape, document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::BadRequest(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_type(patch)
        )));
    };
    let Value::Object(document) = document else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    merge_maps(Some(shape.root()), document.clone(), patch.clone()).map(Value::Object)
}

/// How the field of a map is patched, and its type.
struct FieldRule<'a> {
    shape: Option<Type<'a>>,
    /// Empty where the field is merged if it is a map and replaced if it is a list.
    strategy: &'a str,
    merge_key: &'a str,
}

impl<'a> FieldRule<'a> {
    fn of(map: Option<MapType<'a>>, name: &str) -> Result<Self, PatchError> {
        let meta = map.and_then(|map| map.patch_meta(name));
        let shape = map.and_then(|map| map.field(name));
        Ok(Self {
            shape,
            strategy: meta.map_or(Ok(""), strategy)?,
            merge_key: meta
                .and_then(|meta| meta.merge_key.as_deref())
                .unwrap_or_default(),
        })
    }

    fn element(&self) -> Option<Type<'a>> {
        self.shape.and_then(Type::list).map(ListType::element)
    }
}

/// The strategy besides `retainKeys`, which the patch itself contains.
fn strategy(meta: &PatchMeta) -> Result<&str, PatchError> {
    let mut others = meta
        .strategies
        .iter()
        .map(String::as_str)
        .filter(|strategy| *strategy != "retainKeys");
    match (others.next(), others.next()) {
        (only, None) => Ok(only.unwrap_or_default()),
        _ => Err(PatchError::Internal(format!(
            "unexpected patch strategy: [{}]",
            meta.strategies.join(" ")
        ))),
    }
}

fn merge_maps(
    shape: Option<Type<'_>>,
    mut document: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    let map = shape.and_then(Type::map);
    retain_keys(&mut document, &mut patch)?;
    order::apply(map, &mut document, &mut patch)?;
    for (name, value) in patch {
        let deletion = deletion_target(&name)?;
        let is_deletion = deletion.is_some();
        let name = deletion.unwrap_or(&name);
        if value.is_null() {
            document.remove(name);
            continue;
        }
        let rule = FieldRule::of(map, name)?;
        let merged =
            match (document.get_mut(name).map(Value::take), value) {
                (Some(Value::Object(current)), Value::Object(value)) => {
                    if rule.strategy == "replace" {
                        Some(Value::Object(value))
                    } else {
                        Some(Value::Object(merge_maps(rule.shape, current, value)?))
                    }
                }
                (Some(Value::Array(current)), Value::Array(value)) => Some(Value::Array(
                    lists::merge(&rule, current, value, is_deletion)?,
                )),
                (current, _) if is_deletion => current,
                (_, value) => without_directives(without_nulls(value)),
            };
        match merged {
            Some(merged) => document.insert(name.to_owned(), merged),
            None => document.remove(name),
        };
    }
    Ok(document)
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> PatchError {
    let patch = go::plain(&Value::Object(patch.clone()));
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {patch}",
        go::plain(directive)
    ))
}

/// The list to remove values from, if the field is that directive.
fn deletion_target(name: &str) -> Result<Option<&str>, PatchError> {
    if !name.starts_with(DELETE_FROM_LIST) {
        return Ok(None);
    }
    name.strip_prefix(DELETE_FROM_LIST)
        .and_then(|rest| rest.strip_prefix('/'))
        .map(Some)
        .ok_or_else(|| PatchError::BadRequest("invalid patch format of primitive list".to_owned()))
}

fn retain_keys(
    document: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys: std::collections::BTreeSet<&str> = keys
        .as_array()
        .ok_or_else(malformed)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_directive =
        |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    let unlisted = |(name, value): (&String, &Value)| {
        !value.is_null() && !is_directive(name) && !keys.contains(name.as_str())
    };
    if patch.iter().any(unlisted) {
        return Err(malformed());
    }
    document.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// New values contain nothing that null could remove.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                fields
                    .map(|(name, value)| (name, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// The value without maps that are directives.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let fields = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(fields.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;
