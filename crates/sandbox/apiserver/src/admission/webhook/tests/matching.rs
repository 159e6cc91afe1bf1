//! Webhook matching.

use rstest::rstest;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, TestRequest, configuration, hook};
use crate::{
    ApiError,
    admission::webhook::{Operation, Request, Resource, matching::invocations},
};

const DEPLOYMENTS: Resource<'static> = Resource {
    group: "apps",
    version: "v1",
    resource: "deployments",
    kind: "Deployment",
};

fn matches(request: &Request<'_>, more: &Value) -> Result<bool, ApiError> {
    let configuration = configuration("c", &[hook("h", more)]);
    invocations([configuration.as_ref()], request).map(|invocations| !invocations.is_empty())
}

fn with_rule(more: &Value) -> Value {
    let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments"]});
    for (field, value) in more.as_object().into_iter().flatten() {
        rule[field] = value.clone();
    }
    json!({"rules": [rule]})
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"operations": ["UPDATE", "DELETE"]}), false)]
#[case(json!({"operations": ["*"]}), true)]
#[case(json!({"apiGroups": ["*"]}), true)]
#[case(json!({"apiGroups": [""]}), false)]
#[case(json!({"apiVersions": ["v2"]}), false)]
#[case(json!({"apiVersions": ["*"]}), true)]
#[case(json!({"resources": ["*"]}), true)]
#[case(json!({"resources": ["*/*"]}), true)]
#[case(json!({"resources": ["deployments/*"]}), true)]
#[case(json!({"resources": ["deployments/scale"]}), false)]
#[case(json!({"scope": "Namespaced"}), true)]
#[case(json!({"scope": "Cluster"}), false)]
#[case(json!({"scope": "*"}), true)]
fn rules_match_requests(#[case] rule: Value, #[case] expected: bool) {
    let fixture = TestRequest::default();
    let request = Request {
        resource: DEPLOYMENTS,
        ..fixture.request()
    };
    assert_eq!(matches(&request, &with_rule(&rule)), Ok(expected));
}

#[rstest]
#[case("deployments", false)]
#[case("deployments/scale", true)]
#[case("*/scale", true)]
#[case("deployments/*", true)]
#[case("*", false)]
fn subresources_must_be_named(#[case] resource: &str, #[case] expected: bool) {
    let fixture = TestRequest::default();
    let request = Request {
        resource: DEPLOYMENTS,
        subresource: "scale",
        ..fixture.request()
    };
    let rule = with_rule(&json!({"resources": [resource]}));
    assert_eq!(matches(&request, &rule), Ok(expected));
}

#[test]
fn namespaces_are_cluster_scoped() {
    let fixture = TestRequest::default();
    let request = Request {
        resource: Resource {
            resource: "namespaces",
            kind: "Namespace",
            ..CONFIG_MAPS
        },
        ..fixture.request()
    };
    let rule = |scope: &str| {
        with_rule(&json!({"apiGroups": [""], "resources": ["namespaces"], "scope": scope}))
    };
    assert_eq!(matches(&request, &rule("Cluster")), Ok(true));
    assert_eq!(matches(&request, &rule("Namespaced")), Ok(false));
}

#[test]
fn equivalent_versions_match_unless_the_policy_is_exact() {
    let fixture = TestRequest::default();
    let other = Resource {
        version: "v1beta1",
        ..DEPLOYMENTS
    };
    let request = Request {
        resource: DEPLOYMENTS,
        equivalents: &[DEPLOYMENTS, other],
        ..fixture.request()
    };
    let mut hook_of_other = with_rule(&json!({"apiVersions": ["v1beta1"]}));
    let configuration = configuration("c", &[hook("h", &hook_of_other)]);
    let invocations = invocations([configuration.as_ref()], &request).unwrap();
    assert_eq!(invocations[0].resource, other);
    hook_of_other["matchPolicy"] = "Exact".into();
    assert_eq!(matches(&request, &hook_of_other), Ok(false));
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"matchLabels": {"team": "a"}}), true)]
#[case(json!({"matchLabels": {"team": "b"}}), false)]
#[case(json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}), true)]
#[case(json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}), false)]
#[case(json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["a"]}]}), true)]
#[case(json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}), true)]
#[case(json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), false)]
fn selectors_match_labels(#[case] selector: Value, #[case] expected: bool) {
    let mut fixture = TestRequest {
        labels: json!({"team": "a"}),
        ..TestRequest::default()
    };
    let more = json!({"namespaceSelector": selector});
    assert_eq!(matches(&fixture.request(), &more), Ok(expected));

    let more = json!({"objectSelector": selector});
    fixture.object.as_mut().unwrap()["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(matches(&fixture.request(), &more), Ok(expected));
    fixture.old_object = fixture.object.take();
    assert_eq!(matches(&fixture.request(), &more), Ok(expected));
}

#[test]
fn missing_namespace_is_an_error_for_namespace_selectors() {
    let fixture = TestRequest::default();
    let request = Request {
        namespace_labels: None,
        ..fixture.request()
    };
    assert_eq!(matches(&request, &json!({})), Ok(true));
    let mut selective = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
    assert_eq!(
        matches(&request, &selective).unwrap_err().message,
        r#"namespaces "a" not found"#
    );
    selective["rules"] = json!([]);
    assert_eq!(matches(&request, &selective), Ok(false));
}

#[test]
fn namespace_selector_uses_the_new_labels_of_a_written_namespace() {
    let mut fixture = TestRequest {
        labels: json!({"team": "old"}),
        ..TestRequest::default()
    };
    fixture.object.as_mut().unwrap()["metadata"]["labels"] = json!({"team": "new"});
    let request = Request {
        resource: Resource {
            resource: "namespaces",
            kind: "Namespace",
            ..CONFIG_MAPS
        },
        ..fixture.request()
    };
    let more = json!({
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
            "resources": ["*"]}],
        "namespaceSelector": {"matchLabels": {"team": "new"}},
    });
    assert_eq!(matches(&request, &more), Ok(true));
    let deleted = Request {
        operation: Operation::Delete,
        ..request
    };
    assert_eq!(matches(&deleted, &more), Ok(false));
}

#[test]
fn namespace_selectors_ignore_cluster_scoped_objects() {
    let fixture = TestRequest::default();
    let request = Request {
        namespace: "",
        namespace_labels: None,
        ..fixture.request()
    };
    let more = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
    assert_eq!(matches(&request, &more), Ok(true));
}

#[test]
fn webhook_configurations_are_exempt() {
    let fixture = TestRequest::default();
    let request = Request {
        resource: Resource {
            group: "admissionregistration.k8s.io",
            version: "v1",
            resource: "validatingwebhookconfigurations",
            kind: "ValidatingWebhookConfiguration",
        },
        ..fixture.request()
    };
    let more = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*"]}]});
    assert_eq!(matches(&request, &more), Ok(false));
}

#[test]
fn webhooks_are_ordered_by_configuration_name_and_position() {
    let configurations = [
        configuration("b", &[hook("b0", &json!({})), hook("b1", &json!({}))]),
        configuration("a", &[hook("z", &json!({}))]),
    ];
    let fixture = TestRequest::default();
    let request = fixture.request();
    let invocations = invocations(configurations.iter().map(AsRef::as_ref), &request).unwrap();
    let names: Vec<&str> = invocations.iter().map(|one| one.hook.name()).collect();
    assert_eq!(names, ["z", "b0", "b1"]);
}

fn conditions(list: &[&str]) -> Value {
    let list: Vec<Value> = list
        .iter()
        .map(|expression| json!({"name": "c", "expression": expression}))
        .collect();
    json!({"matchConditions": list})
}

#[rstest]
#[case(&["object.metadata.name == 'cm'"], true)]
#[case(&["object.metadata.name == 'other'"], false)]
#[case(&["object.metadata.namespace == 'a'", "request.namespace == 'a'"], true)]
#[case(&["request.userInfo.username == 'kubernetes-admin'"], true)]
#[case(&["'system:masters' in request.userInfo.groups"], true)]
#[case(&["request.operation == 'CREATE' && request.resource.resource == 'configmaps'"], true)]
#[case(&["oldObject == null"], true)]
#[case(&["request.userInfo.groups.exists(g, [g].exists(h, h == 'system:masters'))"], true)]
#[case(&["!has(object.metadata.labels)"], true)]
#[case(&["object.metadata.nope == 'x'", "false"], false)]
fn match_conditions_decide(#[case] list: &[&str], #[case] expected: bool) {
    let fixture = TestRequest::default();
    assert_eq!(matches(&fixture.request(), &conditions(list)), Ok(expected));
}

#[rstest]
#[case("object.metadata.foo == 'other'", "no such key: foo")]
#[case("object.metadata.labels['x'] == 'other'", "no such key: labels")]
#[case(
    "int(object.metadata.name) == 1",
    "type conversion error from 'string' to 'int'"
)]
fn failed_conditions_follow_the_failure_policy(#[case] expression: &str, #[case] why: &str) {
    let fixture = TestRequest::default();
    let mut more = conditions(&[expression]);
    assert_eq!(
        matches(&fixture.request(), &more).unwrap_err().message,
        format!(
            "configmaps \"cm\" is forbidden: expression '{expression}' resulted in error: {why}"
        )
    );
    more["failurePolicy"] = "Ignore".into();
    assert_eq!(matches(&fixture.request(), &more), Ok(false));
}

#[rstest]
#[case("(", "1", ")", 64)]
#[case("size([", "1", "])", 32)]
#[case("{1:", "1", "}", 64)]
#[case("[1].map(x,", "1", ")", 64)]
#[case("!", "true", "", 2044)]
#[case("-", "1", "", 2047)]
#[case("true?1:", "1", "", 292)]
#[case("a.", "a", "", 1023)]
#[case("1+", "1", "", 1023)]
#[case("1+(", "1+1+1+1+1+1+1+1+1+1+1+1+1", ")", 64)]
#[case("(", "1", ")", 1000)]
#[case("(", "", "", 5000)]
fn no_expression_is_too_deep(
    #[case] open: &str,
    #[case] middle: &str,
    #[case] close: &str,
    #[case] depth: usize,
) {
    let expression = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
    let fixture = TestRequest::default();
    // None of them evaluates to a bool.
    let result = matches(&fixture.request(), &conditions(&[&expression]));
    assert!(result.is_err() || open == "!");
}
