//! Properties of all objects and patches.

use merge::managed::{self, Context};
use merge::{FieldSet, Shape, json_patch, merge_patch, strategic};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Small enough that objects often have the same fields.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[abc]",
        Just("items".to_owned()),
        Just("set".to_owned()),
        Just("name".to_owned()),
        Just("metadata".to_owned()),
        Just("labels".to_owned()),
        Just("managedFields".to_owned()),
        Just("$patch".to_owned()),
        Just("$setElementOrder/items".to_owned()),
        Just("$deleteFromPrimitiveList/set".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("f:a".to_owned()),
        Just("k:{\"name\":1}".to_owned()),
        Just("v:1.0".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ab]|replace|delete|/items/0|-1".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An object that fits [`shape`].
fn object() -> impl Strategy<Value = Value> {
    let item = ("[abc]", prop::option::of(0i64..3)).prop_map(|(name, value)| {
        (
            name.clone(),
            value.map_or(
                json!({"name": name}),
                |value| json!({"name": name, "value": value}),
            ),
        )
    });
    let items = prop::collection::btree_map("[abc]", item, 0..3).prop_map(|items| {
        items
            .into_values()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_values()
            .collect::<Vec<_>>()
    });
    let set = prop::collection::btree_set("[abc]", 0..3);
    let labels = prop::collection::btree_map("[abc]", "[xy]", 0..3);
    (items, set, labels, prop::option::of(0i64..2)).prop_map(|(items, set, labels, count)| {
        let mut object =
            json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "thing"}});
        if !items.is_empty() {
            object["items"] = items.into();
        }
        if !set.is_empty() {
            object["set"] = set.into_iter().collect();
        }
        if !labels.is_empty() {
            object["metadata"]["labels"] = json!(labels);
        }
        if let Some(count) = count {
            object["spec"] = json!({ "count": count });
        }
        object
    })
}

fn shape() -> Shape {
    Shape::built_in(
        &json!({"type": "object", "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}},
            },
            "set": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
                "items": {"type": "string"},
            },
            "spec": {"type": "object", "properties": {"count": {"type": "integer"}}},
        }}),
        |_| None,
    )
}

fn apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    time: &str,
    force: bool,
) -> Result<Value, managed::ApplyError> {
    let none = FieldSet::default();
    let context = Context {
        manager,
        api_version: "v1",
        subresource: "",
        time,
        reset_fields: &none,
    };
    managed::apply(&shape(), live, applied, &context, force)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn to_apply_twice_is_to_apply_once(first in object(), second in object()) {
        let live = apply(None, &first, "one", "2024-01-01T00:00:00Z", false).expect("fits");
        let live = apply(Some(&live), &second, "one", "2024-01-02T00:00:00Z", false).expect("no conflicts with oneself");
        let again = apply(Some(&live), &second, "one", "2024-01-03T00:00:00Z", false).expect("no conflicts");
        prop_assert_eq!(again, live);
    }

    #[test]
    fn what_one_manager_applies_is_what_there_is(first in object(), second in object()) {
        let live = apply(None, &first, "one", "2024-01-01T00:00:00Z", false).expect("fits");
        let mut live = apply(Some(&live), &second, "one", "2024-01-02T00:00:00Z", false).expect("no conflicts");
        let fresh = apply(None, &second, "one", "2024-01-02T00:00:00Z", false).expect("fits");
        live["metadata"]["managedFields"].take();
        let mut expected = fresh;
        expected["metadata"]["managedFields"].take();
        for object in [&mut live, &mut expected] {
            for list in ["items", "set"] {
                if let Some(list) = object[list].as_array_mut() {
                    list.sort_by_key(ToString::to_string);
                }
            }
        }
        prop_assert_eq!(live, expected);
    }

    #[test]
    fn managers_that_force_or_agree_leave_nothing_to_conflict(first in object(), second in object()) {
        let live = apply(None, &first, "one", "2024-01-01T00:00:00Z", false).expect("fits");
        let live = apply(Some(&live), &second, "two", "2024-01-02T00:00:00Z", true).expect("forced");
        let again = apply(Some(&live), &second, "two", "2024-01-03T00:00:00Z", false).expect("owned");
        prop_assert_eq!(again, live);
    }

    #[test]
    fn disjoint_managers_keep_their_fields(count in 0i64..5, labels in prop::collection::btree_map("[abc]", "[xy]", 1..3)) {
        let base = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "thing"}});
        let (mut one, mut two) = (base.clone(), base);
        one["spec"] = json!({ "count": count });
        two["metadata"]["labels"] = json!(labels);
        let live = apply(None, &one, "one", "2024-01-01T00:00:00Z", false).expect("fits");
        let live = apply(Some(&live), &two, "two", "2024-01-02T00:00:00Z", false).expect("disjoint");
        prop_assert_eq!(&live["spec"], &one["spec"]);
        prop_assert_eq!(&live["metadata"]["labels"], &two["metadata"]["labels"]);
        prop_assert_eq!(live["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
        let gone = apply(Some(&live), &json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "thing"}}), "one", "2024-01-03T00:00:00Z", false).expect("own");
        prop_assert_eq!(gone.get("spec"), None);
        prop_assert_eq!(&gone["metadata"]["labels"], &two["metadata"]["labels"]);
    }

    #[test]
    fn a_field_set_survives_its_json_form(value in value()) {
        if let Ok(set) = FieldSet::from_value(&value) {
            let written = set.to_value();
            prop_assert_eq!(FieldSet::from_value(&written).expect("our own form"), set);
        }
    }

    #[test]
    fn nothing_panics(left in value(), right in value(), new in value()) {
        let none = FieldSet::default();
        let context = Context { manager: "m", api_version: "v1", subresource: "", time: "now", reset_fields: &none };
        for shape in [shape(), Shape::deduced(), Shape::from_openapi(&left, |_| Some(right.clone()))] {
            let mut applied = right.clone();
            if let Some(applied) = applied.as_object_mut() {
                applied.insert("apiVersion".into(), "v1".into());
            }
            let _ = managed::apply(&shape, Some(&left), &applied, &context, true);
            let _ = managed::apply(&shape, None, &applied, &context, false);
            let mut updated = new.clone();
            managed::update(&shape, Some(&left), &mut updated, &context);
            managed::ignore_times(&left, &mut updated);
            let _ = strategic::apply(&shape, &left, &right);
            let mut structured = new.clone();
            shape.add_structures(&mut structured);
        }
        let mut document = left.clone();
        merge_patch::apply(&mut document, &right);
        let _ = json_patch::apply(&mut document, &json!([{"op": "add", "path": "/items/0", "value": new}, right]));
    }
}
