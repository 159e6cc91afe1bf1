//! Validation of Pods and pod templates.

use std::collections::BTreeSet;

use schema::names;
use serde_json::Value;

use super::{check::Check, container, metadata};
use crate::value::{at, has, int, list, map, text};

pub(super) fn check(check: &mut Check, new: &Value, old: Option<&Value>) {
    spec(check, "spec", at(new, "spec"), &[]);
    if let Some(old) = old {
        unchanged(check, new, old);
    }
}

/// `claims` are volumes that a StatefulSet adds to the template.
pub(super) fn template(check: &mut Check, path: &str, template: &Value, claims: &[&str]) {
    check.labels(&format!("{path}.labels"), at(template, "metadata.labels"));
    metadata::annotations(
        check,
        &format!("{path}.annotations"),
        at(template, "metadata.annotations"),
    );
    spec(check, &format!("{path}.spec"), at(template, "spec"), claims);
    if !list(template, "spec.ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        check.forbidden(format!("{path}.spec.ephemeralContainers"), why);
    }
}

fn spec(check: &mut Check, path: &str, spec: &Value, claims: &[&str]) {
    let mut volumes = volumes(check, path, spec);
    volumes.extend(claims);
    container::all(check, path, spec, &volumes);
    check.one_of(
        format!("{path}.restartPolicy"),
        text(spec, "restartPolicy"),
        &["Always", "OnFailure", "Never"],
    );
    check.one_of(
        format!("{path}.dnsPolicy"),
        text(spec, "dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    check.labels(&format!("{path}.nodeSelector"), at(spec, "nodeSelector"));
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        if !text(spec, field).is_empty() {
            check.dns_name(format!("{path}.{field}"), text(spec, field));
        }
    }
    for field in ["hostname", "subdomain"] {
        if !text(spec, field).is_empty() {
            check.dns_label(format!("{path}.{field}"), text(spec, field));
        }
    }
    let deadline = int(spec, "activeDeadlineSeconds");
    if has(spec, "activeDeadlineSeconds") && !(1..=i64::from(i32::MAX)).contains(&deadline) {
        let why = "must be between 1 and 2147483647, inclusive";
        check.invalid(format!("{path}.activeDeadlineSeconds"), deadline, why);
    }
    tolerations(check, path, spec);
}

/// Names of mountable volumes.
fn volumes<'a>(check: &mut Check, path: &str, spec: &'a Value) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let before = check.found.len();
        volume_source(check, &path, volume);
        let name = text(volume, "name");
        match name {
            "" => check.required(format!("{path}.name")),
            name => check.dns_label(format!("{path}.name"), name),
        }
        if names.contains(name) {
            check.duplicate(format!("{path}.name"), name);
        }
        if check.found.len() == before {
            names.insert(name);
        }
    }
    names
}

/// Order in which kube-apiserver checks volume sources: the first counts.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

fn volume_source(check: &mut Check, path: &str, volume: &Value) {
    let mut first = true;
    for field in SOURCES.into_iter().chain(["image"]) {
        let Some(source) = volume.get(field) else {
            continue;
        };
        let path = format!("{path}.{field}");
        if !first {
            check.forbidden(path, "may not specify more than 1 volume type");
            continue;
        }
        first = false;
        items(check, &path, source);
        let required = match field {
            "hostPath" => "path",
            "secret" => "secretName",
            "configMap" => "name",
            "persistentVolumeClaim" => "claimName",
            "csi" => "driver",
            _ => continue,
        };
        if text(source, required).is_empty() {
            check.required(format!("{path}.{required}"));
        }
    }
    if first {
        check.required_because(path, "must specify a volume type");
    }
}

/// Projection of keys to files.
fn items(check: &mut Check, path: &str, source: &Value) {
    for (index, item) in list(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        if !has(item, "fieldRef") && !has(item, "resourceFieldRef") && text(item, "key").is_empty()
        {
            check.required(format!("{path}.key"));
        }
        let file = text(item, "path");
        if file.is_empty() {
            check.required(format!("{path}.path"));
        }
        check.descending_path(&format!("{path}.path"), file);
    }
}

fn tolerations(check: &mut Check, path: &str, spec: &Value) {
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            for message in names::qualified_name(key) {
                check.invalid(format!("{path}.key"), key, message);
            }
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            check.invalid(format!("{path}.operator"), operator, why);
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            check.invalid(format!("{path}.effect"), effect, why);
        }
        match operator {
            "" | "Equal" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    check.invalid(format!("{path}.operator"), value, messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                check.invalid(format!("{path}.operator"), value, why);
            }
            "Exists" | "Lt" | "Gt" => {}
            other => check.unsupported(format!("{path}.operator"), other, &["Equal", "Exists"]),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let words = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            check.unsupported(format!("{path}.effect"), effect, &words);
        }
    }
}

/// Only images, activeDeadlineSeconds, a negative grace period and additional tolerations may
/// change; scheduling gates may be removed.
fn unchanged(check: &mut Check, new: &Value, old: &Value) {
    let count = |pod: &Value, field: &str| list(pod, &format!("spec.{field}")).len();
    for field in ["containers", "initContainers"] {
        if count(new, field) != count(old, field) {
            check.forbidden(
                format!("spec.{field}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
        for (index, container) in list(new, &format!("spec.{field}")).iter().enumerate() {
            if text(container, "image").is_empty() {
                check.required(format!("spec.{field}[{index}].image"));
            }
        }
    }
    let timeless = |toleration: &Value| {
        let mut fields = toleration.as_object().cloned().unwrap_or_default();
        fields.remove("tolerationSeconds");
        fields
    };
    let tolerations: Vec<_> = list(new, "spec.tolerations").iter().map(timeless).collect();
    let kept = list(old, "spec.tolerations")
        .iter()
        .all(|old| tolerations.contains(&timeless(old)));
    if !kept {
        check.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    for (index, gate) in list(new, "spec.schedulingGates").iter().enumerate() {
        if !list(old, "spec.schedulingGates").contains(gate) {
            let name = text(gate, "name");
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            check.forbidden(format!("spec.schedulingGates[{index}].name"), why);
        }
    }
    if fixed(new) != fixed(old) {
        check.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

/// Immutable part of a pod.
fn fixed(pod: &Value) -> Value {
    let mut spec = at(pod, "spec").clone();
    for field in ["containers", "initContainers"] {
        for container in spec
            .get_mut(field)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        for field in [
            "activeDeadlineSeconds",
            "tolerations",
            "schedulingGates",
            "ephemeralContainers",
        ] {
            fields.remove(field);
        }
        if !map(pod, "spec").contains_key("nodeName") {
            fields.remove("nodeSelector");
        }
    }
    spec
}
