//! Migration from client-side apply to `kubectl apply --server-side`.
//!
//! Client-side apply writes the applied configuration to an annotation. For the manager `kubectl`,
//! fields that still have their value in the annotation are no conflict, and the annotation is kept
//! up to date, so that client-side apply still works.

use serde_json::{Map, Value};

use crate::fields::FieldSet;
use crate::shape::Shape;
use crate::typed::{Duplicates, compare, to_field_set, validate};

/// The only manager for which the annotation matters.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum size of all annotations of an object.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Fields that client-side apply owns: they still have the value that it set.
pub(super) fn allowed_conflicts(
    shape: &Shape,
    live: &Value,
    api_version: &str,
) -> Option<FieldSet> {
    let annotation = annotation(live)?;
    let applied: Value = serde_json::from_str(annotation).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    validate(shape, live, Duplicates::Refused).ok()?;
    validate(shape, &applied, Duplicates::Refused).ok()?;
    let comparison = compare(shape, &applied, live);
    let set = to_field_set(shape, &applied)
        .difference(&comparison.modified)
        .difference(&comparison.added)
        .difference(&comparison.removed);
    Some(set)
}

/// Writes the configuration into the annotation of an object that has one.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = annotations_mut(&mut applied) {
        annotations.remove(ANNOTATION);
        if annotations.is_empty()
            && let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    let Some(annotations) = annotations_mut(object) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), format!("{applied}\n").into());
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS_SIZE {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .get_mut("metadata")?
        .get_mut("annotations")?
        .as_object_mut()
}
