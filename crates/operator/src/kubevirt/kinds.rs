//! The kinds that an installation has, and where the API server keeps their objects.
//!
//! The kinds of every release so far are known by heart. A strategy may bring others: what they are
//! called in paths is asked of the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use crate::requests::Requests;

/// A group and a kind.
pub(super) type GroupKind = (Arc<str>, Arc<str>);

/// Where the objects of a kind are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// They have no namespace.
    Cluster,
    /// In all namespaces.
    Everywhere,
    /// In the operator's namespace only.
    Own,
}

/// When a kind is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// In every cluster.
    Always,
    /// When its definition is.
    Defined,
    /// When the API server lists it.
    Listed,
}

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// The API group, empty for the core group.
    pub(super) group: Arc<str>,
    /// The version that is used.
    pub(super) version: Arc<str>,
    /// The kind.
    pub(super) kind: Arc<str>,
    /// The name in paths.
    pub(super) plural: Arc<str>,
    /// Where objects of it are.
    pub(super) scope: Scope,
}

impl Resource {
    pub(super) fn group_kind(&self) -> GroupKind {
        (Arc::clone(&self.group), Arc::clone(&self.kind))
    }

    /// How a definition says that its kind is served.
    pub(super) fn defined(definition: &Value) -> Option<Self> {
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

    /// The objects of a namespace, or all of them if it is empty.
    pub(super) fn in_namespace(&self, namespace: &str) -> String {
        self.collection(&self.version, namespace)
    }

    /// The name of the definition, if it has one.
    pub(super) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The objects of a namespace, or all of them if it is empty, in a version.
    pub(super) fn collection(&self, version: &str, namespace: &str) -> String {
        let (group, plural) = (&self.group, &self.plural);
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if namespace.is_empty() {
            format!("{root}/{plural}")
        } else {
            format!("{root}/namespaces/{namespace}/{plural}")
        }
    }
}

/// Group (`-`: core), version, kind, plural, where, when. Nodes and namespaces are changed, and
/// not watched as what an installation consists of.
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

/// Kinds of which objects are changed that are not part of the installation.
const OTHERS: &str = "
- v1 Namespace namespaces cluster always
- v1 Node nodes cluster always
kubevirt.io v1 KubeVirt kubevirts own always
";

/// What is known of kinds.
#[derive(Debug)]
pub(super) struct Kinds {
    known: BTreeMap<GroupKind, (Resource, Presence)>,
    others: BTreeMap<GroupKind, Resource>,
    /// What the API server listed, as far as it matters.
    listed: BTreeMap<GroupKind, Resource>,
    /// Kinds of strategies that are not known by heart.
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
    /// How a kind is served, if it is or may be.
    pub(super) fn resource(&self, group: &str, kind: &str) -> Option<&Resource> {
        let kind = (group.into(), kind.into());
        let known = self.known.get(&kind).map(|(resource, _)| resource);
        known
            .or_else(|| self.others.get(&kind))
            .or_else(|| self.listed.get(&kind))
    }

    /// Whether a kind is in every cluster.
    pub(super) fn is_always_there(&self, kind: &GroupKind) -> bool {
        let known = self.known.get(kind);
        known.is_some_and(|(_, presence)| *presence == Presence::Always)
    }

    /// The kinds of an installation that are served, given which definitions are.
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

    /// Takes in that strategies have objects of these kinds. Says whether the API server is to be
    /// asked how they are served.
    pub(super) fn want(&mut self, kinds: impl Iterator<Item = GroupKind>) -> bool {
        let wanted: BTreeSet<_> = kinds
            .filter(|kind| !self.known.contains_key(kind))
            .collect();
        let is_new = !wanted.is_subset(&self.wanted);
        self.wanted = wanted;
        is_new
    }

    /// Whether there are kinds that the API server did not list when it was last asked.
    pub(super) fn lacks(&self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|kind| !self.listed.contains_key(kind))
    }

    /// Takes in what the API server lists. Kinds that are wanted and not listed are not served.
    pub(super) fn list(&mut self, listing: Listing) {
        self.listed.clear();
        for group in listing.items {
            for version in group.versions {
                for resource in version.resources {
                    let kind: GroupKind = (
                        group.metadata.name.as_str().into(),
                        resource.response_kind.kind.as_str().into(),
                    );
                    let known = self.known.get(&kind);
                    let matters = known.map_or_else(
                        || self.wanted.contains(&kind),
                        |(known, presence)| {
                            *presence == Presence::Listed && *known.version == version.version
                        },
                    );
                    if !matters {
                        continue;
                    }
                    let scope = match (known, resource.scope.as_str()) {
                        (Some((known, _)), _) => known.scope,
                        (None, "Namespaced") => Scope::Everywhere,
                        (None, _) => Scope::Cluster,
                    };
                    // Versions come with the preferred one first.
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
    let mut words = row.split_whitespace();
    let group = words.next()?;
    let resource = Resource {
        group: if group == "-" { "" } else { group }.into(),
        version: words.next()?.into(),
        kind: words.next()?.into(),
        plural: words.next()?.into(),
        scope: match words.next()? {
            "cluster" => Scope::Cluster,
            "own" => Scope::Own,
            _ => Scope::Everywhere,
        },
    };
    let presence = match words.next()? {
        "defined" => Presence::Defined,
        "listed" => Presence::Listed,
        _ => Presence::Always,
    };
    Some((resource, presence))
}

/// What the API server serves (`apidiscovery.k8s.io`).
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    #[serde(default)]
    items: Vec<Group>,
}

impl Listing {
    /// Asks the API server.
    pub(super) async fn ask(requests: &Requests) -> kube::Result<Self> {
        let core: Self = requests.discover("/api").await?;
        Ok(core.and(requests.discover("/apis").await?))
    }

    /// What is in either.
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
    fn a_kind_that_is_not_listed_is_not_served_and_asked_for_once() {
        let mut kinds = Kinds::default();
        let wanted = || [("example.com".into(), "Widget".into())].into_iter();
        assert!(kinds.want(wanted()));
        kinds.list(listing("apps", "Deployment", "deployments"));
        assert!(kinds.lacks());
        assert!(!kinds.want(wanted()));
        let is_it = |kinds: &Kinds| {
            let served = kinds.served(|_| true);
            served.iter().any(|resource| &*resource.kind == "Widget")
        };
        assert!(!is_it(&kinds));
        kinds.list(listing("example.com", "Widget", "widgets"));
        assert!(!kinds.lacks());
        assert!(is_it(&kinds));
    }

    #[test]
    fn kinds_of_the_core_group_are_found() {
        let mut kinds = Kinds::default();
        kinds.want([("".into(), "LimitRange".into())].into_iter());
        let others = listing("apps", "Deployment", "deployments");
        kinds.list(listing("", "LimitRange", "limitranges").and(others));
        let found = kinds.resource("", "LimitRange").unwrap();
        assert_eq!(found.scope, Scope::Everywhere);
        assert_eq!(found.in_namespace("a"), "/api/v1/namespaces/a/limitranges");
    }
}
