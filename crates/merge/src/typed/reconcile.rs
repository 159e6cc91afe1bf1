//! Conversion of field sets that were recorded when the type had another shape.
//!
//! An owner of parts of a value that is now atomic owns the whole value. The opposite change needs
//! no conversion.

use crate::fields::{FieldSet, Node};
use crate::shape::{ListType, MapType, Shape, Type};

/// Converts a set to what would have been written for this shape.
pub(crate) fn reconcile(shape: &Shape, set: &mut FieldSet) {
    if !fits(shape.root(), set) {
        *set = visit(shape.root(), set);
    }
}

/// Whether the set needs no conversion: almost always, and cheaper to check than to rewrite the set.
fn fits(shape: Type<'_>, set: &FieldSet) -> bool {
    let map = shape.map();
    let list = shape.list();
    set.nodes().all(|(element, node)| {
        if node.children.is_empty() {
            return true;
        }
        let inner = match (map, list) {
            (Some(map), _) => element.field_name().and_then(|name| map.field(name)),
            (None, list) => list.map(ListType::element),
        };
        let Some(inner) = inner else {
            return true;
        };
        match (inner.map(), inner.list()) {
            (Some(map), _) if map.is_free_form() => true,
            (Some(map), _) => !map.atomic && fits(inner, &node.children),
            (None, Some(list)) => !list.atomic && fits(inner, &node.children),
            (None, None) => true,
        }
    })
}

fn visit(shape: Type<'_>, set: &FieldSet) -> FieldSet {
    let map = shape.map();
    let list = shape.list();
    let mut result = FieldSet::default();
    for (element, node) in set.nodes() {
        let inner = match (map, list) {
            (Some(map), _) => element.field_name().and_then(|name| map.field(name)),
            (None, list) => list.map(ListType::element),
        };
        let node = inner.map_or_else(|| node.clone(), |inner| visit_node(inner, node));
        result.attach(element.clone(), node);
    }
    result
}

fn visit_node(shape: Type<'_>, node: &Node) -> Node {
    if node.children.is_empty() || shape.map().is_some_and(MapType::is_free_form) {
        return node.clone();
    }
    let atomic = match (shape.map(), shape.list()) {
        (Some(map), _) => map.atomic,
        (None, Some(list)) => list.atomic,
        (None, None) => return node.clone(),
    };
    if atomic {
        Node {
            member: true,
            children: FieldSet::default(),
        }
    } else {
        Node {
            member: node.member,
            children: visit(shape, &node.children),
        }
    }
}
