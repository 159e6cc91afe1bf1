use rstest::rstest;
use serde_json::json;

use super::*;

fn shape() -> Shape {
    Shape::built_in(
        &json!({"type": "object", "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
                }},
            },
            "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        }}),
        |_| None,
    )
}

#[rstest]
#[case::items_merge_by_key(
    json!({"items": [{"name": "a", "x": 1}, {"name": "b"}]}),
    json!({"items": [{"name": "b", "y": 2}, {"name": "c"}]}),
    json!({"items": [{"name": "a", "x": 1}, {"name": "b", "y": 2}, {"name": "c"}]}))]
#[case::items_are_deleted(
    json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
    json!({"items": [{"name": "a", "$patch": "delete"}]}),
    json!({"items": [{"name": "b"}]}))]
#[case::all_items_are_replaced(
    json!({"items": [{"name": "a"}]}),
    json!({"items": [{"name": "z"}, {"$patch": "replace"}]}),
    json!({"items": [{"name": "z"}]}))]
#[case::order_is_set(
    json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
    json!({"$setElementOrder/items": [{"name": "c"}, {"name": "a"}]}),
    json!({"items": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}))]
#[case::retained_keys(
    json!({"items": [{"name": "a", "x": 1, "y": 2}]}),
    json!({"items": [{"name": "a", "$retainKeys": ["name", "y"]}]}),
    json!({"items": [{"name": "a", "y": 2}]}))]
#[case::words_merge(
    json!({"words": ["a", "b"]}), json!({"words": ["b", "c"]}), json!({"words": ["a", "b", "c"]}))]
#[case::words_are_deleted(
    json!({"words": ["a", "b"]}), json!({"$deleteFromPrimitiveList/words": ["a"]}), json!({"words": ["b"]}))]
#[case::nothing_to_delete_from(json!({}), json!({"$deleteFromPrimitiveList/words": ["a"]}), json!({}))]
#[case::plain_lists_are_replaced(json!({"plain": ["a"]}), json!({"plain": ["b"]}), json!({"plain": ["b"]}))]
#[case::maps_may_be_replaced(json!({"whole": {"a": 1}}), json!({"whole": {"b": 1}}), json!({"whole": {"b": 1}}))]
#[case::null_removes(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}}))]
#[case::null_in_what_is_new(json!({}), json!({"a": {"b": null, "c": [{"d": null}]}}), json!({"a": {"c": [{}]}}))]
#[case::directives_never_stay(json!({}), json!({"a": {"$patch": "delete"}, "b": [{"$patch": "replace"}, 1]}), json!({"b": [1]}))]
#[case::kinds_differ(json!({"a": [1]}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}}))]
fn patches_merge(#[case] document: Value, #[case] patch: Value, #[case] expected: Value) {
    assert_eq!(apply(&shape(), &document, &patch), Ok(expected));
}
