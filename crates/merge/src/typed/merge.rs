//! Merge of an applied configuration into the live object.
//!
//! Applied values replace live ones, and nothing is removed. Items of a list keep the order of the
//! live object where the configuration has no other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::items::element_of;
use crate::fields::PathElement;
use crate::shape::{Form, ListType, MapType, Shape, Type};

/// The live object with the applied fields.
pub(crate) fn merge(shape: &Shape, live: &Value, applied: &Value) -> Value {
    visit(shape.root(), live, applied)
}

fn visit(shape: Type<'_>, live: &Value, applied: &Value) -> Value {
    match shape.form_of(Some(applied)) {
        Form::Map(map) if !map.atomic => {
            let live = live.as_object().filter(|fields| !fields.is_empty());
            let fields = applied.as_object().filter(|fields| !fields.is_empty());
            match (live, fields) {
                (None, _) => applied.clone(),
                (Some(live), None) => Value::Object(live.clone()),
                (Some(live), Some(fields)) => Value::Object(visit_map(map, live, fields)),
            }
        }
        Form::List(list) if !list.atomic => {
            let live = live.as_array().filter(|items| !items.is_empty());
            let items = applied.as_array().filter(|items| !items.is_empty());
            match (live, items) {
                (None, _) => applied.clone(),
                (Some(live), None) => Value::Array(live.clone()),
                (Some(live), Some(items)) => Value::Array(visit_list(list, live, items)),
            }
        }
        _ => applied.clone(),
    }
}

fn visit_map(
    map: MapType<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let mut result = live.clone();
    for (name, value) in applied {
        let value = match live.get(name) {
            Some(live) => visit(map.field_or_any(name), live, value),
            None => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    result
}

/// Both orders are kept where they agree; elsewhere the applied order counts. An item of the live
/// object alone stays before the next item that both have.
fn visit_list(list: ListType<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let live_items = keyed(list, live);
    let applied_items = keyed(list, applied);
    let mut live_index: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (element, item) in &live_items {
        // Items with one key are indistinguishable: none of them is merged.
        live_index
            .entry(element)
            .and_modify(|item| *item = &Value::Null)
            .or_insert(item);
    }
    let applied_index: BTreeSet<&PathElement> =
        applied_items.iter().map(|(element, _)| element).collect();
    let mut shared: VecDeque<&PathElement> = applied_items
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live_index.contains_key(element))
        .collect();
    let merge = |(element, item): &(PathElement, &Value)| match live_index.get(element) {
        Some(live) => visit(list.element(), live, item),
        None => (*item).clone(),
    };

    let mut result = Vec::with_capacity(live.len().max(applied.len()));
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut left = live_items.iter().peekable();
    let mut right = applied_items.iter().peekable();
    loop {
        if let (Some((left_key, _)), Some(right_item)) = (left.peek(), right.peek()) {
            if *left_key == right_item.0 {
                result.push(merge(right_item));
                merged.insert(left_key);
                shared.pop_front();
                left.next();
                right.next();
                continue;
            }
            if applied_index.contains(left_key)
                && shared.front().is_some_and(|next| *next != left_key)
            {
                left.next();
                continue;
            }
        }
        if let Some((left_key, item)) = left.peek() {
            if !applied_index.contains(left_key) {
                result.push((*item).clone());
                left.next();
                continue;
            }
            if merged.contains(left_key) {
                left.next();
            }
        }
        match right.next() {
            Some(right_item) => {
                result.push(merge(right_item));
                merged.insert(&right_item.0);
                if shared.front() == Some(&&right_item.0) {
                    shared.pop_front();
                }
            }
            None if left.peek().is_none() => return result,
            // Every applied item is merged by now, so the next turn skips this one.
            None => {}
        }
    }
}

fn keyed<'a>(list: ListType<'_>, items: &'a [Value]) -> Vec<(PathElement, &'a Value)> {
    items
        .iter()
        .filter_map(|item| Some((element_of(list, item).ok()?, item)))
        .collect()
}
