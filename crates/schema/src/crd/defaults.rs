//! Validation of defaults in schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::structural::entries;
use crate::{Violation, embedded, node::Node, path::Path, prune, rules, structural};

pub(super) fn check(schema: &Value, path: &str, found: &mut Vec<Violation>) {
    if let Some(default) = schema.get("default").filter(|value| !value.is_null()) {
        check_default(schema, default, &format!("{path}.default"), found);
    }
    if let Some(items) = schema.get("items") {
        check(items, &format!("{path}.items"), found);
    }
    for (name, property) in entries(schema, "properties") {
        check(property, &format!("{path}.properties[{name}]"), found);
    }
}

fn check_default(schema: &Value, default: &Value, path: &str, found: &mut Vec<Violation>) {
    // Compile errors are reported elsewhere.
    let Ok(node) = Node::compile(schema, &Path::Root) else {
        return;
    };
    let mut pruned = default.clone();
    prune::prune_default(&node, &mut pruned);
    if pruned != *default {
        found.push(Violation::invalid(
            path,
            default.clone(),
            "must not have unknown fields",
        ));
    }
    let place = Path::At(path);
    let before = found.len();
    embedded::check(&node, default, &place, found);
    if found.len() == before {
        structural::check_part(&node, default, None, path, found);
    }
    if found.len() == before {
        let unblocked = BTreeSet::new();
        rules::check(&node, default, None, &unblocked, &place, found);
    }
}
