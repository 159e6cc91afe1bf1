//! Merge strategies of strategic merge patches for the customizable kinds.
//!
//! Only lists that merge by key are described: other lists are replaced, and maps merge.

use merge::Shape;
use serde_json::{Value, json};

pub(super) fn of(kind: &str) -> Shape {
    let fields = match kind {
        "Deployment" => json!({
            "spec": object(&json!({
                "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys"},
                "template": template(),
            })),
        }),
        "DaemonSet" => json!({"spec": object(&json!({"template": template()}))}),
        "Service" => json!({"spec": object(&json!({"ports": merged("port", &json!({}))}))}),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => json!({
            "webhooks": merged("name", &json!({"matchConditions": merged("name", &json!({}))})),
        }),
        _ => json!({}),
    };
    Shape::built_in(&object(&fields), |_| None)
}

fn template() -> Value {
    object(&json!({
        "spec": object(&json!({
            "containers": containers(),
            "initContainers": containers(),
            "volumes": retaining("name"),
            "imagePullSecrets": merged("name", &json!({})),
            "hostAliases": merged("ip", &json!({})),
            "topologySpreadConstraints": merged("topologyKey", &json!({})),
            "resourceClaims": retaining("name"),
            "schedulingGates": merged("name", &json!({})),
        })),
    }))
}

fn containers() -> Value {
    merged(
        "name",
        &json!({
            "ports": merged("containerPort", &json!({})),
            "env": merged("name", &json!({})),
            "volumeMounts": merged("mountPath", &json!({})),
            "volumeDevices": merged("devicePath", &json!({})),
        }),
    )
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// A list whose items merge by a key.
fn merged(key: &str, properties: &Value) -> Value {
    json!({
        "type": "array",
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": key,
        "items": object(properties),
    })
}

/// As [`merged`], but an item keeps only the fields that the patch retains.
fn retaining(key: &str) -> Value {
    json!({
        "type": "array",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
        "x-kubernetes-patch-merge-key": key,
        "items": object(&json!({})),
    })
}
