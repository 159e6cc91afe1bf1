//! Check of the operator's permissions.
//!
//! The operator needs permission for its writes and watches, and for everything that KubeVirt's roles
//! grant: the API server lets no one grant permissions that they do not have, unless they may
//! `escalate` and `bind`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Finding, Severity,
    rules::{Grant, Rule, covered},
};
use crate::kubevirt::{
    desired::{Desired, OmissionReason},
    object::{Id, Object},
    tree,
};

/// RBAC rules that apply to the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// In the whole cluster.
    pub cluster: Vec<Rule>,
    /// In KubeVirt's namespace, including those of the whole cluster.
    pub namespace: Vec<Rule>,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Verbs for every object of an installation. Server-side apply needs patch and create.
const OF_OBJECTS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// The Lease of leader election.
const LEASE: &str = "virt-operator";

/// Further verbs: group, resource, verbs, and whether in KubeVirt's namespace only.
const FURTHER: [(&str, &str, &[&str], bool); 9] = [
    ("", "configmaps", &OF_OBJECTS, true),
    ("", "secrets", &["get", "list", "watch", "create"], true),
    ("", "pods", &["list", "watch"], true),
    (
        "batch",
        "jobs",
        &["get", "list", "watch", "create", "delete"],
        true,
    ),
    (
        "coordination.k8s.io",
        "leases",
        &["list", "watch", "create"],
        true,
    ),
    ("", "namespaces", &["list", "watch", "patch"], false),
    ("", "nodes", &["list", "watch", "patch"], false),
    (
        "kubevirt.io",
        "kubevirts",
        &["list", "watch", "patch"],
        false,
    ),
    ("kubevirt.io", "kubevirts/status", &["patch"], false),
];

pub(super) fn findings(
    desired: &Desired,
    permissions: &Permissions,
    namespace: &str,
) -> Vec<Finding> {
    let mut findings = writes(desired, permissions, namespace);
    let here = |id: &Id| {
        if &*id.namespace == namespace {
            &permissions.namespace
        } else {
            &permissions.cluster
        }
    };
    let roles = desired.objects.iter().filter(|object| is_role(&object.id));
    let roles: BTreeMap<_, _> = roles.map(|role| (role_key(&role.id), role)).collect();
    for role in roles.values() {
        if !may(here(&role.id), role, "escalate") {
            let what = "the operator may not grant permissions that it does not have:";
            findings.extend(lacks(&role.id, what, role, here(&role.id)));
        }
    }
    for binding in &desired.objects {
        if let Some(role) = bound(binding).and_then(|key| roles.get(&key))
            && may(here(&role.id), role, "escalate")
            && !may(here(&binding.id), role, "bind")
        {
            let what = "the operator may not bind a role whose permissions it does not have:";
            findings.extend(lacks(&binding.id, what, role, here(&binding.id)));
        }
    }
    findings
}

/// Missing permissions for the operator's own requests.
fn writes(desired: &Desired, permissions: &Permissions, namespace: &str) -> Vec<Finding> {
    let later = desired.omitted.iter();
    let later = later.filter(|omitted| matches!(omitted.reason, OmissionReason::NotYet(_)));
    let ids = desired.objects.iter().map(|object| &object.id);
    let kinds: BTreeSet<(&str, String, bool)> = ids
        .chain(later.map(|omitted| &omitted.id))
        .map(|id| (&*id.group, plural(&id.kind), &*id.namespace == namespace))
        .collect();
    let kinds = kinds.iter().map(|(group, resource, inside)| {
        (*group, resource.as_str(), OF_OBJECTS.as_slice(), *inside)
    });
    let mut missing: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (group, resource, verbs, inside) in kinds.chain(FURTHER) {
        let permissions = if inside {
            &permissions.namespace
        } else {
            &permissions.cluster
        };
        for verb in verbs {
            let name = "";
            let grant = Grant::Resource {
                group,
                resource,
                name,
                verb,
            };
            if !covered(permissions, grant) {
                missing.entry((group, resource)).or_default().insert(verb);
            }
        }
    }
    let finding = |((group, resource), verbs)| {
        let on = (group, resource, [].as_slice());
        finding("the operator".to_owned(), "it may not", on, &verbs)
    };
    let mut findings: Vec<_> = missing.into_iter().map(finding).collect();
    let secrets: Vec<_> = desired.secrets.iter().map(String::as_str).collect();
    findings.extend(by_name(
        ("", "secrets"),
        &secrets,
        &["delete", "patch"],
        permissions,
    ));
    let lease = ("coordination.k8s.io", "leases");
    findings.extend(by_name(lease, &[LEASE], &["get", "update"], permissions));
    findings
}

/// Missing permissions for objects of KubeVirt's namespace that a role may list by name, as the role of
/// KubeVirt's virt-operator does.
fn by_name(
    (group, resource): (&str, &str),
    names: &[&str],
    verbs: &[&str],
    permissions: &Permissions,
) -> Option<Finding> {
    let lacks = |name: &&str| {
        let grant = |verb| Grant::Resource {
            group,
            resource,
            name,
            verb,
        };
        let mut verbs = verbs.iter();
        verbs.any(|verb| !covered(&permissions.namespace, grant(verb)))
    };
    let names: Vec<_> = names.iter().copied().filter(|name| lacks(name)).collect();
    let verbs = verbs.iter().copied().collect();
    let subject = "the operator".to_owned();
    (!names.is_empty()).then(|| finding(subject, "it may not", (group, resource, &names), &verbs))
}

/// Permissions of a role that the operator does not have.
fn lacks(subject: &Id, what: &str, role: &Object, permissions: &[Rule]) -> Vec<Finding> {
    let rules = rules(role);
    let mut missing: BTreeMap<(&str, &str, &str), BTreeSet<&str>> = BTreeMap::new();
    for grant in rules.iter().flat_map(Rule::grants) {
        if covered(permissions, grant) {
            continue;
        }
        let (on, verb) = match grant {
            Grant::Resource {
                group,
                resource,
                name,
                verb,
            } => ((group, resource, name), verb),
            Grant::Path { path, verb } => (("", path, ""), verb),
        };
        missing.entry(on).or_default().insert(verb);
    }
    let finding = |((group, resource, name), verbs): ((_, _, &str), _)| {
        let names = [name];
        let names = if name.is_empty() {
            &[]
        } else {
            names.as_slice()
        };
        finding(subject.to_string(), what, (group, resource, names), &verbs)
    };
    missing.into_iter().map(finding).collect()
}

fn role_key(id: &Id) -> (String, String) {
    (id.kind.to_string(), id.name.to_string())
}

/// Kind and name of the role of a binding.
fn bound(binding: &Object) -> Option<(String, String)> {
    if !binding.id.is(RBAC, "ClusterRoleBinding") && !binding.id.is(RBAC, "RoleBinding") {
        return None;
    }
    let value = binding.value();
    let text = |field| tree::text(&value, field).map(str::to_owned);
    Some((text("/roleRef/kind")?, text("/roleRef/name")?))
}

fn is_role(id: &Id) -> bool {
    id.is(RBAC, "ClusterRole") || id.is(RBAC, "Role")
}

fn may(permissions: &[Rule], role: &Object, verb: &str) -> bool {
    let resource = plural(&role.id.kind);
    covered(
        permissions,
        Grant::Resource {
            group: RBAC,
            resource: &resource,
            name: &role.id.name,
            verb,
        },
    )
}

fn rules(role: &Object) -> Vec<Rule> {
    let value = role.value();
    tree::items(&value, "/rules")
        .filter_map(|rule: &Value| decode::from_value_ref::<Rule>(rule).ok())
        .collect()
}

fn finding(
    subject: String,
    message: &str,
    (group, resource, names): (&str, &str, &[&str]),
    verbs: &BTreeSet<&str>,
) -> Finding {
    let verbs = verbs.iter().copied().collect::<Vec<_>>().join(", ");
    let objects = if names.is_empty() {
        String::new()
    } else {
        format!(", resourceNames: {names:?}")
    };
    let rule = if resource.starts_with('/') {
        format!("{{nonResourceURLs: [{resource:?}], verbs: [{verbs}]}}")
    } else {
        format!("{{apiGroups: [{group:?}], resources: [{resource:?}]{objects}, verbs: [{verbs}]}}")
    };
    let mut on = resource.to_owned();
    for (separator, part) in [(".", group), (" ", &names.join(", "))] {
        if !part.is_empty() {
            on.push_str(separator);
            on.push_str(part);
        }
    }
    Finding {
        severity: Severity::Error,
        subject,
        message: format!("{message} {verbs} {on}"),
        remedy: format!("Add the rule {rule} to the operator's role"),
    }
}

/// The resource of a kind, by the rules that the names of Kubernetes and KubeVirt follow.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with("constraints") {
        kind
    } else if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    }
}
