//! Scale subresource of Deployments, ReplicaSets, StatefulSets and ReplicationControllers.

use serde_json::{Map, Value, json};

use crate::{
    Kind, selector,
    value::{at, fields_mut, has, int},
};

/// `None` for kinds without scale.
pub fn scale(kind: &Kind, object: &Value) -> Option<Value> {
    kind.subresources
        .iter()
        .find(|subresource| subresource.name == "scale")?;
    let mut status = json!({"replicas": int(object, "status.replicas")});
    if has(object, "spec.selector") {
        // ReplicationControllers have a plain label map as selector.
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
        "metadata": scale_metadata(object),
        "spec": spec,
        "status": status,
    }))
}

/// Metadata of the scale of an object.
pub fn scale_metadata(object: &Value) -> Value {
    let mut metadata = Map::new();
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
    metadata.into()
}

pub fn set_scale(object: &mut Value, scale: &Value) {
    let replicas = int(scale, "spec.replicas");
    if let Some(spec) = fields_mut(object, "spec") {
        spec.insert("replicas".to_owned(), replicas.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{scale, set_scale};

    #[test]
    fn a_scale_has_replicas_and_the_selector_as_text() {
        let deployments = crate::find("apps", "v1", "deployments").unwrap();
        let selector = json!({
            "matchLabels": {"b": "c", "a": "b"},
            "matchExpressions": [
                {"key": "z", "operator": "In", "values": ["c", "a"]},
                {"key": "q", "operator": "Exists"},
            ],
        });
        let mut object = json!({
            "metadata": {"name": "sc", "labels": {"a": "b"}},
            "spec": {"replicas": 0, "selector": selector},
            "status": {},
        });
        let found = scale(deployments, &object).unwrap();
        assert_eq!(found["metadata"], json!({"name": "sc"}));
        assert_eq!(found["spec"], json!({}));
        assert_eq!(
            found["status"],
            json!({"replicas": 0, "selector": "a=b,b=c,q,z in (a,c)"})
        );
        set_scale(&mut object, &json!({"spec": {"replicas": 3}}));
        assert_eq!(object["spec"]["replicas"], 3);
    }

    #[test]
    fn kinds_without_replicas_have_no_scale() {
        let pods = crate::find("", "v1", "pods").unwrap();
        assert_eq!(scale(pods, &json!({})), None);
    }
}
