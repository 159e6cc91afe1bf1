//! Field set of a value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::items::element_of;
use crate::fields::{FieldSet, Node, PathElement};
use crate::shape::{Form, ListType, MapType, Shape, Type};

/// Every field and item of an applied configuration: what its manager owns.
pub(crate) fn to_field_set(shape: &Shape, value: &Value) -> FieldSet {
    node(shape.root(), value).children
}

fn node(shape: Type<'_>, value: &Value) -> Node {
    let leaf = || Node {
        member: true,
        children: FieldSet::default(),
    };
    match (shape.form_of(Some(value)), value) {
        (Form::Scalar(_), _) => leaf(),
        (Form::Map(map), _) if map.atomic => leaf(),
        (Form::List(list), _) if list.atomic => leaf(),
        (Form::Map(map), Value::Object(fields)) => Node {
            member: false,
            children: of_map(map, fields),
        },
        (Form::List(list), Value::Array(items)) => Node {
            member: false,
            children: of_list(list, items),
        },
        _ => Node::default(),
    }
}

/// Fields that the schema names are owned through their parts; entries of a free map are also owned
/// themselves, since they exist only because a manager set them.
fn of_map(map: MapType<'_>, fields: &serde_json::Map<String, Value>) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in fields {
        let mut node = node(map.field_or_any(name), value);
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        node.member |= is_empty || !map.declares(name);
        set.attach(PathElement::field(name), node);
    }
    set
}

fn of_list(list: ListType<'_>, items: &[Value]) -> FieldSet {
    let mut by_element: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for item in items {
        let Ok(element) = element_of(list, item) else {
            continue;
        };
        // Items with equal keys are indistinguishable: they are owned together, without parts.
        by_element
            .entry(element)
            .and_modify(|item| *item = None)
            .or_insert(Some(item));
    }
    let mut set = FieldSet::default();
    for (element, item) in by_element {
        let children = item
            .map(|item| node(list.element(), item).children)
            .unwrap_or_default();
        set.attach(
            element,
            Node {
                member: true,
                children,
            },
        );
    }
    set
}

/// The set with every declared field that has an owned part: such fields are removed with
/// their last part.
pub(crate) fn with_declared_fields(shape: &Shape, set: &FieldSet) -> FieldSet {
    declared(Some(shape.root()), set)
}

fn declared(shape: Option<Type<'_>>, set: &FieldSet) -> FieldSet {
    let map = shape.and_then(Type::map);
    let list = shape.and_then(Type::list);
    let mut result = FieldSet::default();
    for (element, node) in set.nodes() {
        let (inner, is_declared) = match (element.field_name(), map) {
            (Some(name), Some(map)) => (map.field(name), map.declares(name)),
            _ => (
                list.filter(|_| element.is_key()).map(ListType::element),
                false,
            ),
        };
        let member = node.member || (is_declared && !node.children.is_empty());
        result.attach(
            element.clone(),
            Node {
                member,
                children: declared(inner, &node.children),
            },
        );
    }
    result
}
