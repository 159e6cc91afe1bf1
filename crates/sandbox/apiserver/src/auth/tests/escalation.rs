//! Privilege escalation checks.

use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    ApiError,
    auth::{
        rbac::{
            GROUP,
            escalation::{Write, check},
        },
        test_cluster::{Cluster, binding, role, user},
    },
};

fn rules() -> Value {
    json!([
        {"apiGroups": ["", "apps"], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x", "y"],
         "verbs": ["get"]},
        {"nonResourceURLs": ["/a/b", "/c"], "verbs": ["get", "post"]},
    ])
}

fn cluster() -> Cluster {
    Cluster::with([
        role(
            "",
            "rbac",
            json!([
                {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"nonResourceURLs": ["/a/*"], "verbs": ["get"]},
            ]),
        ),
        role(
            "",
            "more",
            json!([
                {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["escalate"],
                 "resourceNames": ["t2"]},
                {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"],
                 "resourceNames": ["view"]},
            ]),
        ),
        role(
            "",
            "t1",
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        ),
        role("", "t2", rules()),
        binding("", "r3", "ClusterRole/rbac", "u3"),
        binding("", "r4", "ClusterRole/rbac", "u4"),
        binding("", "m4", "ClusterRole/more", "u4"),
        binding("", "r5", "ClusterRole/gone", "u5"),
        binding("a", "r5", "Role/lost", "u5"),
        binding("", "all", "ClusterRole/cluster-admin", "u6"),
    ])
}

fn write(name: &str, resource: &str, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    check(
        &cluster(),
        &Write {
            user: &user(name),
            resource,
            namespace: if resource.starts_with("cluster") {
                ""
            } else {
                "a"
            },
            object,
            old,
        },
    )
}

fn text(result: Result<(), ApiError>) -> String {
    result.map_or_else(|error| error.message, |()| "allowed".into())
}

const LACKING: &str = r#" is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["list"]}
{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]}
{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get"]}
{APIGroups:[""], Resources:["secrets"], ResourceNames:["y"], Verbs:["get"]}
{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}
{APIGroups:["apps"], Resources:["pods/log"], Verbs:["get" "list"]}
{NonResourceURLs:["/a/b"], Verbs:["post"]}
{NonResourceURLs:["/c"], Verbs:["get"]}
{NonResourceURLs:["/c"], Verbs:["post"]}"#;

#[test]
fn writing_a_role_requires_its_permissions() {
    let refused = write("u3", "clusterroles", &role("", "new", rules()), None).unwrap_err();
    assert_eq!(
        refused.message,
        format!(
            r#"clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "u3" (groups=["system:authenticated"]){LACKING}"#
        )
    );
    assert_eq!(refused.code, 403);
    let own = role(
        "",
        "new",
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    );
    assert_eq!(write("u3", "clusterroles", &own, None), Ok(()));
}

#[test]
fn escalate_is_for_the_name_in_the_path() {
    let old = role("", "t2", json!([]));
    let new = role("", "t2", rules());
    assert_eq!(write("u4", "clusterroles", &new, Some(&old)), Ok(()));
    assert!(text(write("u4", "clusterroles", &new, None)).contains("attempting to grant"));
    assert!(text(write("u3", "clusterroles", &new, Some(&old))).contains("attempting to grant"));
}

#[test]
fn aggregation_requires_cluster_admin() {
    let mut new = role("", "t3", json!([]));
    new["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    assert_eq!(
        text(write("u3", "clusterroles", &new, None)),
        r#"clusterroles.rbac.authorization.k8s.io "t3" is forbidden: must have cluster-admin privileges to use the aggregationRule"#
    );
    assert_eq!(write("u6", "clusterroles", &new, None), Ok(()));
}

#[test]
fn refusal_names_unresolved_roles() {
    let all = role(
        "",
        "t9",
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
    );
    assert_eq!(
        text(write("u5", "clusterroles", &all, None)),
        "clusterroles.rbac.authorization.k8s.io \"t9\" is forbidden: user \"u5\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}; resolution errors: \
         [clusterroles.rbac.authorization.k8s.io \"gone\" not found]"
    );
    let in_namespace = text(write("u5", "roles", &all, None));
    assert!(
        in_namespace.ends_with(
            "; resolution errors: [[clusterroles.rbac.authorization.k8s.io \"gone\" not found, \
             roles.rbac.authorization.k8s.io \"lost\" not found]]"
        ),
        "{in_namespace}"
    );
}

#[rstest]
#[case(
    "u3",
    "ClusterRole/none",
    r#"rolebindings.rbac.authorization.k8s.io "none" not found"#
)]
#[case(
    "u3",
    "Role/none",
    r#"rolebindings.rbac.authorization.k8s.io "none" not found"#
)]
#[case(
    "u3",
    "ClusterRole/cluster-admin",
    "rolebindings.rbac.authorization.k8s.io \"new\" is forbidden: user \"u3\" \
     (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
     held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], \
     Verbs:[\"*\"]}"
)]
#[case("u3", "ClusterRole/t1", "allowed")]
#[case("u4", "ClusterRole/view", "allowed")]
#[case("u6", "ClusterRole/cluster-admin", "allowed")]
fn binding_a_role_requires_its_permissions(
    #[case] name: &str,
    #[case] role: &str,
    #[case] expected: &str,
) {
    let new = binding("a", "new", role, "somebody");
    assert_eq!(text(write(name, "rolebindings", &new, None)), expected);
}

#[test]
fn gc_fields_may_change_without_permissions() {
    let old = role("", "t2", rules());
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["a/b"]);
    assert_eq!(write("u3", "clusterroles", &new, Some(&old)), Ok(()));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(write("u3", "clusterroles", &new, Some(&old)).is_err());
}

#[rstest]
#[case(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), true)]
#[case(json!({"apiGroups": [""], "resources": ["*/log"], "verbs": ["get"]}), true)]
#[case(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"],
    "resourceNames": ["one"]}), false)]
#[case(json!({"apiGroups": ["apps"], "resources": ["pods/log"], "verbs": ["get"]}), false)]
fn wildcards_cover_their_resources(#[case] own: Value, #[case] covered: bool) {
    let cluster = Cluster::with([
        role("", "own", json!([own])),
        binding("", "own", "ClusterRole/own", "u"),
    ]);
    let granted = role(
        "a",
        "new",
        json!([{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]),
    );
    let result = check(
        &cluster,
        &Write {
            user: &user("u"),
            resource: "roles",
            namespace: "a",
            object: &granted,
            old: None,
        },
    );
    assert_eq!(result.is_ok(), covered);
}
