use serde_json::{Value, json};

use super::*;

const TIME: &str = "2024-01-01T00:00:00Z";

fn apply_as(
    shape: &Shape,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
) -> Result<Value, ApplyError> {
    let none = FieldSet::default();
    let context = Context {
        manager,
        api_version: "v1",
        subresource: "",
        time: TIME,
        reset_fields: &none,
    };
    apply(shape, live, applied, &context, false)
}

fn many_items(count: usize, value: &str) -> Value {
    let items: Vec<_> = (0..count)
        .map(|index| json!({"name": format!("n{index}"), "value": value}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Big", "metadata": {"name": "big"}, "items": items})
}

fn list_shape() -> Shape {
    Shape::from_openapi(
        &json!({"type": "object", "properties": {"items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
        }}}),
        |_| None,
    )
}

#[test]
fn long_lists_are_applied_and_pruned() {
    let shape = list_shape();
    let first = apply_as(&shape, None, &many_items(10_000, "a"), "one").expect("created");
    let second = apply_as(&shape, Some(&first), &many_items(5_000, "b"), "one").expect("changed");
    assert_eq!(second["items"].as_array().map(Vec::len), Some(5_000));
    assert_eq!(second["items"][4_999]["value"], "b");
}

#[test]
fn times_come_back_when_nothing_else_changed() {
    let live = json!({"metadata": {"managedFields": [{"manager": "a", "time": "2020-01-01T00:00:00Z"}]}, "x": 1});
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = TIME.into();
    let mut changed = new.clone();
    changed["x"] = 2.into();
    ignore_times(&live, &mut new);
    assert_eq!(new, live);
    let before = changed.clone();
    ignore_times(&live, &mut changed);
    assert_eq!(changed, before);
}

#[test]
fn unreadable_managers_of_the_live_object_refuse_an_apply() {
    let live = json!({"apiVersion": "v1", "metadata": {"managedFields": [{"operation": "Bad"}]}});
    let error = apply_as(
        &Shape::deduced(),
        Some(&live),
        &json!({"apiVersion": "v1"}),
        "one",
    )
    .expect_err("refused");
    assert_eq!(
        error,
        ApplyError::Internal(
            "failed to decode managed fields: operation must be `Apply` or `Update`".to_owned()
        )
    );
}

#[test]
fn an_update_that_does_not_fit_keeps_the_managers() {
    let live = json!({"metadata": {"uid": "u", "managedFields": [{
        "manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:items": {}},
    }]}});
    let none = FieldSet::default();
    let context = Context {
        manager: "b",
        api_version: "v1",
        subresource: "",
        time: TIME,
        reset_fields: &none,
    };
    let mut new = json!({"metadata": {"uid": "u"}, "bogus": 1});
    update(&list_shape(), Some(&live), &mut new, &context);
    assert_eq!(
        new["metadata"]["managedFields"],
        live["metadata"]["managedFields"]
    );
}
