//! Ratcheting: an update may keep invalid values that it does not change.
//!
//! Old values are correlated by field name and, in list maps, by key. Items of other lists and
//! unknown fields have no old value.

use std::collections::HashMap;

use serde_json::Value;

use crate::node::{ListType, Node};

/// Compares only what the schema knows, as kube-apiserver does.
pub(crate) fn is_unchanged(node: &Node, value: &Value, old: &Value) -> bool {
    match (value, old) {
        (Value::Object(new), Value::Object(fields)) => {
            new.len() == fields.len()
                && new
                    .iter()
                    .all(|(name, value)| match (node.field(name), fields.get(name)) {
                        (Some(schema), Some(old)) => is_unchanged(schema, value, old),
                        _ => false,
                    })
        }
        (Value::Array(new), Value::Array(items)) => {
            if new.len() != items.len() {
                return false;
            }
            match (&node.list, &node.items) {
                (ListType::Map(_), Some(schema)) => {
                    let old = OldItems::of(node, Some(old));
                    new.iter().all(|item| {
                        old.same_as(item)
                            .is_some_and(|old| is_unchanged(schema, item, old))
                    })
                }
                _ => new == items,
            }
        }
        _ => value == old,
    }
}

/// Items of the old list.
pub(crate) struct OldItems<'a> {
    keys: &'a [String],
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(crate) fn of(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (ListType::Map(keys), Some(Value::Array(items))) = (&node.list, old) else {
            return Self {
                keys: &[],
                by_key: HashMap::new(),
            };
        };
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items.iter().filter(|item| item.is_object()) {
            by_key.entry(identity(keys, item)).or_insert(item);
        }
        Self { keys, by_key }
    }

    pub(crate) fn same_as(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() || !item.is_object() {
            return None;
        }
        self.by_key.get(&identity(self.keys, item)).copied()
    }
}

/// Key of an item in a list map.
pub(crate) fn identity(keys: &[String], item: &Value) -> String {
    let mut identity = String::new();
    for key in keys {
        if let Some(value) = item.get(key) {
            identity.push_str(&value.to_string());
        }
        identity.push('\0');
    }
    identity
}
