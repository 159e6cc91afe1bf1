//! OpenAPI v3: what kubectl needs to explain, to apply, and to know that the server validates
//! fields.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use kinds::openapi::{self, Below};
use serde_json::Value;

use crate::registry::{Registry, Resource, Source};

/// `/openapi/v3`: the documents that there are.
pub fn index(registry: &Registry) -> Value {
    let versions: BTreeSet<(&str, &str)> = registry
        .all()
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    let documents: Vec<(String, String)> = versions
        .into_iter()
        .map(|(group, version)| {
            let path = match group {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            (path, format!("{:016X}", hash(registry, group, version)))
        })
        .collect();
    openapi::index(
        documents
            .iter()
            .map(|(path, hash)| (path.as_str(), hash.as_str())),
    )
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
pub fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<openapi::Resource<'_>> = registry
        .group_version(group, version)
        .map(|resource| entry(resource))
        .collect();
    (!resources.is_empty()).then(|| openapi::document(group, version, &resources))
}

fn entry(resource: &Resource) -> openapi::Resource<'_> {
    const PART: [&str; 3] = ["get", "patch", "update"];
    match &resource.source {
        Source::BuiltIn(kind) => (*kind).into(),
        Source::Custom(custom) => {
            let mut subresources = Vec::new();
            if custom.has_status {
                subresources.push(Below {
                    name: "status",
                    gvk: (&resource.group, &resource.version, &resource.kind),
                    verbs: PART.to_vec(),
                });
            }
            if custom.scale.is_some() {
                subresources.push(Below {
                    name: "scale",
                    gvk: ("autoscaling", "v1", "Scale"),
                    verbs: PART.to_vec(),
                });
            }
            openapi::Resource {
                kind: &resource.kind,
                plural: &resource.plural,
                namespaced: resource.namespaced,
                verbs: kinds::STORED.to_vec(),
                subresources,
                component: openapi::component_name(
                    &resource.group,
                    &resource.version,
                    &resource.kind,
                ),
                schema: &custom.open_api,
            }
        }
    }
}
