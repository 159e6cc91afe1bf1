//! Impersonation.

use http::{HeaderMap, HeaderName, HeaderValue};
use rstest::rstest;
use serde_json::json;

use crate::auth::{
    Attributes, User, impersonate,
    test_cluster::{Cluster, binding, role},
};

fn cluster() -> Cluster {
    Cluster::with([
        role(
            "",
            "imp",
            json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"],
                "resourceNames": ["zoe"]}]),
        ),
        binding("", "imp", "ClusterRole/imp", "a/robot"),
        role(
            "",
            "narrow",
            json!([
                {"apiGroups": [""], "resources": ["nodes"],
                 "verbs": ["impersonate-on:user-info:list"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["users"],
                 "verbs": ["impersonate:user-info"]},
            ]),
        ),
        binding("", "narrow", "ClusterRole/narrow", "a/narrow"),
    ])
}

/// `name=value` pairs.
fn headers(list: &[&str]) -> HeaderMap {
    let pair = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap();
        let name = HeaderName::from_bytes(format!("impersonate-{name}").as_bytes()).unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    };
    list.iter().map(pair).collect()
}

fn list_nodes(sender: &User, list: &[&str]) -> Result<User, String> {
    let text = |error: crate::ApiError| error.message;
    let requested = impersonate::requested_user(&headers(list)).map_err(text)?;
    let request = Attributes::resource(sender, "list", "", "nodes");
    impersonate::impersonate(&cluster(), &request, &requested.unwrap()).map_err(text)
}

#[test]
fn no_headers_impersonate_nobody() {
    assert_eq!(impersonate::requested_user(&HeaderMap::new()), Ok(None));
}

#[rstest]
#[case(&["user=zoe"], "zoe", &["system:authenticated"])]
#[case(&["user=zoe", "group=a", "group=b"], "zoe", &["a", "b", "system:authenticated"])]
#[case(&["user=system:anonymous"], "system:anonymous", &["system:unauthenticated"])]
#[case(&["user=system:serviceaccount:x:y"], "system:serviceaccount:x:y",
    &["system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"])]
fn administrators_may_impersonate_anybody(
    #[case] list: &[&str],
    #[case] name: &str,
    #[case] groups: &[&str],
) {
    let user = list_nodes(&User::admin(), list).unwrap();
    assert_eq!(user.name, name);
    assert_eq!(user.groups, groups);
}

#[test]
fn keys_of_extras_are_unescaped() {
    let list = [
        "user=zoe",
        "uid=7",
        "extra-foo%2fbar=x",
        "extra-foo%2fbar=y",
    ];
    let user = list_nodes(&User::admin(), &list).unwrap();
    assert_eq!(user.uid, "7");
    assert_eq!(user.extra["foo/bar"], ["x", "y"]);
}

#[rstest]
#[case(&["group=g"], r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#)]
#[case(&["uid=u1"], r#"requested &user.DefaultInfo{Name:"", UID:"u1", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"#)]
#[case(&["extra-a=u1"], r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"u1"}}} without impersonating a user name"#)]
#[case(&["user=ann"], r#"nodes is forbidden: User "system:serviceaccount:a:robot" cannot impersonate-on:user-info:list resource "nodes" in API group "" at the cluster scope"#)]
#[case(&["user=system:serviceaccount:x:y"], r#"nodes is forbidden: User "system:serviceaccount:a:robot" cannot impersonate-on:serviceaccount:list resource "nodes" in API group "" at the cluster scope"#)]
#[case(&["user=system:node:y"], r#"nodes is forbidden: User "system:serviceaccount:a:robot" cannot impersonate-on:arbitrary-node:list resource "nodes" in API group "" at the cluster scope"#)]
#[case(&["user=zoe", "group=g"], r#"groups "g" is forbidden: User "system:serviceaccount:a:robot" cannot impersonate resource "groups" in API group "" at the cluster scope"#)]
#[case(&["user=zoe", "uid=u1"], r#"uids.authentication.k8s.io "u1" is forbidden: User "system:serviceaccount:a:robot" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope"#)]
#[case(&["user=zoe", "extra-a=u1"], r#"userextras.authentication.k8s.io "u1" is forbidden: User "system:serviceaccount:a:robot" cannot impersonate resource "userextras/a" in API group "authentication.k8s.io" at the cluster scope"#)]
fn refuses_like_kube_apiserver(#[case] list: &[&str], #[case] text: &str) {
    let robot = User::service_account("a", "robot", "1");
    assert_eq!(list_nodes(&robot, list), Err(text.to_owned()));
}

#[test]
fn permission_for_one_user_allows_that_user() {
    let robot = User::service_account("a", "robot", "1");
    assert_eq!(list_nodes(&robot, &["user=zoe"]).unwrap().name, "zoe");
}

#[test]
fn constrained_permission_suffices() {
    let constrained = User::service_account("a", "narrow", "1");
    assert_eq!(list_nodes(&constrained, &["user=ann"]).unwrap().name, "ann");
    assert!(list_nodes(&constrained, &["user=ann", "group=system:masters"]).is_err());
}
