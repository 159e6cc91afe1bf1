//! OpenAPI v3: what kubectl needs to explain, to apply, and to know that the server validates
//! fields.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::{Map, Value, json};

use crate::registry::Registry;

/// `/openapi/v3`: the documents that there are.
pub fn index(registry: &Registry) -> Value {
    let mut groups = BTreeSet::new();
    for resource in registry.all() {
        groups.insert((resource.group.clone(), resource.version.clone()));
    }
    let mut paths = Map::new();
    for (group, version) in groups {
        let path = match group.as_str() {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        let hash = hash(registry, &group, &version);
        let url = format!("/openapi/v3/{path}?hash={hash:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// Clients keep documents for as long as their hash is the same.
fn hash(registry: &Registry, group: &str, version: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for resource in registry.group_version(group, version) {
        resource.plural.hash(&mut hasher);
        if let Some(custom) = resource.as_custom() {
            custom.open_api.to_string().hash(&mut hasher);
            custom.has_status.hash(&mut hasher);
            custom.scale.is_some().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// `/openapi/v3/apis/GROUP/VERSION`.
pub fn document(_registry: &Registry, _group: &str, _version: &str) -> Option<Value> {
    None
}
