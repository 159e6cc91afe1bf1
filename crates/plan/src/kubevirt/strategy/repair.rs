//! Repairs of known errors in the install strategies of releases.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use crate::{
    kubevirt::object::{Id, Object, joined, split},
    null,
};

/// `apiVersion` of kinds for which some release omits the group.
const APIS: [(&str, &str); 17] = [
    ("APIService", "apiregistration.k8s.io/v1"),
    ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    ("DaemonSet", "apps/v1"),
    ("Deployment", "apps/v1"),
    (
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
    ),
    ("PodDisruptionBudget", "policy/v1"),
    ("PrometheusRule", "monitoring.coreos.com/v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
    ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Route", "route.openshift.io/v1"),
    ("SecurityContextConstraints", "security.openshift.io/v1"),
    ("ServiceMonitor", "monitoring.coreos.com/v1"),
    (
        "ValidatingAdmissionPolicy",
        "admissionregistration.k8s.io/v1",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1",
    ),
    (
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
    ),
];

/// Why a document is not an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MissingField {
    /// It is not a mapping.
    Fields,
    /// The field is missing or not a string.
    Field(&'static str),
}

/// The repaired object of a document. Adds a note for each repair.
pub(super) fn repair(json: &str, notes: &mut Vec<String>) -> Result<Object, MissingField> {
    let mut fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(json).map_err(|_| MissingField::Fields)?;
    let text = |field| -> Option<String> {
        let text: &RawValue = fields.get(field)?;
        serde_json::from_str(text.get()).ok()
    };
    let kind = text("kind").ok_or(MissingField::Field("kind"))?;
    let found = text("apiVersion").ok_or(MissingField::Field("apiVersion"))?;
    let metadata = fields.get("metadata").map(|metadata| metadata.get());
    let mut metadata: Value = serde_json::from_str(metadata.unwrap_or("null")).unwrap_or_default();
    let name = metadata.get("name").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or(MissingField::Field("metadata.name"))?;
    let namespace = metadata.get("namespace").and_then(Value::as_str);

    let api_version = APIS
        .iter()
        .find(|(known, _)| *known == kind && !found.contains('/'));
    let api_version = api_version.map_or(found.as_str(), |(_, right)| right);
    let (group, version) = split(api_version);
    let id = Id::new(group, &kind, namespace.unwrap_or_default(), name);
    let mut note = |what: &str| notes.push(format!("{id}: {what}"));
    if api_version != found {
        note(&format!("apiVersion {found} replaced by {api_version}"));
    }
    let status = fields.remove("status").is_some();
    if status {
        note("status removed: the operator does not set it");
    }
    let had_null_timestamp = remove_null_timestamp(&mut metadata);
    if had_null_timestamp {
        note("metadata.creationTimestamp null removed");
    }

    let mut spec = None;
    if id.is("apps", "Deployment") || id.is("apps", "DaemonSet") {
        let read = fields.get("spec").map(|spec| spec.get());
        let mut read: Value = serde_json::from_str(read.unwrap_or("null")).unwrap_or_default();
        let mut is_repaired = read
            .pointer_mut("/template/metadata")
            .is_some_and(remove_null_timestamp);
        for list in ["/template/spec/containers", "/template/spec/initContainers"] {
            let containers = read.pointer_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                for port in merge_ports(container) {
                    note(&format!("duplicate port {port} of a container removed"));
                    is_repaired = true;
                }
            }
        }
        spec = is_repaired.then(|| read.to_string());
    }

    let api_version = Value::from(joined(group, version)).to_string();
    let metadata = had_null_timestamp.then(|| metadata.to_string());
    let version = version.into();
    let mut text = String::with_capacity(json.len());
    for (field, value) in &fields {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&Value::from(field.as_str()).to_string());
        text.push(':');
        text.push_str(match field.as_str() {
            "apiVersion" => &api_version,
            "metadata" => metadata.as_deref().unwrap_or(value.get()),
            "spec" => spec.as_deref().unwrap_or(value.get()),
            _ => value.get(),
        });
    }
    text.push('}');
    if let Some((without, pointer)) = without_null(&id, &text) {
        note(&format!("{pointer} and all other null fields removed"));
        text = without;
    }
    Ok(Object::from_text(id, version, &text))
}

/// The text without null fields, and the first of them. A text without any is not parsed.
fn without_null(id: &Id, text: &str) -> Option<(String, String)> {
    if id.may_contain_null() || !text.contains(":null") {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    let pointer = null::find(&value)?;
    null::remove(&mut value);
    Some((value.to_string(), pointer))
}

/// Removes the null creation timestamp that Go types serialize.
fn remove_null_timestamp(metadata: &mut Value) -> bool {
    let null = metadata
        .get("creationTimestamp")
        .is_some_and(Value::is_null);
    match metadata.as_object_mut() {
        Some(metadata) if null => metadata.remove("creationTimestamp").is_some(),
        _ => false,
    }
}

/// Removes duplicates of port and protocol, which are the list's key in server-side apply. Keeps the
/// port named `metrics`, by which Prometheus finds it.
fn merge_ports(container: &mut Value) -> Vec<String> {
    let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut merged = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(ports.len());
    for port in ports.drain(..) {
        let key = port_key(&port);
        match kept.iter_mut().find(|other| port_key(other) == key) {
            Some(other) => {
                merged.push(format!("{}/{}", key.0, key.1));
                if port.get("name").is_some_and(|name| name == "metrics") {
                    *other = port;
                }
            }
            None => kept.push(port),
        }
    }
    *ports = kept;
    merged
}

fn port_key(port: &Value) -> (String, String) {
    let number = port.get("containerPort").map(Value::to_string);
    let protocol = port.get("protocol").and_then(Value::as_str);
    (
        number.unwrap_or_default(),
        protocol.unwrap_or("TCP").to_owned(),
    )
}
