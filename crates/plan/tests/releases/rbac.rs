//! Rules and bindings of the roles of a release, and the roles of KubeVirt's virt-operator.

use serde_json::{Value, json};

use super::names::{KINDS, Part, Release, names};

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Verbs of virt-operator for objects that it installs.
const MANAGE: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

/// Rules of a role.
pub(super) fn rules(release: &Release<'_>, kind: &str, name: &str) -> Vec<Value> {
    if kind == "Role" {
        return vec![rule("", "configmaps", READ)];
    }
    let machines = |verbs| rule("kubevirt.io", "virtualmachines", verbs);
    let plugins = |verbs| rule("plugin.kubevirt.io", "plugins", verbs);
    let (mut rules, plugin_verbs) = match name {
        "kubevirt.io:admin" => (vec![machines(ALL)], Some(ALL)),
        "kubevirt.io:view" => (vec![machines(READ)], Some(READ)),
        "kubevirt-handler" => (vec![rule("", "nodes", &["get", "patch"])], Some(READ)),
        "virt-template-metrics-reader" => (
            vec![json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] })],
            None,
        ),
        _ => (vec![machines(READ)], None),
    };
    if release.has(Part::Since(9)) {
        rules.extend(plugin_verbs.map(plugins));
    }
    rules
}

pub(super) fn binding(kind: &str, name: &str) -> Value {
    let role = match name {
        "virt-template-apiserver-auth-reader" => "extension-apiserver-authentication-reader",
        _ if name.ends_with("auth-delegator") => "system:auth-delegator",
        name => name,
    };
    let role = role.replace("-rolebinding", "-role");
    json!({
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind.strip_suffix("Binding"),
            "name": role,
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "kubevirt-controller", "namespace": "kubevirt",
        }],
    })
}

/// ClusterRole and Role of virt-operator: for what it installs, and for what the roles of its own release
/// grant.
pub(super) fn operator_roles(release: &Release<'_>) -> Vec<Value> {
    let mut cluster = vec![
        rule("", "namespaces", &["get", "list", "watch", "patch"]),
        rule("", "nodes", &["get", "list", "watch", "patch"]),
        rule("kubevirt.io", "*", &["*"]),
        json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }),
    ];
    let mut inside = vec![
        rule("", "configmaps", MANAGE),
        rule("", "pods", READ),
        rule("batch", "jobs", MANAGE),
        rule("", "secrets", &["create", "get", "list", "watch"]),
        rule(
            "coordination.k8s.io",
            "leases",
            &["create", "list", "watch"],
        ),
    ];
    let by_name = |group: &str, resource: &str, names: &[String], verbs: &[&str]| {
        let mut rule = rule(group, resource, verbs);
        rule["resourceNames"] = json!(names);
        rule
    };
    let lease = ["virt-operator".to_owned()];
    inside.push(by_name(
        "coordination.k8s.io",
        "leases",
        &lease,
        &["get", "update"],
    ));
    for kind in &KINDS {
        let (group, _) = kind.api_version.split_once('/').unwrap_or_default();
        let resource = match kind.name {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
            "SecurityContextConstraints" => "securitycontextconstraints".to_owned(),
            name => format!("{}s", name.to_lowercase()),
        };
        match kind.name {
            "Secret" => {
                let secrets = names(release, kind).into_iter();
                let secrets: Vec<String> = secrets.map(|(_, name, _)| name).collect();
                inside.push(by_name("", "secrets", &secrets, &["delete", "patch"]));
            }
            // A release has bindings in other namespaces than its own.
            _ => cluster.push(rule(group, &resource, MANAGE)),
        }
        if kind.name == "ClusterRole" {
            for (_, name, _) in names(release, kind) {
                cluster.extend(rules(release, kind.name, &name));
            }
        }
    }
    cluster.push(rule("policy", "poddisruptionbudgets", MANAGE));
    let role = |kind: &str, rules: Vec<Value>| json!({ "kind": kind, "rules": rules });
    vec![role("ClusterRole", cluster), role("Role", inside)]
}
