//! The shape of `metadata`, which all objects share.

use serde_json::{Value, json};

pub(super) fn schema() -> Value {
    let string = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let strings =
        json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}});
    json!({
        "type": "object",
        "properties": {
            "annotations": strings,
            "creationTimestamp": time,
            "deletionGracePeriodSeconds": {"type": "integer"},
            "deletionTimestamp": time,
            "finalizers": {
                "type": "array",
                "items": {"type": "string", "default": ""},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": string,
            "generation": {"type": "integer"},
            "labels": strings,
            "managedFields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": string,
                        "fieldsType": string,
                        "fieldsV1": {"type": "object"},
                        "manager": string,
                        "operation": string,
                        "subresource": string,
                        "time": time,
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
            "name": string,
            "namespace": string,
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": {"type": "string", "default": ""},
                        "blockOwnerDeletion": {"type": "boolean"},
                        "controller": {"type": "boolean"},
                        "kind": {"type": "string", "default": ""},
                        "name": {"type": "string", "default": ""},
                        "uid": {"type": "string", "default": ""},
                    },
                    "x-kubernetes-map-type": "atomic",
                },
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
            "resourceVersion": string,
            "selfLink": string,
            "uid": string,
        },
    })
}
