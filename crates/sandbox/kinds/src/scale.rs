//! The scale of deployments, replica sets, stateful sets and replication controllers.

use serde_json::{Value, json};

use crate::{
    Kind, selector,
    value::{at, fields_mut, has, int},
};

/// The `Scale` of an object; none for kinds that have no such subresource.
pub fn scale(kind: &Kind, object: &Value) -> Option<Value> {
    kind.subresources
        .iter()
        .find(|subresource| subresource.name == "scale")?;
    let mut metadata = serde_json::Map::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = at(object, "metadata").get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": int(object, "status.replicas")});
    if has(object, "spec.selector") {
        // Replication controllers select by labels alone.
        let text = match kind.kind {
            "ReplicationController" => selector::labels_text(at(object, "spec.selector")),
            _ => selector::text(at(object, "spec.selector")),
        };
        status["selector"] = text.into();
    }
    let mut spec = json!({});
    if has(object, "spec.replicas") && int(object, "spec.replicas") != 0 {
        spec["replicas"] = at(object, "spec.replicas").clone();
    }
    Some(json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }))
}

/// Sets the replicas that a `Scale` asks for.
pub fn set_scale(object: &mut Value, scale: &Value) {
    let replicas = int(scale, "spec.replicas");
    if let Some(spec) = fields_mut(object, "spec") {
        spec.insert("replicas".to_owned(), replicas.into());
    }
}
