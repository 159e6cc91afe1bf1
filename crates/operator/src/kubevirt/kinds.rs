//! Kinds of the objects of an installation, and their API paths.
//!
//! The kinds of all releases so far are in a table. An install strategy may contain others; their paths
//! come from the API server's discovery.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use crate::requests::Requests;

pub(super) type GroupKind = (Arc<str>, Arc<str>);

/// Scope of the watch of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    /// In all namespaces.
    Everywhere,
    /// In the operator's namespace only.
    Own,
}

/// Condition under which a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// In every cluster.
    Always,
    /// If its CustomResourceDefinition exists.
    Defined,
    /// If discovery lists it.
    Listed,
}

/// API resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Empty for the core group.
    pub(super) group: Arc<str>,
    pub(super) version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) plural: Arc<str>,
    pub(super) scope: Scope,
}

impl Resource {
    pub(super) fn group_kind(&self) -> GroupKind {
        (Arc::clone(&self.group), Arc::clone(&self.kind))
    }

    /// Resource that a CustomResourceDefinition defines.
    pub(super) fn from_definition(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array()?.iter();
        let mut served = versions.filter(|version| version["served"] == true);
        let scope = match spec["scope"].as_str()? {
            "Cluster" => Scope::Cluster,
            _ => Scope::Everywhere,
        };
        Some(Self {
            group: spec["group"].as_str()?.into(),
            version: served.next()?["name"].as_str()?.into(),
            kind: spec["names"]["kind"].as_str()?.into(),
            plural: spec["names"]["plural"].as_str()?.into(),
            scope,
        })
    }

    /// Path of the objects of a namespace; without one, of all objects.
    pub(super) fn in_namespace(&self, namespace: Option<&str>) -> String {
        self.collection(&self.version, namespace)
    }

    /// Name of the CustomResourceDefinition, if the kind is a custom resource.
    pub(super) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Same as [`in_namespace`](Self::in_namespace), for a version.
    pub(super) fn collection(&self, version: &str, namespace: Option<&str>) -> String {
        let (group, plural) = (&self.group, &self.plural);
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        match namespace {
            None => format!("{root}/{plural}"),
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        }
    }
}

/// Group (`-`: core), version, kind, plural, scope, presence.
const KNOWN: &str = "
- v1 ServiceAccount serviceaccounts everywhere always
- v1 Service services everywhere always
- v1 Secret secrets own always
- v1 ConfigMap configmaps own always
apps v1 Deployment deployments everywhere always
apps v1 DaemonSet daemonsets everywhere always
batch v1 Job jobs own always
policy v1 PodDisruptionBudget poddisruptionbudgets everywhere always
rbac.authorization.k8s.io v1 ClusterRole clusterroles cluster always
rbac.authorization.k8s.io v1 ClusterRoleBinding clusterrolebindings cluster always
rbac.authorization.k8s.io v1 Role roles everywhere always
rbac.authorization.k8s.io v1 RoleBinding rolebindings everywhere always
admissionregistration.k8s.io v1 ValidatingWebhookConfiguration validatingwebhookconfigurations cluster always
admissionregistration.k8s.io v1 MutatingWebhookConfiguration mutatingwebhookconfigurations cluster always
admissionregistration.k8s.io v1 ValidatingAdmissionPolicy validatingadmissionpolicies cluster listed
admissionregistration.k8s.io v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cluster listed
apiregistration.k8s.io v1 APIService apiservices cluster always
apiextensions.k8s.io v1 CustomResourceDefinition customresourcedefinitions cluster always
scheduling.k8s.io v1 PriorityClass priorityclasses cluster always
monitoring.coreos.com v1 ServiceMonitor servicemonitors everywhere defined
monitoring.coreos.com v1 PrometheusRule prometheusrules everywhere defined
instancetype.kubevirt.io v1beta1 VirtualMachineClusterInstancetype virtualmachineclusterinstancetypes cluster defined
instancetype.kubevirt.io v1beta1 VirtualMachineClusterPreference virtualmachineclusterpreferences cluster defined
security.openshift.io v1 SecurityContextConstraints securitycontextconstraints cluster listed
route.openshift.io v1 Route routes own listed
";

/// Kinds whose objects the operator changes although they are not part of an installation.
const OTHERS: &str = "
- v1 Namespace namespaces cluster always
- v1 Node nodes cluster always
kubevirt.io v1 KubeVirt kubevirts own always
";

#[derive(Debug)]
pub(super) struct Kinds {
    known: BTreeMap<GroupKind, (Resource, Presence)>,
    others: BTreeMap<GroupKind, Resource>,
    /// Relevant kinds in the last discovery.
    listed: BTreeMap<GroupKind, Resource>,
    /// Kinds of install strategies that are not in the table.
    wanted: BTreeSet<GroupKind>,
}

impl Default for Kinds {
    fn default() -> Self {
        let parsed = |table: &str| {
            let rows = table.lines().filter_map(parse);
            rows.map(|(resource, presence)| (resource.group_kind(), (resource, presence)))
                .collect::<BTreeMap<_, _>>()
        };
        let others = parsed(OTHERS).into_iter();
        Self {
            known: parsed(KNOWN),
            others: others
                .map(|(kind, (resource, _))| (kind, resource))
                .collect(),
            listed: BTreeMap::new(),
            wanted: BTreeSet::new(),
        }
    }
}

impl Kinds {
    pub(super) fn resource(&self, group: &str, kind: &str) -> Option<&Resource> {
        let kind = (group.into(), kind.into());
        let known = self.known.get(&kind).map(|(resource, _)| resource);
        known
            .or_else(|| self.others.get(&kind))
            .or_else(|| self.listed.get(&kind))
    }

    /// Whether every cluster serves the kind.
    pub(super) fn is_always_served(&self, kind: &GroupKind) -> bool {
        let known = self.known.get(kind);
        known.is_some_and(|(_, presence)| *presence == Presence::Always)
    }

    /// Served kinds of an installation, given the served definitions.
    pub(super) fn served(&self, is_defined: impl Fn(&str) -> bool) -> Vec<Resource> {
        let known = self
            .known
            .values()
            .filter(|(resource, presence)| match presence {
                Presence::Always => true,
                Presence::Defined => is_defined(&resource.definition()),
                Presence::Listed => self.listed.contains_key(&resource.group_kind()),
            });
        let known = known.map(|(resource, _)| resource);
        let wanted = self.wanted.iter().filter_map(|kind| self.listed.get(kind));
        known.chain(wanted).cloned().collect()
    }

    /// Sets the kinds of the install strategies. Returns whether discovery is needed for new ones.
    pub(super) fn add(&mut self, kinds: impl Iterator<Item = GroupKind>) -> bool {
        let wanted: BTreeSet<_> = kinds
            .filter(|kind| !self.known.contains_key(kind))
            .collect();
        let is_new = !wanted.is_subset(&self.wanted);
        self.wanted = wanted;
        is_new
    }

    /// Whether the last discovery lacked a kind of an install strategy.
    pub(super) fn is_incomplete(&self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|kind| !self.listed.contains_key(kind))
    }

    /// Replaces the listed kinds by those of a discovery.
    pub(super) fn update(&mut self, listing: Listing) {
        self.listed.clear();
        for group in listing.items {
            for version in group.versions {
                for resource in version.resources {
                    let kind: GroupKind = (
                        group.metadata.name.as_str().into(),
                        resource.response_kind.kind.as_str().into(),
                    );
                    let known = self.known.get(&kind);
                    let is_relevant = known.map_or_else(
                        || self.wanted.contains(&kind),
                        |(known, presence)| {
                            *presence == Presence::Listed && *known.version == version.version
                        },
                    );
                    if !is_relevant {
                        continue;
                    }
                    let scope = match (known, resource.scope.as_str()) {
                        (Some((known, _)), _) => known.scope,
                        (None, "Namespaced") => Scope::Everywhere,
                        (None, _) => Scope::Cluster,
                    };
                    // The preferred version comes first.
                    self.listed
                        .entry(kind)
                        .or_insert_with_key(|(group, kind)| Resource {
                            group: Arc::clone(group),
                            version: version.version.as_str().into(),
                            kind: Arc::clone(kind),
                            plural: resource.resource.as_str().into(),
                            scope,
                        });
                }
            }
        }
    }
}

fn parse(row: &str) -> Option<(Resource, Presence)> {
    let mut columns = row.split_whitespace();
    let group = columns.next()?;
    let resource = Resource {
        group: if group == "-" { "" } else { group }.into(),
        version: columns.next()?.into(),
        kind: columns.next()?.into(),
        plural: columns.next()?.into(),
        scope: match columns.next()? {
            "cluster" => Scope::Cluster,
            "own" => Scope::Own,
            _ => Scope::Everywhere,
        },
    };
    let presence = match columns.next()? {
        "defined" => Presence::Defined,
        "listed" => Presence::Listed,
        _ => Presence::Always,
    };
    Some((resource, presence))
}

/// Aggregated discovery (`apidiscovery.k8s.io`).
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    #[serde(default)]
    items: Vec<Group>,
}

impl Listing {
    pub(super) async fn read(requests: &Requests) -> kube::Result<Self> {
        let core: Self = requests.discover("/api").await?;
        Ok(core.and(requests.discover("/apis").await?))
    }

    fn and(mut self, other: Self) -> Self {
        self.items.extend(other.items);
        self
    }
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    #[serde(default)]
    version: String,
    #[serde(default)]
    resources: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    response_kind: Kind,
    #[serde(default)]
    scope: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kind {
    kind: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kinds, Listing, Scope};

    fn listing(group: &str, kind: &str, plural: &str) -> Listing {
        let resource = json!({
            "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced",
        });
        let version = json!({ "version": "v1", "resources": [resource] });
        let group = json!({ "metadata": { "name": group }, "versions": [version] });
        serde_json::from_value(json!({ "items": [group] })).unwrap()
    }

    #[test]
    fn a_kind_that_is_not_listed_is_not_served_and_discovered_once() {
        let mut kinds = Kinds::default();
        let wanted = || [("example.com".into(), "Widget".into())].into_iter();
        assert!(kinds.add(wanted()));
        kinds.update(listing("apps", "Deployment", "deployments"));
        assert!(kinds.is_incomplete());
        assert!(!kinds.add(wanted()));
        let is_it = |kinds: &Kinds| {
            let served = kinds.served(|_| true);
            served.iter().any(|resource| &*resource.kind == "Widget")
        };
        assert!(!is_it(&kinds));
        kinds.update(listing("example.com", "Widget", "widgets"));
        assert!(!kinds.is_incomplete());
        assert!(is_it(&kinds));
    }

    #[test]
    fn kinds_of_the_core_group_are_found() {
        let mut kinds = Kinds::default();
        kinds.add([("".into(), "LimitRange".into())].into_iter());
        let others = listing("apps", "Deployment", "deployments");
        kinds.update(listing("", "LimitRange", "limitranges").and(others));
        let found = kinds.resource("", "LimitRange").unwrap();
        assert_eq!(found.scope, Scope::Everywhere);
        assert_eq!(
            found.in_namespace(Some("a")),
            "/api/v1/namespaces/a/limitranges"
        );
    }
}
