//! Tests of the comparison of objects.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn containers(value: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": value}}}})
}

#[rstest]
#[case::more_is_fine("Service", json!({"a": 1, "b": 2}), json!({"a": 1}), &[])]
#[case::missing("Service", json!({}), json!({"a": {"b": 1}}), &["a"])]
#[case::other("Service", json!({"a": {"b": 2}}), json!({"a": {"b": 1}}), &["a.b"])]
#[case::nothing("Service", json!({}), json!({"a": null, "b": {}, "c": [], "d": false, "e": 0, "f": ""}), &[])]
#[case::nothing_is_wanted("Service", json!({"a": true, "b": [1]}), json!({"a": false, "b": []}), &["a", "b"])]
#[case::label("Service", json!({"l": {}}), json!({"l": {"x.io/y": "1"}}), &["l[x.io/y]"])]
#[case::numbers("Service", json!({"a": 1}), json!({"a": 1.0}), &[])]
#[case::string_or_number("Service", json!({"a": "1"}), json!({"a": 1}), &["a"])]
#[case::service_selector(
    "Service",
    json!({"spec": {"selector": {"a": "1", "b": "2"}}}),
    json!({"spec": {"selector": {"a": "1"}}}),
    &["spec.selector.b"]
)]
#[case::service_ports(
    "Service",
    json!({"spec": {"ports": [{"port": 1, "protocol": "TCP", "nodePort": 9}, {"port": 443, "protocol": "TCP"}]}}),
    json!({"spec": {"ports": [{"port": 443}]}}),
    &[]
)]
#[case::containers_by_name(
    "Deployment",
    containers(&json!([{"name": "added"}, {"name": "api", "image": "i:2"}])),
    containers(&json!([{"name": "api", "image": "i:1"}])),
    &["spec.template.spec.containers[api].image"]
)]
#[case::quantities(
    "Deployment",
    containers(&json!([{"name": "api", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}])),
    containers(&json!([{"name": "api", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}])),
    &[]
)]
#[case::another_quantity(
    "Deployment",
    containers(&json!([{"name": "api", "resources": {"limits": {"cpu": "1"}}}])),
    containers(&json!([{"name": "api", "resources": {"limits": {"cpu": 2}}}])),
    &["spec.template.spec.containers[api].resources.limits.cpu"]
)]
#[case::arguments_are_exact(
    "DaemonSet",
    containers(&json!([{"name": "api", "args": ["-v", "2", "--more"]}])),
    containers(&json!([{"name": "api", "args": ["-v", "2"]}])),
    &["spec.template.spec.containers[api].args"]
)]
#[case::empty_dir(
    "DaemonSet",
    json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    &["spec.volumes[v].emptyDir"]
)]
#[case::defaults_inside_lists(
    "ValidatingWebhookConfiguration",
    json!({"webhooks": [{"name": "a", "rules": [{"resources": ["vms"], "scope": "*"}], "timeoutSeconds": 10}]}),
    json!({"webhooks": [{"name": "a", "rules": [{"resources": ["vms"]}]}]}),
    &[]
)]
#[case::rules_of_roles_are_exact(
    "ClusterRole",
    json!({"rules": [{"verbs": ["get"], "resourceNames": ["a"]}]}),
    json!({"rules": [{"verbs": ["get"]}]}),
    &["rules"]
)]
#[case::subjects_have_no_order(
    "ClusterRoleBinding",
    json!({"subjects": [{"kind": "User", "name": "b", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount", "name": "a"}]}),
    json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}, {"kind": "User", "name": "b"}]}),
    &[]
)]
#[case::more_subjects(
    "ClusterRoleBinding",
    json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}, {"kind": "User", "name": "b"}]}),
    json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
    &["subjects"]
)]
#[case::status_subresource(
    "CustomResourceDefinition",
    json!({"spec": {"versions": [{"name": "v1", "subresources": {}}]}}),
    json!({"spec": {"versions": [{"name": "v1", "subresources": {"status": {}}}]}}),
    &["spec.versions[0].subresources.status"]
)]
#[case::fewer_items("X", json!({"a": [{"b": 1}]}), json!({"a": [{"b": 1}, {"b": 2}]}), &["a"])]
fn only_wanted_fields_are_compared(
    #[case] kind: &str,
    #[case] live: Value,
    #[case] wanted: Value,
    #[case] expected: &[&str],
) {
    let found = differences_of(kind, &live, &wanted);
    let paths: Vec<_> = found.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, expected);
}

#[test]
fn the_data_of_a_secret_is_hidden() {
    let secret = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"},
            "data": {"key": text},
        })
    };
    let live = Live::new("", "v1", "Secret", secret("b2xk")).unwrap();
    let wanted = Object::new(&secret("bmV3")).unwrap();
    let found = format!("{:?}", differences(&live, &wanted));
    assert!(found.contains("data.key") && !found.contains("b2xk") && !found.contains("bmV3"));
}
