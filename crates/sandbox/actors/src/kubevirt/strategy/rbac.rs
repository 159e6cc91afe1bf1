//! RBAC objects of a strategy.

use serde_json::{Value, json};

use super::release::Release;

const GROUP: &str = "rbac.authorization.k8s.io";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// ServiceAccounts of the components.
const ACCOUNTS: [&str; 5] = [
    "kubevirt-apiserver",
    "kubevirt-controller",
    "kubevirt-handler",
    "kubevirt-exportproxy",
    "kubevirt-synchronization-controller",
];

/// API groups, resources and verbs.
type Rule = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];
const KUBEVIRT: &[&str] = &["kubevirt.io"];
const GUESTS: &[&str] = &["virtualmachines", "virtualmachineinstances"];

pub(super) fn objects(release: &Release<'_>) -> Vec<Value> {
    let mut objects: Vec<Value> = ACCOUNTS
        .iter()
        .map(|name| namespaced(release, "v1", "ServiceAccount", name, json!({})))
        .collect();
    objects.extend(cluster_roles(release));
    objects.push(binding_of_all(
        "kubevirt.io:default",
        "system:authenticated",
    ));
    objects.push(binding_of_all(
        "instancetype.kubevirt.io:view",
        "system:authenticated",
    ));
    for account in ACCOUNTS {
        objects.push(cluster_binding(release, account, account, account));
    }
    objects.push(cluster_binding(
        release,
        "kubevirt-apiserver-auth-delegator",
        "system:auth-delegator",
        "kubevirt-apiserver",
    ));
    for account in ACCOUNTS {
        objects.push(namespaced(
            release,
            API_VERSION,
            "Role",
            account,
            json!({
                "rules": rules(&[(&[""], &["configmaps"], READ)]),
            }),
        ));
    }
    for account in ACCOUNTS {
        objects.push(role_binding(release, account, &subject(release, account)));
    }
    if let Some(namespace) = release
        .property("MonitorNamespace")
        .filter(|name| !name.is_empty())
    {
        let account = match release.property("MonitorAccount") {
            None | Some("") => "prometheus-k8s",
            Some(given) => given,
        };
        objects.push(namespaced(
            release,
            API_VERSION,
            "Role",
            "kubevirt-monitoring",
            json!({
                "rules": rules(&[(&[""], &["services", "endpoints", "pods"], READ)]),
            }),
        ));
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
        objects.push(role_binding(release, "kubevirt-monitoring", &subject));
    }
    objects
}

fn cluster_roles(release: &Release<'_>) -> Vec<Value> {
    let mut roles = vec![
        cluster_role(
            "kubevirt.io:default",
            &[(KUBEVIRT, &["kubevirts"], &["get", "list"])],
        ),
        cluster_role("kubevirt.io:admin", &[(KUBEVIRT, GUESTS, ALL)]),
        cluster_role("kubevirt.io:edit", &[(KUBEVIRT, GUESTS, ALL)]),
        cluster_role("kubevirt.io:view", &[(KUBEVIRT, GUESTS, READ)]),
        cluster_role(
            "instancetype.kubevirt.io:view",
            &[(
                &["instancetype.kubevirt.io"],
                &[
                    "virtualmachineclusterinstancetypes",
                    "virtualmachineclusterpreferences",
                ],
                READ,
            )],
        ),
        cluster_role(
            "kubevirt-apiserver",
            &[
                (KUBEVIRT, GUESTS, ALL),
                (
                    &[""],
                    &["pods", "namespaces", "persistentvolumeclaims"],
                    READ,
                ),
            ],
        ),
        cluster_role(
            "kubevirt-controller",
            &[
                (KUBEVIRT, &["*"], &["*"]),
                (&["snapshot.kubevirt.io"], &["*"], &["*"]),
                (&[""], &["pods", "configmaps", "events"], ALL),
            ],
        ),
        cluster_role(
            "kubevirt-handler",
            &[
                (
                    KUBEVIRT,
                    &["virtualmachineinstances"],
                    &["update", "list", "watch"],
                ),
                (&[""], &["nodes"], &["patch", "list", "watch", "get"]),
            ],
        ),
        cluster_role(
            "kubevirt-exportproxy",
            &[(&["export.kubevirt.io"], &["virtualmachineexports"], READ)],
        ),
        cluster_role(
            "kubevirt-synchronization-controller",
            &[(KUBEVIRT, &["virtualmachineinstancemigrations"], ALL)],
        ),
    ];
    roles.push(if release.has_plugins() {
        cluster_role(
            "kubevirt.io:plugins",
            &[(&["plugin.kubevirt.io"], &["plugins"], READ)],
        )
    } else {
        cluster_role(
            "kubevirt.io:presets",
            &[(KUBEVIRT, &["virtualmachineinstancepresets"], READ)],
        )
    });
    roles
}

fn rules(rules: &[Rule]) -> Vec<Value> {
    rules
        .iter()
        .map(|(groups, resources, verbs)| {
            json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
        })
        .collect()
}

fn cluster_role(name: &str, given: &[Rule]) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"kubevirt.io": ""}},
        "rules": rules(given),
    })
}

fn subject(release: &Release<'_>, account: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": release.namespace})
}

fn cluster_binding(release: &Release<'_>, name: &str, role: &str, account: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"kubevirt.io": ""}},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject(release, account)],
    })
}

fn binding_of_all(name: &str, group: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": name,
            "labels": {"kubevirt.io": ""},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group}],
    })
}

fn role_binding(release: &Release<'_>, name: &str, subject: &Value) -> Value {
    let body = json!({
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
        "subjects": [subject],
    });
    namespaced(release, API_VERSION, "RoleBinding", name, body)
}

fn namespaced(
    release: &Release<'_>,
    api_version: &str,
    kind: &str,
    name: &str,
    mut object: Value,
) -> Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({
        "name": name,
        "namespace": release.namespace,
        "labels": {"kubevirt.io": ""},
    });
    object
}
