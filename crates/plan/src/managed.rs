//! Who manages the fields of an object.

use api::{ObjectMeta, labels};

/// Where in the managed fields our creation of an object stands, unless it was turned into an apply.
pub fn created_at(metadata: &ObjectMeta) -> Option<usize> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    entries.iter().position(|entry| {
        entry.manager.as_deref() == Some(labels::MANAGER)
            && entry.operation.as_deref() == Some("Update")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    })
}
