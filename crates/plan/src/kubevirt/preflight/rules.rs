//! RBAC rules, and whether they cover a permission.

use serde::Deserialize;

/// A rule of a role or of a SelfSubjectRulesReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub api_groups: Vec<String>,
    /// Including subresources, as `pods/log`.
    pub resources: Vec<String>,
    /// Empty for all objects.
    pub resource_names: Vec<String>,
    pub verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// A single permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        name: &'a str,
        verb: &'a str,
    },
    Path {
        path: &'a str,
        verb: &'a str,
    },
}

impl Rule {
    /// All permissions of a rule.
    pub(super) fn grants(&self) -> Vec<Grant<'_>> {
        let mut grants = Vec::new();
        for verb in &self.verbs {
            for path in &self.non_resource_urls {
                grants.push(Grant::Path { path, verb });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    let grant = |name| Grant::Resource {
                        group,
                        resource,
                        name,
                        verb,
                    };
                    if self.resource_names.is_empty() {
                        grants.push(grant(""));
                    }
                    grants.extend(self.resource_names.iter().map(|name| grant(name)));
                }
            }
        }
        grants
    }

    fn covers(&self, grant: Grant<'_>) -> bool {
        let has =
            |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        match grant {
            Grant::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                let any_parent = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && (has(&self.resources, resource)
                        || any_parent.is_some_and(|any| self.resources.contains(&any)))
                    && (self.resource_names.is_empty()
                        || self
                            .resource_names
                            .iter()
                            .any(|known| !name.is_empty() && known == name))
            }
            Grant::Path { path, verb } => {
                has(&self.verbs, verb)
                    && self
                        .non_resource_urls
                        .iter()
                        .any(|known| match known.strip_suffix('*') {
                            Some(prefix) => path.starts_with(prefix),
                            None => known == path,
                        })
            }
        }
    }
}

/// Whether one of the rules grants the permission.
pub(super) fn covered(permissions: &[Rule], grant: Grant<'_>) -> bool {
    permissions.iter().any(|rule| rule.covers(grant))
}
