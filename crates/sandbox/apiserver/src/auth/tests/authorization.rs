//! RBAC decisions and access reviews.

use rstest::rstest;
use serde_json::{Value, json};

use crate::auth::{
    Attributes,
    rbac::{self, Rule, bootstrap},
    review,
    test_cluster::{Cluster, binding, role, user},
};

fn cluster() -> Cluster {
    Cluster::with([
        role(
            "a",
            "pods",
            json!([
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"],
                 "verbs": ["get", "delete"]},
            ]),
        ),
        binding("a", "b1", "Role/pods", "u1"),
        binding("a", "b2", "Role/gone", "u2"),
        binding("a", "b3", "ClusterRole/cgone", "u2"),
        binding("a", "b4", "ClusterRole/view", "a/robot"),
        role(
            "",
            "urls",
            json!([{"nonResourceURLs": ["/x/*"], "verbs": ["get"]}]),
        ),
        binding("", "urls", "ClusterRole/urls", "u3"),
    ])
}

/// `user verb resource[.group][/subresource] [namespace] [name]` or `user verb /path`; `-` for no
/// namespace.
fn ask(request: &str) -> Result<(), String> {
    let mut words = request.split(' ');
    let user = user(words.next().unwrap());
    let verb = words.next().unwrap();
    let what = words.next().unwrap();
    let attributes = if what.starts_with('/') {
        Attributes::path(&user, verb, what)
    } else {
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Attributes {
            subresource,
            namespace: words.next().filter(|name| *name != "-").unwrap_or(""),
            name: words.next().unwrap_or(""),
            ..Attributes::resource(&user, verb, group, resource)
        }
    };
    rbac::require(&cluster(), &attributes).map_err(|error| error.message)
}

#[rstest]
#[case("u1 list pods a")]
#[case("u1 get pods/log a x")]
#[case("u1 get secrets a one")]
#[case("u1 patch deployments.apps/scale a x")]
#[case("u3 get /x/y")]
#[case("anyone get /version")]
#[case("anyone create selfsubjectaccessreviews.authorization.k8s.io")]
#[case("system:serviceaccount:a:robot list pods a")]
fn allows(#[case] request: &str) {
    assert_eq!(ask(request), Ok(()));
}

#[rstest]
#[case(
    "u1 list secrets a",
    r#"secrets is forbidden: User "u1" cannot list resource "secrets" in API group "" in the namespace "a""#
)]
#[case(
    "u1 get secrets a two",
    r#"secrets "two" is forbidden: User "u1" cannot get resource "secrets" in API group "" in the namespace "a""#
)]
#[case(
    "u1 get pods/exec a x",
    r#"pods "x" is forbidden: User "u1" cannot get resource "pods/exec" in API group "" in the namespace "a""#
)]
#[case(
    "u1 list pods b",
    r#"pods is forbidden: User "u1" cannot list resource "pods" in API group "" in the namespace "b""#
)]
#[case(
    "u1 get nodes - a",
    r#"nodes "a" is forbidden: User "u1" cannot get resource "nodes" in API group "" at the cluster scope"#
)]
#[case(
    "u1 list deployments.apps",
    r#"deployments.apps is forbidden: User "u1" cannot list resource "deployments" in API group "apps" at the cluster scope"#
)]
#[case(
    "u1 get /metrics",
    r#"forbidden: User "u1" cannot get path "/metrics""#
)]
#[case(
    "u1 post /foo<b>",
    r#"forbidden: User "u1" cannot post path "/foo&lt;b&gt;""#
)]
#[case(
    "u2 list services a",
    r#"services is forbidden: User "u2" cannot list resource "services" in API group "" in the namespace "a": rbac: RBAC: [role.rbac.authorization.k8s.io "gone" not found, clusterrole.rbac.authorization.k8s.io "cgone" not found]"#
)]
#[case(
    "system:serviceaccount:b:robot list pods a",
    r#"pods is forbidden: User "system:serviceaccount:b:robot" cannot list resource "pods" in API group "" in the namespace "a""#
)]
#[case(
    "system:serviceaccount:a:robot list secrets a",
    r#"secrets is forbidden: User "system:serviceaccount:a:robot" cannot list resource "secrets" in API group "" in the namespace "a""#
)]
fn refuses_like_kube_apiserver(#[case] request: &str, #[case] text: &str) {
    assert_eq!(ask(request), Err(text.to_owned()));
}

#[test]
fn refusal_details_name_the_object() {
    let user = user("u1");
    let attributes = Attributes {
        namespace: "a",
        name: "x",
        ..Attributes::resource(&user, "get", "apps", "deployments")
    };
    let status = attributes.forbidden("").to_status();
    assert_eq!(status["code"], 403);
    assert_eq!(status["reason"], "Forbidden");
    assert_eq!(
        status["details"],
        json!({"name": "x", "group": "apps", "kind": "deployments"})
    );
    let status = Attributes::path(&user, "get", "/x")
        .forbidden("")
        .to_status();
    assert_eq!(status["details"], json!({}));
}

#[test]
fn administrators_may_do_anything() {
    let admin = crate::auth::User::admin();
    let nothing = Cluster::with([]);
    let attributes = Attributes::resource(&admin, "any", "any", "any");
    assert_eq!(rbac::require(&nothing, &attributes), Ok(()));
    let attributes = Attributes::path(&admin, "get", "/any");
    assert_eq!(rbac::require(&nothing, &attributes), Ok(()));
}

#[test]
fn admin_includes_edit_and_edit_includes_view() {
    let objects = bootstrap::objects();
    let rules = |name: &str| {
        let role = objects.iter().find(|role| role["metadata"]["name"] == name);
        Rule::all_of(role.unwrap())
    };
    let (admin, edit, view) = (rules("admin"), rules("edit"), rules("view"));
    assert_eq!(view.len(), 12);
    assert_eq!(edit.len(), 15 + 12);
    assert_eq!(admin.len(), 15 + 12 + 2);
    assert!(view.iter().all(|rule| edit.contains(rule)));
    assert!(edit.iter().all(|rule| admin.contains(rule)));
}

#[test]
fn aggregated_role_collects_selected_rules() {
    let part = |name: &str, label: &str, verb: &str| {
        let mut part = role(
            "",
            name,
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]),
        );
        part["metadata"]["labels"] = json!({"part": label});
        part
    };
    let parts = [
        part("z", "one", "get"),
        part("b", "two", "list"),
        part("a", "two", "get"),
        part("other", "three", "delete"),
    ];
    let mut whole = role("", "whole", json!([]));
    assert_eq!(rbac::aggregate(&whole, &parts), None);
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [
        {"matchLabels": {"part": "one"}},
        {"matchExpressions": [{"key": "part", "operator": "In", "values": ["two"]}]},
    ]});
    let verbs: Vec<Vec<String>> = rbac::aggregate(&whole, &parts)
        .unwrap()
        .into_iter()
        .map(|rule| rule.verbs)
        .collect();
    assert_eq!(verbs, [["get"], ["list"]]);
}

fn status(answer: Result<Value, crate::ApiError>) -> Value {
    match answer {
        Ok(answer) => answer["status"].clone(),
        Err(error) => error.message.into(),
    }
}

#[rstest]
#[case("u1", json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "a"}}),
    json!({"allowed": true,
        "reason": r#"RBAC: allowed by RoleBinding "b1/a" of Role "pods" to User "u1""#}))]
#[case("u1", json!({"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}),
    json!({"allowed": false}))]
#[case("u1", json!({"nonResourceAttributes": {"path": "/version", "verb": "get"}}),
    json!({"allowed": true, "reason": r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#}))]
#[case("u2", json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "a"}}),
    json!({"allowed": false, "reason": r#"rbac: RBAC: [role.rbac.authorization.k8s.io "gone" not found, clusterrole.rbac.authorization.k8s.io "cgone" not found]"#}))]
#[case("u1", json!({}), json!(r#".authorization.k8s.io "" is invalid: spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"#))]
#[case("u1", json!({"resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}}),
    json!(r#".authorization.k8s.io "" is invalid: spec: Invalid value: {"Path":"/","Verb":""}: exactly one of nonResourceAttributes or resourceAttributes must be specified"#))]
fn self_subject_access_review_checks_the_sender(
    #[case] name: &str,
    #[case] spec: Value,
    #[case] expected: Value,
) {
    let answer = review::self_subject_access(&cluster(), &user(name), &json!({"spec": spec}));
    assert_eq!(status(answer), expected);
}

#[rstest]
#[case(json!({"user": "u1"}), json!(true))]
#[case(json!({"groups": ["system:masters"]}), json!(true))]
#[case(json!({"user": "u2"}), json!(false))]
fn subject_access_review_checks_another_user(#[case] mut spec: Value, #[case] allowed: Value) {
    spec["resourceAttributes"] = json!({"verb": "list", "resource": "pods", "namespace": "a"});
    let body = json!({"spec": spec});
    assert_eq!(
        status(review::subject_access(&cluster(), &body))["allowed"],
        allowed
    );
    let local = review::local_subject_access(&cluster(), "a", &body).unwrap();
    assert_eq!(local["status"]["allowed"], allowed);
    assert_eq!(local["metadata"]["namespace"], "a");
    assert_eq!(
        status(review::local_subject_access(&cluster(), "b", &body)),
        r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "a": must match metadata.namespace"#
    );
}

#[test]
fn self_subject_rules_review_lists_rules() {
    let body = json!({"spec": {"namespace": "a"}});
    let answer = review::self_subject_rules(&cluster(), &user("u2"), &body).unwrap();
    assert_eq!(
        answer["status"],
        json!({
            "resourceRules": [
                {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                 "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
                {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"],
                 "resources": ["selfsubjectreviews"]},
            ],
            "nonResourceRules": [
                {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*",
                    "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
                    "/version/"]},
                {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz",
                    "/version", "/version/"]},
            ],
            "incomplete": false,
            "evaluationError": "[role.rbac.authorization.k8s.io \"gone\" not found, \
                clusterrole.rbac.authorization.k8s.io \"cgone\" not found]",
        })
    );
    let none = review::self_subject_rules(&cluster(), &user("u2"), &json!({}));
    assert_eq!(status(none), "no namespace on request");
}
