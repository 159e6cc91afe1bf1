use serde_json::{Value, json};

use super::*;

fn set(value: &Value) -> FieldSet {
    FieldSet::from_value(value).expect("a field set")
}

#[test]
fn wire_form_marks_what_is_owned_itself() {
    let value =
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:replicas": {}}});
    let set = set(&value);
    assert!(set.contains(&Path::of_fields(["metadata", "labels"])));
    assert!(set.contains(&Path::of_fields(["metadata", "labels", "a"])));
    assert!(!set.contains(&Path::of_fields(["metadata"])));
    assert_eq!(set.to_value(), value);
}

#[test]
fn elements_of_every_kind_survive() {
    let value = json!({
        "f:a": {},
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
        "v:\"text\"": {}, "v:1.5": {}, "v:true": {}, "v:null": {}, "i:-3": {},
    });
    assert_eq!(set(&value).to_value(), value);
}

#[test]
fn numbers_are_one_element_however_written() {
    assert_eq!(set(&json!({"v:80.0": {}})), set(&json!({"v:80": {}})));
    assert_eq!(set(&json!({"v:80.0": {}})).to_value(), json!({"v:80": {}}));
}

#[test]
fn unknown_kinds_of_elements_are_passed_over() {
    assert_eq!(set(&json!({"f:a": {"x:y": {}}})), set(&json!({"f:a": {}})));
    assert!(set(&json!({"x:y": {"f:a": {}}})).is_empty());
}

#[test]
fn malformed_elements_are_refused() {
    for key in ["", "f", "fa", "v:", "v:1 2", "k:1", "k:{", "i:x", "\u{e9}:"] {
        assert!(FieldSet::from_value(&json!({ key: {} })).is_err(), "{key}");
    }
    assert!(FieldSet::from_value(&json!({"f:a": 1})).is_err());
    assert!(FieldSet::from_value(&json!([])).is_err());
}

#[test]
fn difference_keeps_parts_and_recursive_difference_does_not() {
    let all = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    let parent = set(&json!({"f:a": {}}));
    assert_eq!(
        all.difference(&parent),
        set(&json!({"f:a": {"f:b": {}}, "f:c": {}}))
    );
    assert_eq!(all.recursive_difference(&parent), set(&json!({"f:c": {}})));
    assert_eq!(all.intersection(&parent), parent);
    assert_eq!(parent.union(&all), all);
    assert!(all.difference(&all).is_empty());
}

#[test]
fn paths_come_before_their_parts_and_after_their_siblings() {
    let set = set(
        &json!({"f:a": {"f:x": {}}, "f:b": {}, "k:{\"name\":\"n\"}": {".": {}, "f:c": {}}, "v:1": {}}),
    );
    let paths: Vec<_> = set.paths().iter().map(ToString::to_string).collect();
    assert_eq!(
        paths,
        [".b", "[name=\"n\"]", "[=1]", ".a.x", "[name=\"n\"].c"]
    );
}
