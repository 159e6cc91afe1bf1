//! Defaulting and validation of CustomResourceDefinitions.
//!
//! kube-apiserver hoists schema, subresources and columns that all versions have in common, and its
//! errors name the hoisted path: `spec.validation.openAPIV3Schema` instead of
//! `spec.versions[0].schema.openAPIV3Schema`. So do these.
//!
//! A valid definition compiles as a [`crate::Schema`] for each version.

mod costs;
mod defaults;
mod internal;
mod openapi;
mod rules;
mod selectable;
mod spec;
mod structural;

use serde_json::{Map, Value, json};

use crate::{
    Violation,
    metadata::{self, Scope},
    names,
};

/// Sets names, conversion and, on create, the status.
pub fn default(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else {
        return;
    };
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = text(names, "kind").to_owned();
            if text(names, "singular").is_empty() && !kind.is_empty() {
                names.insert("singular".to_owned(), kind.to_lowercase().into());
            }
            if text(names, "listKind").is_empty() && !kind.is_empty() {
                names.insert("listKind".to_owned(), format!("{kind}List").into());
            }
        }
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        let service = conversion
            .pointer_mut("/webhook/clientConfig/service")
            .and_then(Value::as_object_mut);
        if let Some(service) = service {
            service.entry("port").or_insert(Value::from(443));
        }
    }
    store_version(crd);
}

/// Adds the storage version to `status.storedVersions`.
pub fn store_version(crd: &mut Map<String, Value>) {
    let storage = crd
        .get("spec")
        .and_then(|spec| spec.get("versions")?.as_array())
        .and_then(|versions| {
            versions
                .iter()
                .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        })
        .and_then(|version| version.get("name").cloned());
    let Some(storage) = storage else { return };
    let status = crd.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return;
    };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if stored.is_null() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut()
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

/// Validates a defaulted definition on create.
pub fn validate_create(crd: &Value) -> Vec<Violation> {
    let mut found = metadata::validate_create(crd, Scope::Cluster, names::dns_subdomain);
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let name = crd.pointer("/metadata/name").and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        let plural = spec.pointer("/names/plural").and_then(Value::as_str);
        let group = spec.get("group").and_then(Value::as_str);
        let expected = format!("{}.{}", plural.unwrap_or(""), group.unwrap_or(""));
        if name != expected {
            let wrong = Violation::invalid(
                "metadata.name",
                name,
                "must be spec.names.plural+\".\"+spec.group",
            );
            let after = found
                .iter()
                .rposition(|violation| violation.path == "metadata.name")
                .map_or(0, |index| index + 1);
            found.insert(after, wrong);
        }
    }
    spec::check(spec, &mut found);
    check_status(crd, &mut found);
    check_approval(crd, None, &mut found);
    check_preserve(spec, &mut found);
    found
}

/// Validates a definition on update.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<Violation> {
    let mut found = metadata::validate_update(crd, old);
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let old_spec = old.get("spec").unwrap_or(&Value::Null);
    spec::check(spec, &mut found);
    let is_established = old
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| {
            condition.get("type") == Some(&"Established".into())
                && condition.get("status") == Some(&"True".into())
        });
    let mut immutable = |pointer: &str| {
        let value = spec.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let old = old_spec
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("");
        if value != old {
            let path = format!("spec{}", pointer.replace('/', "."));
            found.push(Violation::invalid(path, value, "field is immutable"));
        }
    };
    if is_established {
        immutable("/scope");
        immutable("/names/kind");
    }
    immutable("/group");
    immutable("/names/plural");
    check_status(crd, &mut found);
    check_approval(crd, Some(old), &mut found);
    if old_spec.get("preserveUnknownFields") != Some(&Value::Bool(true)) {
        check_preserve(spec, &mut found);
    }
    found
}

fn check_status(crd: &Value, found: &mut Vec<Violation>) {
    const PATH: &str = "status.storedVersions";
    if let Some(names) = crd.pointer("/status/acceptedNames") {
        spec::check_names(names, "status.acceptedNames", found);
    }
    let stored = crd
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .filter(|stored| !stored.is_empty());
    let Some(stored) = stored else {
        found.push(Violation::invalid(
            PATH,
            Value::Null,
            "must have at least one stored version",
        ));
        return;
    };
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    // kube-apiserver finds only the first of several versions with one name.
    let mut remaining: Vec<(usize, &Value)> = stored.iter().enumerate().collect();
    for version in versions.into_iter().flatten() {
        let name = version.get("name").unwrap_or(&Value::Null);
        if remaining.iter().any(|(_, stored)| *stored == name) {
            remaining.retain(|(_, stored)| *stored != name);
        } else if version.get("storage") == Some(&Value::Bool(true)) {
            let name = name.as_str().unwrap_or("");
            found.push(Violation::invalid(
                PATH,
                Value::Array(stored.clone()),
                format!("must have the storage version {name}"),
            ));
        }
    }
    for (index, name) in remaining {
        let name = name.as_str().unwrap_or("");
        found.push(Violation::invalid(
            format!("{PATH}[{index}]"),
            name,
            format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            ),
        ));
    }
}

/// `*.k8s.io` and `*.kubernetes.io` groups need an approval annotation.
fn check_approval(crd: &Value, old: Option<&Value>, found: &mut Vec<Violation>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    const PATH: &str = "metadata.annotations[api-approved.kubernetes.io]";
    let group = crd.pointer("/spec/group").and_then(Value::as_str);
    let is_protected = |group: &str| {
        ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")))
    };
    if !group.is_some_and(is_protected) {
        return;
    }
    let approval = |crd: &Value| {
        let annotations = crd.pointer("/metadata/annotations");
        let approval = annotations.and_then(|annotations| annotations.get(ANNOTATION)?.as_str());
        approval.unwrap_or("").to_owned()
    };
    let is_approved = |approval: &str| {
        approval.starts_with("unapproved")
            || (approval.contains("://") && !approval.ends_with("://"))
    };
    let approval_now = approval(crd);
    if old.is_some_and(|old| {
        let before = approval(old);
        before.is_empty() == approval_now.is_empty()
            && is_approved(&before) == is_approved(&approval_now)
    }) {
        return;
    }
    if approval_now.is_empty() {
        found.push(Violation::required(
            PATH,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    } else if !is_approved(&approval_now) {
        found.push(Violation::invalid(
            PATH,
            approval_now,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
}

fn check_preserve(spec: &Value, found: &mut Vec<Violation>) {
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        found.push(Violation::invalid(
            "spec.preserveUnknownFields",
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or("")
}
