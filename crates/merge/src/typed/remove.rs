//! Removal of fields from a value.

use serde_json::{Map, Value};

use super::items::element_of;
use crate::fields::{FieldSet, PathElement};
use crate::shape::{Form, ListType, MapType, Shape, Type};

/// The value without these fields and items. A map or list that loses its last part becomes null.
pub(crate) fn remove_items(shape: &Shape, value: &Value, fields: &FieldSet) -> Value {
    if fields.is_empty() {
        value.clone()
    } else {
        visit(shape.root(), value, fields)
    }
}

fn visit(shape: Type<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (shape.form_of(Some(value)), value) {
        (Form::Scalar(_), _) => value.clone(),
        (Form::Map(map), Value::Object(entries)) if !map.atomic => visit_map(map, entries, fields),
        (Form::List(list), Value::Array(items)) if !list.atomic => visit_list(list, items, fields),
        _ => Value::Null,
    }
}

fn visit_map(map: MapType<'_>, entries: &Map<String, Value>, fields: &FieldSet) -> Value {
    let mut kept = Map::new();
    for (name, value) in entries {
        let value = match fields.node(&PathElement::field(name)) {
            Some(node) if node.member => continue,
            Some(node) => visit(map.field_or_any(name), value, &node.children),
            None => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Object(kept)
    }
}

fn visit_list(list: ListType<'_>, items: &[Value], fields: &FieldSet) -> Value {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let node = element_of(list, item)
            .ok()
            .and_then(|element| fields.node(&element));
        match node {
            Some(node) if node.member => {}
            Some(node) => kept.push(visit(list.element(), item, &node.children)),
            None => kept.push(item.clone()),
        }
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Array(kept)
    }
}
