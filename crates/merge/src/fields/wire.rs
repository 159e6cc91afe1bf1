//! Field sets in the format of `fieldsV1`.
//!
//! A field that is owned itself and has owned parts has an entry `.`; one without parts is an empty
//! map.

use serde_json::{Map, Value};

use super::element::NotAnElement;
use super::{FieldSet, Node, PathElement};

/// Invalid `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFields(String);

impl FieldSet {
    /// Decodes a `fieldsV1` map. Elements of unknown types are skipped.
    pub fn from_value(value: &Value) -> Result<Self, InvalidFields> {
        Ok(read(value)?.0)
    }

    /// The `fieldsV1` map.
    pub fn to_value(&self) -> Value {
        write(self, false)
    }
}

fn write(set: &FieldSet, include_self: bool) -> Value {
    let mut map = Map::new();
    if include_self {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for (element, node) in &set.nodes {
        let children = if node.children.is_empty() {
            Value::Object(Map::new())
        } else {
            write(&node.children, node.member)
        };
        map.insert(element.to_wire(), children);
    }
    Value::Object(map)
}

/// The parts, and whether the field itself is owned.
fn read(value: &Value) -> Result<(FieldSet, bool), InvalidFields> {
    let mut set = FieldSet::default();
    let mut member = false;
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok((set, true)),
        _ => return Err(InvalidFields("expected a map of fields".to_owned())),
    };
    for (key, value) in map {
        if key == "." {
            member = true;
            continue;
        }
        let element = match PathElement::from_wire(key) {
            Ok(element) => element,
            Err(NotAnElement::Unknown) => continue,
            Err(NotAnElement::Malformed(reason)) => return Err(InvalidFields(reason)),
        };
        let (children, child_member) = read(value)?;
        set.attach(
            element,
            Node {
                member: child_member,
                children,
            },
        );
    }
    let member = member || set.is_empty();
    Ok((set, member))
}
