//! Robustness: no object and no schema panics, overflows the stack or runs forever.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rstest::rstest;
use schema::{Schema, crd};
use serde_json::{Value, json};

fn with_rule(rule: &str) -> Result<Schema, schema::CompileError> {
    Schema::compile(&json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string"}},
                "text": {"type": "string"},
            },
            "x-kubernetes-validations": [{"rule": rule}],
        }},
    }))
}

fn object(items: usize) -> Value {
    let list: Vec<String> = (0..items).map(|item| format!("item {item}")).collect();
    json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "spec": {"list": list, "text": "abcdefgh"}})
}

#[rstest]
#[case::nested_loops(
    "self.list.all(a, self.list.all(b, self.list.all(c, a != b || b != c || true)))"
)]
#[case::functions_in_loops(
    "self.list.all(a, size(self.list) > 0 && self.list.all(b, size(self.list) > 0))"
)]
#[case::lists_that_grow("self.list.map(a, self.list.map(b, self.list)).size() > 0")]
#[case::texts_that_double(
    "[self.text].map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a).map(a,a+a)[0] == 'x'"
)]
fn expensive_rules_are_aborted(#[case] rule: &str) {
    let findings = with_rule(rule)
        .unwrap()
        .admit(&object(1000), None, Vec::new())
        .violations;
    assert_eq!(
        findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!(
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
        )]
    );
}

#[test]
fn rules_on_long_lists_are_evaluated() {
    let schema = with_rule("self.list.all(a, a.startsWith('item') && size(a) < 20)").unwrap();
    assert_eq!(
        schema.admit(&object(20_000), None, Vec::new()).violations,
        []
    );
}

#[rstest]
#[case::a_long_sum(format!("1{} > 0", " + 1".repeat(100_000)))]
#[case::deep_parentheses(format!("{}true{}", "(".repeat(100_000), ")".repeat(100_000)))]
#[case::a_message("Foo{a: 1} == 1".to_owned())]
fn rules_that_cannot_be_evaluated_are_not_compiled(#[case] rule: String) {
    assert!(with_rule(&rule).is_err());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.a.b"},
        "spec": {
            "group": "a.b", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-validations": [{"rule": rule}],
            }}}],
        },
    });
    let mut definition = definition;
    crd::default(&mut definition);
    assert!(!crd::validate_create(&definition).is_empty());
}

#[rstest]
#[case(format!("1{} > 0", " + 1".repeat(240)))]
#[case(format!("{}true", "!".repeat(240)))]
#[case(format!("true{}", " || self.text == 'x'".repeat(180)))]
#[case(format!("{}true{}", "(".repeat(900), ")".repeat(900)))]
fn rules_as_deep_as_allowed_fit_on_the_stack(#[case] rule: String) {
    // Rules that the parser refuses never reach evaluation.
    if let Ok(schema) = with_rule(&rule) {
        schema.admit(&object(1), None, Vec::new());
    }
}

#[rstest]
#[case(json!(null))]
#[case(json!(5))]
#[case(json!([]))]
#[case(json!({}))]
#[case(json!({"metadata": [], "spec": 5, "status": "x"}))]
#[case(json!({"metadata": {"name": 1, "labels": 2, "ownerReferences": {"a": 1}}, "spec": {"versions": {}, "names": [], "group": 1}}))]
#[case(json!({"spec": {"versions": [1, null, {"schema": 1}, {"schema": {"openAPIV3Schema": {"properties": [], "items": 5, "allOf": {}, "anyOf": [1], "x-kubernetes-validations": [1]}}}]}}))]
fn arbitrary_objects_do_not_panic(#[case] value: Value) {
    let schema = with_rule("self.text == 'a'").unwrap();
    let mut object = value.clone();
    let _ = schema.decode(&mut object);
    schema.prune(&mut object);
    schema.default(&mut object);
    schema.validate(&object, Some(&value));
    schema.admit(&object, Some(&value), Vec::new());
    schema.admit_status(&object, &value, Vec::new());
    schema::metadata::validate_update(&object, &value);
    let mut definition = value.clone();
    crd::default(&mut definition);
    crd::validate_create(&definition);
    crd::validate_update(&definition, &value);
}
