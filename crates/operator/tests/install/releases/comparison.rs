//! Comparison of all objects of two clusters, without fields that differ between runs.

use std::collections::BTreeMap;

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::verbs,
};
use serde_json::Value;

use crate::{
    harness::objects::list_if_served,
    inventory::{discover, is_short_lived},
};

/// Fields that differ between runs: times, random names, addresses and keys.
const VARIABLE_FIELDS: [&str; 12] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "clusterIP",
    "clusterIPs",
    "time",
    "caBundle",
    "ca-bundle",
    "kubevirt.io/heartbeat",
];

/// Every object of every kind that can be listed, by `Kind namespace/name`. Pods and their owners have
/// random names; the workloads they are created from are compared instead. Nodes, addresses and the
/// Service of the API server are the cluster's own.
pub(super) async fn all_objects(client: &Client) -> BTreeMap<String, Value> {
    let discovery = discover(client).await;
    let mut found = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = resource.kind.as_str();
            if !capabilities.supports_operation(verbs::LIST)
                || is_short_lived(kind)
                || matches!(
                    kind,
                    "Pod" | "ReplicaSet" | "ControllerRevision" | "Node" | "IPAddress"
                )
            {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let listed = list_if_served(&api, &ListParams::default()).await;
            for object in listed.into_iter().flatten() {
                let mut object = serde_json::to_value(object).unwrap();
                if kind == "Secret" {
                    let data = object["data"].as_object_mut();
                    for value in data.into_iter().flat_map(serde_json::Map::values_mut) {
                        *value = Value::Null;
                    }
                }
                // The aggregator writes it: on a real server it has the last error of a connection.
                if kind == "APIService" {
                    object["status"].take();
                }
                strip_variable_fields(&mut object);
                let metadata = &object["metadata"];
                if kind == "Service" && metadata["name"] == "kubernetes" {
                    continue;
                }
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                // The name of a strategy has a random suffix.
                let name = metadata["generateName"]
                    .as_str()
                    .or(metadata["name"].as_str());
                let name = name.unwrap_or_default().to_owned();
                let name = format!("{kind} {namespace}/{name}");
                if object["metadata"]["generateName"].is_string() {
                    object["metadata"]["name"].take();
                }
                found.insert(name, object);
            }
        }
    }
    found
}

fn strip_variable_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in VARIABLE_FIELDS {
                members.remove(name);
            }
            members.values_mut().for_each(strip_variable_fields);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip_variable_fields),
        _ => {}
    }
}

/// Differences between two clusters, as text.
pub(super) fn differences(
    one: &BTreeMap<String, Value>,
    other: &BTreeMap<String, Value>,
) -> Vec<String> {
    let mut found = Vec::new();
    for name in one.keys().chain(other.keys()) {
        match (one.get(name), other.get(name)) {
            (Some(one), Some(other)) => compare(name, one, other, &mut found),
            (Some(_), None) => found.push(format!("{name} is missing")),
            _ => found.push(format!("{name} is too much")),
        }
    }
    found.sort();
    found.dedup();
    found
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys()) {
                let path = format!("{path}.{name}");
                let (one, other) = (one.get(name), other.get(name));
                let null = &Value::Null;
                compare(&path, one.unwrap_or(null), other.unwrap_or(null), found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} became {other}")),
    }
}
