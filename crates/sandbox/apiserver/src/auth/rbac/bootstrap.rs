//! Default ClusterRoles and ClusterRoleBindings.
//!
//! Only those that users rely on; roles of built-in controllers are left out.

use serde_json::{Value, json};

use super::{GROUP, Rule, aggregate};

const READ: &str = "get,list,watch";
const WRITE: &str = "create,delete,deletecollection,patch,update";
const READ_WRITE: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// Verbs, groups and resources, comma-separated.
type Row = (&'static str, &'static str, &'static str);

const TO_ADMIN: &[Row] = &[
    (
        "create",
        "authorization.k8s.io",
        "localsubjectaccessreviews",
    ),
    (READ_WRITE, GROUP, "rolebindings,roles"),
];

const TO_EDIT: &[Row] = &[
    (
        READ,
        "",
        "pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy",
    ),
    ("impersonate", "", "serviceaccounts"),
    (
        WRITE,
        "",
        "pods,pods/attach,pods/exec,pods/portforward,pods/proxy",
    ),
    ("create", "", "pods/eviction"),
    (
        WRITE,
        "",
        "configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,\
         secrets,serviceaccounts,services,services/proxy",
    ),
    ("create", "", "serviceaccounts/token"),
    (WRITE, ",events.k8s.io", "events"),
    (
        WRITE,
        "apps",
        "daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,\
         replicasets/scale,statefulsets,statefulsets/scale",
    ),
    (WRITE, "autoscaling", "horizontalpodautoscalers"),
    (WRITE, "batch", "cronjobs,jobs"),
    (
        WRITE,
        "extensions",
        "daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,\
         replicasets,replicasets/scale,replicationcontrollers/scale",
    ),
    (WRITE, "policy", "poddisruptionbudgets"),
    (WRITE, "networking.k8s.io", "ingresses,networkpolicies"),
    (READ_WRITE, "coordination.k8s.io", "leases"),
    (
        WRITE,
        "resource.k8s.io",
        "resourceclaims,resourceclaimtemplates",
    ),
];

const TO_VIEW: &[Row] = &[
    (
        READ,
        "",
        "configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,\
         replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,\
         services/status",
    ),
    (
        READ,
        "",
        "bindings,limitranges,namespaces/status,pods/log,pods/status,\
         replicationcontrollers/status,resourcequotas,resourcequotas/status",
    ),
    (READ, "", "namespaces"),
    (READ, ",events.k8s.io", "events"),
    (READ, "discovery.k8s.io", "endpointslices"),
    (
        READ,
        "apps",
        "controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,\
         deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,\
         statefulsets/scale,statefulsets/status",
    ),
    (
        READ,
        "autoscaling",
        "horizontalpodautoscalers,horizontalpodautoscalers/status",
    ),
    (READ, "batch", "cronjobs,cronjobs/status,jobs,jobs/status"),
    (
        READ,
        "extensions",
        "daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,\
         ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,\
         replicationcontrollers/scale",
    ),
    (
        READ,
        "policy",
        "poddisruptionbudgets,poddisruptionbudgets/status",
    ),
    (
        READ,
        "networking.k8s.io",
        "ingresses,ingresses/status,networkpolicies",
    ),
    (
        READ,
        "resource.k8s.io",
        "resourceclaims,resourceclaims/status,resourceclaimtemplates",
    ),
];

const DISCOVERY: &str = "/api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,\
                         /version,/version/";
const PUBLIC_INFO: &str = "/healthz,/livez,/readyz,/version,/version/";
const MONITORING: &str = "/flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,\
                          /readyz,/readyz/*,/statusz";
const ISSUER: &str = "/.well-known/openid-configuration,/.well-known/openid-configuration/,\
                      /openid/v1/jwks,/openid/v1/jwks/";

/// All default roles (aggregated ones already filled), then their bindings.
pub fn objects() -> Vec<Value> {
    let mut roles = vec![
        cluster_admin(),
        role("system:aggregate-to-admin", Some("admin"), TO_ADMIN, ""),
        role("system:aggregate-to-edit", Some("edit"), TO_EDIT, ""),
        role("system:aggregate-to-view", Some("view"), TO_VIEW, ""),
        role(
            "system:auth-delegator",
            None,
            &[
                ("create", "authentication.k8s.io", "tokenreviews"),
                ("create", "authorization.k8s.io", "subjectaccessreviews"),
            ],
            "",
        ),
        role(
            "system:basic-user",
            None,
            &[
                (
                    "create",
                    "authorization.k8s.io",
                    "selfsubjectaccessreviews,selfsubjectrulesreviews",
                ),
                ("create", "authentication.k8s.io", "selfsubjectreviews"),
            ],
            "",
        ),
        role("system:discovery", None, &[], DISCOVERY),
        role(
            "system:monitoring",
            None,
            &[("get", "", "nodes/metrics")],
            MONITORING,
        ),
        role("system:public-info-viewer", None, &[], PUBLIC_INFO),
        role("system:service-account-issuer-discovery", None, &[], ISSUER),
    ];
    for (name, into) in [
        ("view", Some("edit")),
        ("edit", Some("admin")),
        ("admin", None),
    ] {
        let mut filled = role(name, into, &[], "");
        filled["aggregationRule"] = json!({"clusterRoleSelectors": [
            {"matchLabels": {format!("{GROUP}/aggregate-to-{name}"): "true"}},
        ]});
        // `edit` aggregates `view`, and `admin` aggregates `edit`: the order matters.
        let parts = aggregate(&filled, &roles).unwrap_or_default();
        filled["rules"] = parts.iter().map(Rule::to_value).collect();
        roles.push(filled);
    }
    roles.extend([
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:monitoring", &["system:monitoring"]),
        binding(
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
        binding(
            "system:service-account-issuer-discovery",
            &["system:serviceaccounts"],
        ),
    ]);
    roles
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    })
}

fn cluster_admin() -> Value {
    let mut role = object("ClusterRole", "cluster-admin");
    role["rules"] = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    role
}

fn role(name: &str, part_of: Option<&str>, rows: &[Row], urls: &str) -> Value {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut rules = Vec::new();
    if !urls.is_empty() {
        rules.push(json!({"verbs": ["get"], "nonResourceURLs": list(urls)}));
    }
    rules.extend(rows.iter().map(|(verbs, groups, resources)| {
        json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
    }));
    let mut role = object("ClusterRole", name);
    if let Some(part_of) = part_of {
        role["metadata"]["labels"][format!("{GROUP}/aggregate-to-{part_of}")] = "true".into();
    }
    role["rules"] = rules.into();
    role
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let mut binding = object("ClusterRoleBinding", role);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
    binding["subjects"] = groups
        .iter()
        .map(|group| json!({"apiGroup": GROUP, "kind": "Group", "name": group}))
        .collect();
    binding
}
