//! What must hold of an object before it is stored.

use schema::Violation;
use serde_json::Value;

use crate::{ApiError, object, registry::Resource};

/// Refuses an object that breaks a rule of all objects or of its kind.
pub fn check(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Result<(), ApiError> {
    let mut found = metadata(resource, new, old);
    if resource.built_in_kind().is_some() {
        found.extend(unqualified_finalizers(new));
    }
    let violations = resource.validate(new, old, subresource, found);
    if violations.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &resource.group,
        &resource.kind,
        object::meta(new, "name"),
        &violations,
    ))
}

fn metadata(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<Violation> {
    let scope = if resource.namespaced {
        schema::metadata::Scope::Namespaced
    } else {
        schema::metadata::Scope::Cluster
    };
    let name: schema::metadata::NameRule = match resource.name_rule() {
        kinds::NameRule::Subdomain => schema::names::dns_subdomain,
        kinds::NameRule::Label => schema::names::dns_label,
        kinds::NameRule::Label1035 => schema::names::dns_1035_label,
        kinds::NameRule::PathSegment => schema::names::path_segment,
    };
    match old {
        None => schema::metadata::validate_create(new, scope, name),
        Some(old) => schema::metadata::validate_update(new, old),
    }
}

/// Finalizers of built-in kinds are the server's own, or have a domain before them.
fn unqualified_finalizers(object: &Value) -> Vec<Violation> {
    object::finalizers(object)
        .enumerate()
        .filter(|(_, name)| {
            !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion")
        })
        .map(|(index, name)| {
            Violation::at(
                format!("metadata.finalizers[{index}]"),
                schema::Problem::Invalid {
                    value: Some(name.into()),
                    detail: "name is neither a standard finalizer name nor is it fully qualified"
                        .to_owned(),
                },
            )
        })
        .collect()
}
