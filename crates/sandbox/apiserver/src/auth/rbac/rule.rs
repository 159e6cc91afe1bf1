//! PolicyRule.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{auth::Attributes, object};

const ALL: &str = "*";

/// A PolicyRule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Empty string for core, `*` for all.
    pub api_groups: Vec<String>,
    /// `resource`, `resource/subresource`, `*/subresource` or `*`.
    pub resources: Vec<String>,
    /// Non-resource paths; a trailing `*` matches anything.
    pub non_resource_urls: Vec<String>,
    /// Empty for all.
    pub resource_names: Vec<String>,
    pub verbs: Vec<String>,
}

impl Rule {
    pub fn all_of(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules
            .map(|rules| rules.iter().map(Self::from_value).collect())
            .unwrap_or_default()
    }

    fn from_value(rule: &Value) -> Self {
        let list = |field: &str| object::strings(&rule[field]);
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            non_resource_urls: list("nonResourceURLs"),
            resource_names: list("resourceNames"),
            verbs: list("verbs"),
        }
    }

    /// The rule as JSON, without empty lists.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (field, list) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !list.is_empty() {
                map.insert(field.into(), list.clone().into());
            }
        }
        Value::Object(map)
    }

    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        if let Some(path) = attributes.path {
            return self
                .non_resource_urls
                .iter()
                .any(|url| url_covers(url, path));
        }
        has_or_all(&self.api_groups, attributes.group)
            && self.covers_resource(&attributes.combined_resource())
            && (self.resource_names.is_empty() || has(&self.resource_names, attributes.name))
    }

    /// `resource` may include a subresource.
    pub(super) fn covers_resource(&self, resource: &str) -> bool {
        has_or_all(&self.resources, resource)
            || resource.split_once('/').is_some_and(|(_, subresource)| {
                self.resources
                    .iter()
                    .any(|own| own.strip_prefix("*/") == Some(subresource))
            })
    }

    /// `single` has at most one item per list.
    pub(super) fn covers(&self, single: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| {
            has(own, ALL) || wanted.iter().all(|wanted| has(own, wanted))
        };
        all(&self.verbs, &single.verbs)
            && all(&self.api_groups, &single.api_groups)
            && single
                .resources
                .iter()
                .all(|resource| self.covers_resource(resource))
            && single.non_resource_urls.iter().all(|url| {
                self.non_resource_urls
                    .iter()
                    .any(|own| url_covers(own, url))
            })
            && (self.resource_names.is_empty()
                || !single.resource_names.is_empty()
                    && single
                        .resource_names
                        .iter()
                        .all(|name| has(&self.resource_names, name)))
    }

    /// The rule as error texts show it.
    pub(super) fn compact(&self) -> String {
        let mut text = String::from("{");
        for (name, list) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                let comma = if text.len() == 1 { "" } else { ", " };
                let _ = write!(text, "{comma}{name}:{}", quoted(list));
            }
        }
        text.push('}');
        text
    }
}

/// A list as Go prints it: `["a" "b"]`.
pub(super) fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

fn url_covers(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}
