//! Uniqueness of items in lists of type set and map.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    Problem, Violation,
    node::{ListType, Node},
    path::Path,
};

pub(crate) fn check(node: &Node, value: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    if !node.subtree.lists {
        return;
    }
    match value {
        Value::Array(items) => check_list(node, items, path, found),
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some((schema, path)) = node.field_at(name, path) {
                    check(schema, value, &path, found);
                }
            }
        }
        _ => {}
    }
}

fn check_list(node: &Node, items: &[Value], path: &Path<'_>, found: &mut Vec<Violation>) {
    match &node.list {
        ListType::Atomic => {}
        ListType::Set => {
            for index in duplicates(items.iter().map(ToString::to_string)) {
                let value = items.get(index).cloned().unwrap_or_default();
                found.push(Violation::new(
                    &path.index(index),
                    Problem::Duplicate { value },
                ));
            }
        }
        ListType::Map(keys) => check_map(keys, items, path, found),
    }
    if let Some(schema) = &node.items {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &path.index(index), found);
        }
    }
}

fn check_map(keys: &[String], items: &[Value], path: &Path<'_>, found: &mut Vec<Violation>) {
    let other = |item: &Value| !item.is_object() && !item.is_null();
    if let Some(index) = items.iter().position(other) {
        let problem = Problem::Invalid {
            value: items.get(index).cloned(),
            detail: "must be an object for an array of list-type map".to_owned(),
        };
        found.push(Violation::new(&path.index(index), problem));
        return;
    }
    let identity = |item: &Value| {
        let entries = keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    for index in duplicates(items.iter().map(|item| identity(item).to_string())) {
        let value = items.get(index).map(identity).unwrap_or_default();
        found.push(Violation::new(
            &path.index(index),
            Problem::Duplicate { value },
        ));
    }
}

/// Index of the second occurrence of each duplicate.
fn duplicates(identities: impl Iterator<Item = String>) -> Vec<usize> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut second = Vec::new();
    for (index, identity) in identities.enumerate() {
        let times = times.entry(identity).or_default();
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}
