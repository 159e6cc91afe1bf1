//! Unknown fields.
//!
//! kube-apiserver refuses them with strict field validation, which kubectl uses, and otherwise
//! drops them.

use serde_json::Value;

use crate::{
    Problem, Violation,
    node::{Node, Type},
    path::Path,
};

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(crate) fn find(root: &Node, object: &Value, found: &mut Vec<Violation>) {
    walk(root, object, &Path::Root, true, found);
}

fn walk(node: &Node, value: &Value, path: &Path<'_>, is_object: bool, found: &mut Vec<Violation>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_object && OBJECT_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                let path = path.child(name);
                match node.field(name) {
                    Some(schema) => walk(schema, value, &path, schema.embedded_resource, found),
                    None if node.preserve_unknown_fields || node.type_ != Some(Type::Object) => {}
                    None => found.push(Violation::new(
                        &path,
                        Problem::Unknown {
                            similar: similar(node, name),
                        },
                    )),
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    walk(
                        schema,
                        item,
                        &path.index(index),
                        schema.embedded_resource,
                        found,
                    );
                }
            }
        }
        _ => {}
    }
}

/// Most similar known field.
fn similar(node: &Node, name: &str) -> Option<String> {
    closest(name, node.properties.keys().map(String::as_str)).map(str::to_owned)
}

/// Most similar word: within two edits, or starting with `name`.
pub fn closest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    words
        .filter_map(|word| {
            let known = word.to_lowercase();
            let distance = distance(&wanted, &known);
            let is_slip = distance <= 2.min(known.len() / 2);
            let is_beginning = wanted.len() >= 3 && known.starts_with(&wanted);
            (is_slip || is_beginning).then_some((distance, word))
        })
        .min()
        .map(|(_, word)| word)
}

/// Edit distance.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
