//! Discovery: aggregated (`APIGroupDiscoveryList`) and legacy, per group.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{
    extension::Extension,
    object, output,
    registry::{Registry, Resource, Source},
};

/// Order of the built-in groups; others follow by name.
const GROUP_ORDER: [&str; 17] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// APIResource.
struct Entry {
    name: String,
    singular: String,
    kind: String,
    kind_group: String,
    kind_version: String,
    namespaced: bool,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    parts: Vec<Entry>,
}

struct Version {
    name: String,
    entries: Vec<Entry>,
}

/// Preferred version first.
struct Group {
    name: String,
    versions: Vec<Version>,
}

/// Version of aggregated discovery that the client accepts, if any.
pub fn is_aggregated(headers: &HeaderMap) -> Option<&'static str> {
    output::accepted(headers)
        .iter()
        .filter(|entry| {
            entry.group == "apidiscovery.k8s.io" && entry.transform == "APIGroupDiscoveryList"
        })
        .find_map(|entry| match entry.version {
            "v2" => Some("v2"),
            "v2beta1" => Some("v2beta1"),
            _ => None,
        })
}

pub fn aggregated_type(version: &str) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
}

/// Aggregated discovery of `/api` or `/apis`.
pub fn aggregated(
    registry: &Registry,
    extensions: &[std::sync::Arc<dyn Extension>],
    core: bool,
    version: &str,
) -> Value {
    let items: Vec<Value> = groups(registry, extensions)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        version.entries.iter().map(Entry::aggregated).collect();
                    json!({
                        "version": version.name, "resources": resources, "freshness": "Current",
                    })
                })
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({"name": group.name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

/// `/api`.
pub fn versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    })
}

/// `/apis`.
pub fn group_list(registry: &Registry, extensions: &[std::sync::Arc<dyn Extension>]) -> Value {
    let groups: Vec<Value> = groups(registry, extensions)
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(Group::legacy)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub fn group(
    registry: &Registry,
    extensions: &[std::sync::Arc<dyn Extension>],
    name: &str,
) -> Option<Value> {
    let groups = groups(registry, extensions);
    let group = groups.iter().find(|group| group.name == name)?;
    let mut value = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Value::Object(value), Value::Object(group)) = (&mut value, group.legacy()) {
        value.extend(group);
    }
    Some(value)
}

/// `/apis/GROUP/VERSION`, or `/api/v1`.
pub fn resource_list(
    registry: &Registry,
    extensions: &[std::sync::Arc<dyn Extension>],
    group: &str,
    version: &str,
) -> Option<Value> {
    if let Some(extension) = extensions
        .iter()
        .find(|extension| extension.group() == group && extension.version() == version)
    {
        return Some(extension.resources());
    }
    let mut entries = Vec::new();
    for resource in registry.group_version(group, version) {
        let entry = Entry::of(resource);
        entries.push(entry.legacy(None));
        entries.extend(entry.parts.iter().map(|part| part.legacy(Some(&entry))));
    }
    if entries.is_empty() {
        return None;
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": object::api_version(group, version),
        "resources": entries,
    }))
}

fn groups(registry: &Registry, extensions: &[std::sync::Arc<dyn Extension>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut add = |name: &str, version: &str, entry: Entry| {
        let known = groups.iter().position(|group| group.name == name);
        let at = known.unwrap_or_else(|| {
            groups.push(Group {
                name: name.to_owned(),
                versions: Vec::new(),
            });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else {
            return;
        };
        match group.versions.iter_mut().find(|one| one.name == version) {
            Some(known) => known.entries.push(entry),
            None => group.versions.push(Version {
                name: version.to_owned(),
                entries: vec![entry],
            }),
        }
    };
    for resource in registry.all() {
        add(&resource.group, &resource.version, Entry::of(resource));
    }
    for extension in extensions {
        for entry in Entry::of_extension(extension.as_ref()) {
            add(extension.group(), extension.version(), entry);
        }
    }
    for group in &mut groups {
        group
            .versions
            .sort_by_key(|version| std::cmp::Reverse(priority(&version.name)));
    }
    groups.sort_by_key(|group| {
        let place = GROUP_ORDER
            .iter()
            .position(|name| *name == group.name)
            .unwrap_or(GROUP_ORDER.len());
        (place, group.name.clone())
    });
    groups
}

/// Version priority: GA before beta before alpha, then by number.
pub fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse() else {
        return (0, 0, 0);
    };
    let (stage, minor) = if rest.is_empty() {
        (3, "0")
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (2, minor)
    } else if let Some(minor) = rest.strip_prefix("alpha") {
        (1, minor)
    } else {
        return (0, 0, 0);
    };
    minor
        .parse()
        .map_or((0, 0, 0), |minor| (stage, major, minor))
}

impl Group {
    fn legacy(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| {
                json!({
                    "groupVersion": object::api_version(&self.name, &version.name),
                    "version": version.name,
                })
            })
            .collect();
        json!({
            "name": self.name,
            "preferredVersion": versions.first(),
            "versions": versions,
        })
    }
}

impl Entry {
    fn of(resource: &Resource) -> Self {
        let owned = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let part = |name: &str, kind: &str, group: &str, version: &str, verbs: &[&str]| Self {
            name: name.to_owned(),
            singular: String::new(),
            kind: kind.to_owned(),
            kind_group: group.to_owned(),
            kind_version: version.to_owned(),
            namespaced: resource.namespaced,
            verbs: owned(verbs),
            short_names: Vec::new(),
            categories: Vec::new(),
            parts: Vec::new(),
        };
        let (verbs, parts, group, version) = match &resource.source {
            Source::BuiltIn(kind) => (
                owned(kind.verbs),
                kind.subresources
                    .iter()
                    .map(|sub| {
                        // A subresource of its parent's kind does not repeat the group.
                        let (group, version) = if sub.kind == kind.kind {
                            ("", "")
                        } else {
                            (sub.group, sub.version)
                        };
                        part(sub.name, sub.kind, group, version, sub.verbs)
                    })
                    .collect(),
                "",
                "",
            ),
            Source::Custom(custom) => {
                let mut parts = Vec::new();
                if custom.has_status {
                    parts.push(part(
                        "status",
                        &resource.kind,
                        &resource.group,
                        &resource.version,
                        &PART_VERBS,
                    ));
                }
                if custom.scale.is_some() {
                    parts.push(part("scale", "Scale", "autoscaling", "v1", &PART_VERBS));
                }
                (
                    owned(&CUSTOM_VERBS),
                    parts,
                    resource.group.as_str(),
                    resource.version.as_str(),
                )
            }
        };
        Self {
            name: resource.plural.clone(),
            singular: resource.singular.clone(),
            kind: resource.kind.clone(),
            kind_group: group.to_owned(),
            kind_version: version.to_owned(),
            namespaced: resource.namespaced,
            verbs,
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            parts,
        }
    }

    fn of_extension(extension: &dyn Extension) -> Vec<Self> {
        let list = extension.resources();
        let texts = |value: &Value, key: &str| -> Vec<String> {
            value
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let mut entries: Vec<Self> = Vec::new();
        for value in list["resources"].as_array().into_iter().flatten() {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let name = text("name");
            let (resource, part) = name.split_once('/').unwrap_or((&name, ""));
            let entry = |name: &str| Self {
                name: name.to_owned(),
                singular: text("singularName"),
                kind: text("kind"),
                kind_group: extension.group().to_owned(),
                kind_version: extension.version().to_owned(),
                namespaced: value["namespaced"] == true,
                verbs: texts(value, "verbs"),
                short_names: texts(value, "shortNames"),
                categories: texts(value, "categories"),
                parts: Vec::new(),
            };
            if part.is_empty() {
                entries.push(entry(resource));
                continue;
            }
            let known = entries.iter().position(|entry| entry.name == resource);
            let at = known.unwrap_or_else(|| {
                entries.push(Self {
                    verbs: Vec::new(),
                    ..entry(resource)
                });
                entries.len() - 1
            });
            if let Some(parent) = entries.get_mut(at) {
                parent.parts.push(entry(part));
            }
        }
        entries
    }

    fn aggregated(&self) -> Value {
        let kind = json!({
            "group": self.kind_group, "version": self.kind_version, "kind": self.kind,
        });
        let mut value = Map::new();
        value.insert("resource".to_owned(), self.name.clone().into());
        value.insert("responseKind".to_owned(), kind);
        let scope = if self.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        value.insert("scope".to_owned(), scope.into());
        value.insert("singularResource".to_owned(), self.singular.clone().into());
        value.insert("verbs".to_owned(), self.verbs.clone().into());
        if !self.short_names.is_empty() {
            value.insert("shortNames".to_owned(), self.short_names.clone().into());
        }
        if !self.categories.is_empty() {
            value.insert("categories".to_owned(), self.categories.clone().into());
        }
        if !self.parts.is_empty() {
            let parts: Vec<Value> = self
                .parts
                .iter()
                .map(|part| {
                    json!({
                        "subresource": part.name,
                        "responseKind": {
                            "group": part.kind_group,
                            "version": part.kind_version,
                            "kind": part.kind,
                        },
                        "verbs": part.verbs,
                    })
                })
                .collect();
            value.insert("subresources".to_owned(), parts.into());
        }
        value.into()
    }

    fn legacy(&self, parent: Option<&Self>) -> Value {
        let mut value = Map::new();
        let name = match parent {
            None => self.name.clone(),
            Some(parent) => format!("{}/{}", parent.name, self.name),
        };
        value.insert("name".to_owned(), name.into());
        value.insert("singularName".to_owned(), self.singular.clone().into());
        value.insert("namespaced".to_owned(), self.namespaced.into());
        // kubectl needs the group of the Eviction kind to evict pods.
        let is_foreign = parent.is_some_and(|parent| {
            !self.kind_group.is_empty() && self.kind_group != parent.kind_group
        });
        if is_foreign {
            value.insert("group".to_owned(), self.kind_group.clone().into());
            value.insert("version".to_owned(), self.kind_version.clone().into());
        }
        value.insert("kind".to_owned(), self.kind.clone().into());
        value.insert("verbs".to_owned(), self.verbs.clone().into());
        if !self.short_names.is_empty() {
            value.insert("shortNames".to_owned(), self.short_names.clone().into());
        }
        if !self.categories.is_empty() {
            value.insert("categories".to_owned(), self.categories.clone().into());
        }
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions = ["v1alpha1", "foo", "v1", "v2beta1", "v10", "v2", "v1beta2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
