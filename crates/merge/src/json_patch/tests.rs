use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::add_a_field(json!({"op": "add", "path": "/a/b", "value": 1}), json!({"a": {"b": 1}, "l": [1, 2]}))]
#[case::add_before_an_item(json!({"op": "add", "path": "/l/1", "value": 9}), json!({"a": {}, "l": [1, 9, 2]}))]
#[case::add_from_the_end(json!({"op": "add", "path": "/l/-1", "value": 9}), json!({"a": {}, "l": [1, 2, 9]}))]
#[case::append(json!({"op": "add", "path": "/l/-", "value": 9}), json!({"a": {}, "l": [1, 2, 9]}))]
#[case::without_a_value(json!({"op": "add", "path": "/n"}), json!({"a": {}, "l": [1, 2], "n": null}))]
#[case::replace_what_is_not_there(json!({"op": "replace", "path": "/n", "value": 1}), json!({"a": {}, "l": [1, 2], "n": 1}))]
#[case::copy_what_is_not_there(json!({"op": "copy", "from": "/x", "path": "/n"}), json!({"a": {}, "l": [1, 2], "n": null}))]
#[case::move_an_item(json!({"op": "move", "from": "/l/0", "path": "/a/x"}), json!({"a": {"x": 1}, "l": [2]}))]
#[case::escapes(json!({"op": "add", "path": "/a/x~1y~0z~01", "value": 1}), json!({"a": {"x/y~z~1": 1}, "l": [1, 2]}))]
#[case::the_whole(json!({"op": "replace", "path": "", "value": {"b": 1}}), json!({"b": 1}))]
fn operations_change_the_document(#[case] operation: Value, #[case] expected: Value) {
    let mut document = json!({"a": {}, "l": [1, 2]});
    apply(&mut document, &json!([operation])).expect("applies");
    assert_eq!(document, expected);
}

#[test]
fn a_failed_patch_changes_nothing() {
    let mut document = json!({"a": 1});
    let patch = json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/a", "value": 1}]);
    let error = apply(&mut document, &patch).expect_err("fails");
    assert_eq!(
        error,
        PatchError::Unprocessable("testing value /a failed: test failed".to_owned())
    );
    assert_eq!(document, json!({"a": 1}));
}

#[test]
fn patches_are_bounded() {
    let many = vec![json!({"op": "test", "path": "/a", "value": 1}); MAX_OPERATIONS + 1];
    let error = apply(&mut json!({"a": 1}), &Value::Array(many)).expect_err("too many");
    assert_eq!(error.code(), 413);
    let big = "x".repeat(1 << 20);
    let copies: Vec<_> = (0..4)
        .map(|index| json!({"op": "copy", "from": "/big", "path": format!("/{index}")}))
        .collect();
    let error = apply(&mut json!({ "big": big }), &Value::Array(copies)).expect_err("too big");
    assert_eq!(error.code(), 422);
}

#[test]
fn indices_beyond_any_list_are_refused() {
    for index in [
        "3",
        "-4",
        "99999999999999999999",
        "x",
        "",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        for op in ["add", "remove", "replace", "test", "copy", "move"] {
            let path = format!("/l/{index}");
            let operation = json!({"op": op, "path": path, "from": path, "value": 1});
            assert!(
                apply(&mut json!({"l": [1, 2]}), &json!([operation])).is_err(),
                "{op} {index}"
            );
        }
    }
}
