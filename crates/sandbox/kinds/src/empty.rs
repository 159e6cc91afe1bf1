//! Empty objects, as watch bookmarks carry them.

use serde_json::{Value, json};

use crate::Kind;

/// Object of the kind with only the fields that Go always writes, without metadata.
pub fn empty(kind: &Kind) -> Value {
    let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version()});
    if matches!(kind.kind, "Deployment" | "ReplicaSet" | "StatefulSet") {
        // The field is a pointer in the API, not in the internal form of the server.
        object["spec"] = json!({"replicas": 0});
    }
    crate::decode::normalise(kind.component, &mut object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
    }
    object
}
