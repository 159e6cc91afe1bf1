//! Objects with nothing in them.

use serde_json::{Value, json};

use crate::Kind;

/// An object of the kind with nothing in it, as the bookmarks of a watch carry one: what a Go server
/// writes although it is not set, without the metadata.
pub fn empty(kind: &Kind) -> Value {
    let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version()});
    if matches!(kind.kind, "Deployment" | "ReplicaSet" | "StatefulSet") {
        // A client may leave them out, the server's own form cannot.
        object["spec"] = json!({"replicas": 0});
    }
    crate::decode::normalise(kind.component, &mut object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
    }
    object
}
