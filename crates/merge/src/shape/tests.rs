use serde_json::json;

use super::*;
use crate::typed::{Duplicates, to_field_set, validate};

fn custom(schema: &Value) -> Shape {
    Shape::from_openapi(schema, |_| None)
}

fn fields(shape: &Shape, value: &Value) -> Value {
    to_field_set(shape, value).to_value()
}

#[test]
fn what_nobody_described_merges_maps_and_replaces_lists() {
    let value = json!({"a": {"b": [{"name": "x"}]}});
    assert_eq!(
        fields(&Shape::deduced(), &value),
        json!({"f:a": {".": {}, "f:b": {}}})
    );
}

#[test]
fn metadata_has_its_shape_whatever_the_schema_says() {
    let shape = custom(&json!({"type": "object", "properties": {"metadata": {"type": "object"}}}));
    let value =
        json!({"metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "u", "name": "n"}]}});
    assert_eq!(
        fields(&shape, &value),
        json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}, "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}}})
    );
    assert!(
        validate(
            &shape,
            &json!({"metadata": {"bogus": 1}}),
            Duplicates::Refused
        )
        .is_err()
    );
}

#[test]
fn unknown_fields_are_preserved_all_the_way_down() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }},
    });
    let shape = custom(&schema);
    assert!(
        validate(
            &shape,
            &json!({"spec": {"inner": {"b": 1}}}),
            Duplicates::Refused
        )
        .is_ok()
    );
    assert!(validate(&shape, &json!({"other": 1}), Duplicates::Refused).is_err());
}

#[test]
fn types_may_hold_themselves() {
    let tree = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"$ref": "#/components/schemas/Tree"},
            },
        },
    });
    let shape = Shape::from_openapi(&json!({"$ref": "#/components/schemas/Tree"}), |reference| {
        (reference == "#/components/schemas/Tree").then(|| tree.clone())
    });
    let value = json!({"children": [{"name": "a", "children": [{"name": "b"}]}]});
    assert_eq!(
        fields(&shape, &value),
        json!({"f:children": {"k:{\"name\":\"a\"}": {
            ".": {}, "f:name": {},
            "f:children": {"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}},
        }}})
    );
}

#[test]
fn references_that_lead_nowhere_accept_anything() {
    let circle = |_: &str| Some(json!({"$ref": "#/components/schemas/Circle"}));
    for shape in [
        Shape::from_openapi(&json!({"$ref": "#/components/schemas/Circle"}), circle),
        Shape::from_openapi(
            &json!({"properties": {"a": {"$ref": "#/components/schemas/Circle"}}}),
            circle,
        ),
        custom(
            &json!({"properties": {"a": {"allOf": [{"$ref": "#/components/schemas/Missing"}]}}}),
        ),
        custom(&Value::Null),
    ] {
        validate(&shape, &json!({"a": {"b": [1]}}), Duplicates::Refused).unwrap_or_default();
        assert!(!to_field_set(&shape, &json!({"a": {"b": [1]}})).is_empty());
    }
}

#[test]
fn the_use_of_a_type_may_make_it_atomic() {
    let schema = json!({"type": "object", "properties": {
        "whole": {"allOf": [{"$ref": "#/components/schemas/Pair"}], "x-kubernetes-map-type": "atomic"},
        "parts": {"$ref": "#/components/schemas/Pair"},
    }});
    let shape = Shape::from_openapi(&schema, |_| {
        Some(json!({"type": "object", "properties": {"a": {"type": "string"}}}))
    });
    let value = json!({"whole": {"a": "x"}, "parts": {"a": "x"}});
    assert_eq!(
        fields(&shape, &value),
        json!({"f:whole": {}, "f:parts": {"f:a": {}}})
    );
}

#[test]
fn structures_exist_in_objects_of_built_in_kinds_only() {
    let schema = json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "required": ["items", "count"],
            "properties": {
                "items": {"type": "array", "items": {"type": "object", "properties": {
                    "resources": {"type": "object", "default": {}, "properties": {"cpu": {"type": "string"}}},
                }}},
                "count": {"type": "integer", "default": 0},
                "optional": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        },
    }});
    let shape = Shape::built_in(&schema, |_| None);
    assert_eq!(
        shape.empty_object(),
        json!({"spec": {"items": null, "count": 0}})
    );
    let mut object = json!({"spec": {"items": [{}], "optional": {}}});
    shape.add_structures(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"items": [{"resources": {}}], "optional": {}}})
    );
    assert_eq!(custom(&schema).empty_object(), json!({}));
}

#[test]
fn structures_without_end_stop() {
    let schema = json!({"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/Next"}], "default": {}}}});
    let shape = Shape::built_in(&schema, |_| Some(schema.clone()));
    let mut object = json!({});
    shape.add_structures(&mut object);
    assert!(shape.empty_object().to_string().len() < 10_000 && object.to_string().len() < 10_000);
}
