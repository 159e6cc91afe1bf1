//! Strategic merge of lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DIRECTIVE, FieldRule, merge_maps, order, unknown_directive};
use crate::PatchError;
use crate::go;
use crate::ordered::Ordered;
use crate::shape::Type;

/// Merges the patch into the list, or removes the patch's values from it.
pub(super) fn merge(
    rule: &FieldRule<'_>,
    current: Vec<Value>,
    patch: Vec<Value>,
    is_deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if rule.strategy != "merge" && !is_deletion {
        return Ok(patch);
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    match element_kind(&current, &patch)? {
        Kind::Scalar if is_deletion => {
            let removed: BTreeSet<_> = patch.into_iter().map(Ordered).collect();
            Ok(current
                .into_iter()
                .map(Ordered)
                .filter(|item| !removed.contains(item))
                .map(|item| item.0)
                .collect())
        }
        Kind::Scalar => {
            let merged = deduplicated(current.iter().chain(&patch).cloned());
            order::arrange(merged, &patch, &current, "")
        }
        Kind::Map => {
            if rule.merge_key.is_empty() {
                return Err(PatchError::Internal(
                    "cannot merge lists without merge key for struct".to_owned(),
                ));
            }
            let (current, patch) = apply_directives(current, patch, rule.merge_key)?;
            let merged = merge_items(rule.element(), current.clone(), &patch, rule.merge_key)?;
            order::arrange(merged, &patch, &current, rule.merge_key)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Map,
}

/// The common kind of all items.
pub(super) fn element_kind(current: &[Value], patch: &[Value]) -> Result<Kind, PatchError> {
    let mut items = current.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(PatchError::Internal(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    if first.is_array() {
        return Err(PatchError::Unprocessable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    let name = go::type_name(first);
    if items.any(|item| go::type_name(item) != name) {
        return Err(PatchError::Internal(format!(
            "list element types are not identical: [{} {}]",
            go::list(current),
            go::list(patch)
        )));
    }
    Ok(if first.is_object() {
        Kind::Map
    } else {
        Kind::Scalar
    })
}

fn deduplicated(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut values = BTreeSet::new();
    items
        .filter(|item| values.insert(Ordered(item.clone())))
        .collect()
}

/// The value of an item's merge key.
pub(super) fn key_of<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, PatchError> {
    let Value::Object(map) = item else {
        return Err(PatchError::Internal(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go::type_name(item)
        )));
    };
    map.get(merge_key).ok_or_else(|| {
        PatchError::Internal(format!(
            "map: {} does not contain declared merge key: {merge_key}",
            go::plain(item)
        ))
    })
}

/// Deletes items, or all of them, as the directives among the patch's items say; returns the rest of
/// both lists.
fn apply_directives(
    current: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE) {
            None => rest.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    deleted.insert(Ordered(key_of(&item, merge_key)?.clone()));
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    let message = "merging lists cannot yet be specified in the patch".to_owned();
                    return Err(PatchError::Internal(message));
                }
                _ => {
                    return Err(unknown_directive(
                        directive,
                        item.as_object().unwrap_or(&serde_json::Map::new()),
                    ));
                }
            },
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    let is_deleted = |item: &Value| {
        item.get(merge_key)
            .is_some_and(|key| deleted.contains(&Ordered(key.clone())))
    };
    Ok((
        current
            .into_iter()
            .filter(|item| !is_deleted(item))
            .collect(),
        rest,
    ))
}

fn merge_items(
    element: Option<Type<'_>>,
    mut current: Vec<Value>,
    patch: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, PatchError> {
    let mut places: BTreeMap<Ordered, usize> = BTreeMap::new();
    for (place, item) in current.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            places.entry(Ordered(key.clone())).or_insert(place);
        }
    }
    for item in patch {
        let key = Ordered(key_of(item, merge_key)?.clone());
        let existing = places.get(&key).and_then(|place| current.get_mut(*place));
        if let (Some(existing), Value::Object(item)) = (existing, item) {
            let Value::Object(before) = existing.take() else {
                continue;
            };
            *existing = Value::Object(merge_maps(element, before, item.clone())?);
        } else {
            places.insert(key, current.len());
            current.push(item.clone());
        }
    }
    Ok(current)
}
