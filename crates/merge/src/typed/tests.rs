use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fields::FieldSet;
use crate::shape::Shape;

fn shape() -> Shape {
    let keyed = |items: Value| {
        json!({
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": items,
        })
    };
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}});
    Shape::from_openapi(
        &json!({"type": "object", "properties": {
            "list": keyed(item),
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "struct": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "any": {},
        }}),
        |_| None,
    )
}

fn set(value: &Value) -> FieldSet {
    FieldSet::from_value(value).expect("a field set")
}

#[rstest]
#[case::the_live_order_stays(&["a", "b", "c"], &["a", "c"], &["a", "b", "c"])]
#[case::the_applied_order_wins(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"])]
#[case::new_items_stand_where_applied(&["a", "c"], &["a", "b", "c"], &["a", "b", "c"])]
#[case::new_items_at_the_end(&["a", "b"], &["b", "n"], &["a", "b", "n"])]
#[case::nothing_shared(&["a", "b"], &["x", "y"], &["a", "b", "x", "y"])]
#[case::live_only_items_stay_where_they_are(&["x", "a", "y", "b"], &["b", "a"], &["x", "y", "b", "a"])]
fn lists_keep_an_order(#[case] live: &[&str], #[case] applied: &[&str], #[case] expected: &[&str]) {
    let merged = merge(
        &shape(),
        &json!({ "set": live }),
        &json!({ "set": applied }),
    );
    assert_eq!(merged, json!({ "set": expected }));
    let keyed = |names: &[&str]| json!({"list": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>()});
    assert_eq!(
        merge(&shape(), &keyed(live), &keyed(applied)),
        keyed(expected)
    );
}

#[test]
fn duplicates_of_the_live_object_are_replaced_by_what_is_applied() {
    let live =
        json!({"list": [{"name": "a", "value": 1}, {"name": "b"}, {"name": "a", "value": 2}]});
    let merged = merge(&shape(), &live, &json!({"list": [{"name": "a"}]}));
    assert_eq!(merged, json!({"list": [{"name": "a"}, {"name": "b"}]}));
}

#[test]
fn null_does_not_empty_a_map() {
    let live = json!({"struct": {"a": 1}, "any": 5});
    assert_eq!(
        merge(&shape(), &live, &json!({"struct": null, "any": null})),
        json!({"struct": {"a": 1}, "any": null})
    );
}

#[test]
fn comparison_has_added_modified_and_removed_fields() {
    let left =
        json!({"struct": {"a": 1, "b": 1}, "map": {"x": "1"}, "list": [{"name": "a", "value": 1}]});
    let right = json!({"struct": {"a": 2}, "set": ["s"], "list": [{"name": "a", "value": 1}, {"name": "b"}]});
    let comparison = compare(&shape(), &left, &right);
    assert_eq!(comparison.modified, set(&json!({"f:struct": {"f:a": {}}})));
    assert_eq!(
        comparison.removed,
        set(&json!({"f:struct": {"f:b": {}}, "f:map": {".": {}, "f:x": {}}}))
    );
    assert_eq!(
        comparison.added,
        set(&json!({
            "f:set": {".": {}, "v:\"s\"": {}},
            "f:list": {"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}},
        }))
    );
}

#[test]
fn a_change_of_kind_modifies_the_whole_and_adds_the_parts() {
    let comparison = compare(&shape(), &json!({"any": 1}), &json!({"any": {"a": 1}}));
    assert_eq!(comparison.modified, set(&json!({"f:any": {}})));
    assert_eq!(comparison.added, set(&json!({"f:any": {"f:a": {}}})));
}

#[test]
fn duplicates_change_together() {
    let one = json!({"set": ["a"]});
    let two = json!({"set": ["a", "a"]});
    let item = set(&json!({"f:set": {"v:\"a\"": {}}}));
    assert_eq!(compare(&shape(), &one, &two).added, item);
    assert_eq!(compare(&shape(), &two, &one).removed, item);
    assert_eq!(
        compare(&shape(), &two, &json!({"set": ["a", "a", "a"]})).modified,
        item
    );
    assert_eq!(to_field_set(&shape(), &two), item);
}

#[test]
fn a_number_is_the_same_however_written() {
    let comparison = compare(
        &shape(),
        &json!({"struct": {"a": 1}}),
        &json!({"struct": {"a": 1.0}}),
    );
    assert_eq!(comparison, Comparison::default());
}

#[test]
fn removal_leaves_null_where_the_last_part_goes() {
    let value = json!({"map": {"x": "1"}, "set": ["a", "b"], "list": [{"name": "n", "value": 1}]});
    let gone = set(&json!({
        "f:map": {"f:x": {}}, "f:set": {"v:\"a\"": {}}, "f:list": {"k:{\"name\":\"n\"}": {"f:value": {}}},
    }));
    assert_eq!(
        remove_items(&shape(), &value, &gone),
        json!({"map": null, "set": ["b"], "list": [{"name": "n"}]})
    );
}

#[test]
fn owners_of_parts_own_what_became_atomic() {
    let shape = Shape::from_openapi(
        &json!({"type": "object", "properties": {
            "list": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"}},
            "map": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        }}),
        |_| None,
    );
    let mut before = set(
        &json!({"f:list": {"k:{\"name\":\"n\"}": {".": {}, "f:x": {}}}, "f:map": {"f:a": {}}, "f:gone": {}}),
    );
    reconcile(&shape, &mut before);
    assert_eq!(
        before,
        set(&json!({"f:list": {}, "f:map": {}, "f:gone": {}}))
    );
}

#[test]
fn several_errors_are_listed() {
    let value = json!({"struct": {"a": "x"}, "map": {"k": 1}, "bogus": 1});
    let errors = validate(&shape(), &value, Duplicates::Refused).expect_err("errors");
    assert_eq!(errors.to_string(), ".bogus: field not declared in schema");
    let value = json!({"struct": {"a": "x"}, "map": {"k": 1}});
    let errors = validate(&shape(), &value, Duplicates::Refused).expect_err("errors");
    assert_eq!(
        errors.to_string(),
        "errors:\n  .map.k: expected string, got &value.valueUnstructured{Value:1}\n  \
         .struct.a: expected numeric (int or float), got string"
    );
}
