//! Comparison of two values: added, modified and removed fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::items::element_of;
use crate::fields::{FieldSet, Node, PathElement};
use crate::ordered::same;
use crate::shape::{Form, Forms, ListType, MapType, Shape, Type};

/// The fields that changed. No field is in two of the sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// The comparison without these fields and their parts.
    pub(crate) fn without(self, ignored: &FieldSet) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }
}

/// Changes from `left` to `right`.
pub(crate) fn compare(shape: &Shape, left: &Value, right: &Value) -> Comparison {
    let change = visit(shape.root(), Some(left), Some(right));
    Comparison {
        removed: change.removed.children,
        modified: change.modified.children,
        added: change.added.children,
    }
}

/// Changes of one value and its parts.
#[derive(Default)]
struct Change {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Change {
    fn attach(&mut self, element: &PathElement, change: Self) {
        self.removed
            .children
            .attach(element.clone(), change.removed);
        self.modified
            .children
            .attach(element.clone(), change.modified);
        self.added.children.attach(element.clone(), change.added);
    }

    fn absorb(&mut self, other: Self) {
        for (node, other) in [
            (&mut self.removed, other.removed),
            (&mut self.modified, other.modified),
            (&mut self.added, other.added),
        ] {
            node.member |= other.member;
            node.children = node.children.union(&other.children);
        }
    }
}

fn visit(shape: Type<'_>, left: Option<&Value>, right: Option<&Value>) -> Change {
    if left == right {
        return Change::default();
    }
    let left_forms = shape.forms(left);
    let right_forms = shape.forms(right);
    if right.is_none() {
        return visit_as(shape, left_forms, left, right);
    }
    let mut change = visit_as(shape, right_forms, left, right);
    if left.is_some() && left_forms != right_forms {
        change.absorb(visit_as(shape, left_forms, left, right));
    }
    change
}

fn visit_as(shape: Type<'_>, forms: Forms, left: Option<&Value>, right: Option<&Value>) -> Change {
    match shape.form(forms) {
        Form::Map(map) => {
            let fields = |side: Option<&'_ Value>| {
                side.and_then(Value::as_object)
                    .is_some_and(|map| !map.is_empty())
            };
            if map.atomic || !(fields(left) || fields(right)) {
                leaf(left, right)
            } else {
                visit_map(map, left, right)
            }
        }
        Form::List(list) => {
            let items = |side: Option<&'_ Value>| {
                side.and_then(Value::as_array)
                    .is_some_and(|list| !list.is_empty())
            };
            if list.atomic || !(items(left) || items(right)) {
                leaf(left, right)
            } else {
                visit_list(list, left, right)
            }
        }
        Form::Scalar(_) => leaf(left, right),
        Form::None => Change::default(),
    }
}

fn leaf(left: Option<&Value>, right: Option<&Value>) -> Change {
    let mut change = Change::default();
    match (left, right) {
        (Some(left), Some(right)) => change.modified.member = !same(left, right),
        _ => record_presence(&mut change, left, right),
    }
    change
}

/// A value on one side only was added or removed.
fn record_presence(change: &mut Change, left: Option<&Value>, right: Option<&Value>) {
    change.added.member |= left.is_none();
    change.removed.member |= right.is_none();
}

fn visit_map(map: MapType<'_>, left: Option<&Value>, right: Option<&Value>) -> Change {
    let mut change = Change::default();
    record_presence(&mut change, left, right);
    let left_fields = left.and_then(Value::as_object);
    let right_fields = right.and_then(Value::as_object);
    for (name, value) in left_fields.into_iter().flatten() {
        let other = right_fields.and_then(|fields| fields.get(name));
        if other != Some(value) {
            change.attach(
                &PathElement::field(name),
                visit(map.field_or_any(name), Some(value), other),
            );
        }
    }
    for (name, value) in right_fields.into_iter().flatten() {
        if left_fields.is_none_or(|fields| !fields.contains_key(name)) {
            change.attach(
                &PathElement::field(name),
                visit(map.field_or_any(name), None, Some(value)),
            );
        }
    }
    change
}

fn visit_list(list: ListType<'_>, left: Option<&Value>, right: Option<&Value>) -> Change {
    let mut change = Change::default();
    record_presence(&mut change, left, right);
    let mut by_element: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in left.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = element_of(list, item) {
            by_element.entry(element).or_default().0.push(item);
        }
    }
    for item in right.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = element_of(list, item) {
            by_element.entry(element).or_default().1.push(item);
        }
    }
    for (element, (left, right)) in by_element {
        let item = compare_items(list.element(), &left, &right);
        change.attach(&element, item);
    }
    change
}

/// Items with equal keys are indistinguishable, so they change together.
fn compare_items(shape: Type<'_>, left: &[&Value], right: &[&Value]) -> Change {
    match (left, right) {
        ([_, _, ..], [_, _, ..]) => {
            let mut change = Change::default();
            let equal = left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(left, right));
            change.modified.member = !equal;
            change
        }
        ([_, _, ..], rest) => {
            let mut change = rest
                .first()
                .map(|item| visit(shape, None, Some(item)))
                .unwrap_or_default();
            change.removed.member = true;
            change
        }
        (rest, [_, _, ..]) => {
            let mut change = rest
                .first()
                .map(|item| visit(shape, Some(item), None))
                .unwrap_or_default();
            change.added.member = true;
            change
        }
        (left, right) => visit(shape, left.first().copied(), right.first().copied()),
    }
}
