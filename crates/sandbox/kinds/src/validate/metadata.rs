//! Metadata validation that only built-in kinds have.

use schema::names;
use serde_json::Value;

use super::check::Check;
use crate::value::list;

/// Finalizers are standard or domain-qualified names.
pub(super) fn finalizers(check: &mut Check, new: &Value) {
    const STANDARD: [&str; 3] = ["kubernetes", "foregroundDeletion", "orphan"];
    for (index, finalizer) in list(new, "metadata.finalizers").iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            check.invalid(format!("metadata.finalizers[{index}]"), finalizer, why);
        }
    }
}

/// Annotation keys are validated in lower case.
pub(super) fn annotations(check: &mut Check, path: &str, annotations: &Value) {
    for (key, _) in annotations.as_object().into_iter().flatten() {
        for message in names::qualified_name(&key.to_lowercase()) {
            check.invalid(path, key.as_str(), message);
        }
    }
}
