//! Validation of objects before they are stored.

use schema::Violation;
use serde_json::Value;

use crate::{ApiError, object, registry::Resource};

/// Refuses an invalid object. Returns violations tolerated by ratcheting as warnings.
pub fn validate(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Result<Vec<String>, ApiError> {
    let found = resource.validate(new, old, subresource, metadata(resource, new, old));
    if found.violations.is_empty() {
        return Ok(found.tolerated.iter().map(Violation::to_string).collect());
    }
    // Errors about Events always name the core group.
    Err(ApiError::invalid(
        if resource.needs_conversion() {
            ""
        } else {
            &resource.group
        },
        &resource.kind,
        object::meta(new, "name"),
        &found.violations,
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
