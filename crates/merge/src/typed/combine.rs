//! One value laid over another: what an applied configuration says wins, the rest stays.
//!
//! Nothing is removed. Items of a list keep the order of the live object where the configuration
//! does not say otherwise.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::items::element_of;
use crate::fields::PathElement;
use crate::shape::{Form, ListType, MapType, Shape, Type};

/// `over` laid over `base`.
pub(crate) fn combine(shape: &Shape, base: &Value, over: &Value) -> Value {
    visit(shape.root(), base, over)
}

fn visit(shape: Type<'_>, base: &Value, over: &Value) -> Value {
    match shape.form_of(Some(over)) {
        Form::Map(map) if !map.atomic => {
            let base = base.as_object().filter(|fields| !fields.is_empty());
            let fields = over.as_object().filter(|fields| !fields.is_empty());
            match (base, fields) {
                (None, _) => over.clone(),
                (Some(base), None) => Value::Object(base.clone()),
                (Some(base), Some(fields)) => Value::Object(visit_map(map, base, fields)),
            }
        }
        Form::List(list) if !list.atomic => {
            let base = base.as_array().filter(|items| !items.is_empty());
            let items = over.as_array().filter(|items| !items.is_empty());
            match (base, items) {
                (None, _) => over.clone(),
                (Some(base), None) => Value::Array(base.clone()),
                (Some(base), Some(items)) => Value::Array(visit_list(list, base, items)),
            }
        }
        _ => over.clone(),
    }
}

fn visit_map(
    map: MapType<'_>,
    base: &Map<String, Value>,
    over: &Map<String, Value>,
) -> Map<String, Value> {
    let mut result = base.clone();
    for (name, value) in over {
        let value = match base.get(name) {
            Some(base) => visit(map.field_or_any(name), base, value),
            None => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    result
}

/// Both orders are kept where they agree; where they do not, that of `over` wins. An item that only
/// `base` has stays before the next item that both have.
fn visit_list(list: ListType<'_>, base: &[Value], over: &[Value]) -> Vec<Value> {
    let base_items = keyed(list, base);
    let over_items = keyed(list, over);
    let mut base_index: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (element, item) in &base_items {
        // Which of several items with one key is meant cannot be known: none of them is merged.
        base_index
            .entry(element)
            .and_modify(|item| *item = &Value::Null)
            .or_insert(item);
    }
    let over_index: BTreeSet<&PathElement> =
        over_items.iter().map(|(element, _)| element).collect();
    let mut shared: VecDeque<&PathElement> = over_items
        .iter()
        .map(|(element, _)| element)
        .filter(|element| base_index.contains_key(element))
        .collect();
    let merge = |(element, item): &(PathElement, &Value)| match base_index.get(element) {
        Some(base) => visit(list.element(), base, item),
        None => (*item).clone(),
    };

    let mut result = Vec::with_capacity(base.len().max(over.len()));
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut left = base_items.iter().peekable();
    let mut right = over_items.iter().peekable();
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
            if over_index.contains(left_key) && shared.front().is_some_and(|next| *next != left_key)
            {
                left.next();
                continue;
            }
        }
        if let Some((left_key, item)) = left.peek() {
            if !over_index.contains(left_key) {
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
            // Every item of `over` is merged by now, so the next turn passes over this one.
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
