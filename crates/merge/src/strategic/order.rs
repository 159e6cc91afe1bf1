//! Order of merged lists.
//!
//! Items that the patch names have the patch's order, the others that of the document; an item of
//! the document stays before the items that it preceded.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::lists::{self, element_kind, key_of};
use super::{DIRECTIVE, FieldRule, SET_ORDER, without_directives};
use crate::PatchError;
use crate::go;
use crate::ordered::Ordered;
use crate::shape::MapType;

/// Merges the lists for which the patch gives an order, and removes them from the patch.
pub(super) fn apply(
    map: Option<MapType<'_>>,
    document: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else {
            continue;
        };
        let order = into_list(order)?;
        let name = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(malformed)?;
        let current = document.get(name).cloned().map(into_list).transpose()?;
        let changes = patch.get(name).cloned().map(into_list).transpose()?;
        let rule = FieldRule::of(map, name)?;
        check(
            changes.as_deref().unwrap_or_default(),
            &order,
            rule.merge_key,
        )?;
        let merged = match (current.clone(), changes.clone()) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(changes)) => match without_directives(Value::Array(changes)) {
                Some(Value::Array(changes)) => changes,
                _ => continue,
            },
            (Some(current), Some(changes)) => lists::merge(&rule, current, changes, false)?,
        };
        let current = current.unwrap_or_default();
        element_kind(&current, &changes.unwrap_or_default())?;
        let arranged = arrange(merged, &order, &current, rule.merge_key)?;
        document.insert(name.to_owned(), Value::Array(arranged));
        patch.remove(name);
    }
    Ok(())
}

fn malformed() -> PatchError {
    PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned())
}

fn into_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::Internal(format!(
            "expected a []interface {{}}, but received a {}",
            go::type_name(&other)
        ))),
    }
}

/// The items of the patch must come in the order that it gives, and be among those it orders.
fn check(changes: &[Value], order: &[Value], merge_key: &str) -> Result<(), PatchError> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut ordered = order.iter();
    for item in changes {
        if !merge_key.is_empty() && item.get(DIRECTIVE).is_some() {
            continue;
        }
        let key = item_key(item, merge_key)?;
        loop {
            let Some(next) = ordered.next() else {
                return Err(PatchError::Internal(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                    go::list(changes),
                    go::list(order)
                )));
            };
            if item_key(next, merge_key)? == key {
                break;
            }
        }
    }
    Ok(())
}

fn item_key(item: &Value, merge_key: &str) -> Result<Ordered, PatchError> {
    let key = if merge_key.is_empty() {
        item
    } else {
        key_of(item, merge_key)?
    };
    Ok(Ordered(key.clone()))
}

fn places(order: &[Value], merge_key: &str) -> Result<BTreeMap<Ordered, usize>, PatchError> {
    let mut places = BTreeMap::new();
    for (place, item) in order.iter().enumerate() {
        places.entry(item_key(item, merge_key)?).or_insert(place);
    }
    Ok(places)
}

/// Sorts merged items by the order of the patch, and those it does not name by that of the document.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    document_order: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, PatchError> {
    let in_patch = places(patch_order, merge_key)?;
    let in_document = places(document_order, merge_key)?;
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let key = item_key(&item, merge_key)?;
        match in_patch.get(&key) {
            Some(place) => named.push((*place, in_document.get(&key).copied(), item)),
            None => others.push((in_document.get(&key).copied(), item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in named {
        let comes_first = |other: &(Option<usize>, Value)| matches!((other.0, place), (Some(other), Some(place)) if other < place);
        while let Some((_, other)) = others.next_if(comes_first) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}
