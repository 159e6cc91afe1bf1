//! Validation of PersistentVolumeClaims, PersistentVolumes and StorageClasses.

use serde_json::{Value, json};

use super::check::{Check, IMMUTABLE, amount};
use crate::value::{at, list, map, text};

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn claim(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = at(new, "spec");
    if list(spec, "accessModes").is_empty() {
        check.required_because("spec.accessModes", "at least 1 access mode is required");
    }
    access_modes(check, list(spec, "accessModes"));
    match at(spec, "resources.requests").get("storage") {
        None => check.required("spec.resources[storage]"),
        Some(size) if amount(size).is_some_and(|size| !size.is_positive()) => {
            check.invalid(
                "spec.resources[storage]",
                size.clone(),
                "must be greater than zero",
            );
        }
        Some(_) => {}
    }
    class_name(check, spec);
    volume_mode(check, spec);
    if let Some(old) = old {
        claim_change(check, new, old);
    }
}

/// A bound claim may only grow, or return to its current capacity.
fn claim_change(check: &mut Check, new: &Value, old: &Value) {
    let is_bound = text(old, "status.phase") == "Bound";
    // The volume binder sets the volume, and the class if there is none.
    let open: Vec<&str> = ["volumeName", "storageClassName"]
        .into_iter()
        .filter(|field| at(old, "spec").get(field).is_none())
        .chain(is_bound.then_some("volumeAttributesClassName"))
        .collect();
    let fixed = |object: &Value| {
        let mut spec = map(object, "spec").clone();
        spec.retain(|field, _| !open.contains(&field.as_str()));
        let requests = spec
            .get_mut("resources")
            .and_then(|resources| resources.get_mut("requests"));
        if let (true, Some(requests)) = (is_bound, requests.and_then(Value::as_object_mut)) {
            requests.remove("storage");
        }
        spec
    };
    if fixed(new) != fixed(old) {
        check.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |object: &Value, path: &str| {
        amount(at(object, path).get("storage").unwrap_or(&Value::Null))
    };
    let (before, after) = (
        size(old, "spec.resources.requests"),
        size(new, "spec.resources.requests"),
    );
    let got = size(old, "status.capacity");
    if let (Some(before), Some(after)) = (before, after)
        && after < before
        && got.is_some_and(|got| after <= got)
    {
        check.forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        );
    }
}

/// Fields of a PersistentVolume spec that are not a volume source.
const OTHER: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn volume(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = at(new, "spec");
    if list(spec, "accessModes").is_empty() {
        check.required("spec.accessModes");
    }
    access_modes(check, list(spec, "accessModes"));
    let capacity = map(spec, "capacity");
    if capacity.is_empty() {
        check.required("spec.capacity");
    }
    if capacity.len() != 1 || !capacity.contains_key("storage") {
        check.unsupported("spec.capacity", at(spec, "capacity").clone(), &["storage"]);
    }
    for (name, size) in capacity {
        if amount(size).is_some_and(|size| !size.is_positive()) {
            check.invalid(
                format!("spec.capacity[{name}]"),
                size.clone(),
                "must be greater than zero",
            );
        }
    }
    let is_source = |field: &&String| !OTHER.contains(&field.as_str());
    let sources: Vec<&String> = map(new, "spec").keys().filter(is_source).collect();
    match sources.as_slice() {
        [] => check.required_because("spec", "must specify a volume type"),
        [_] => {}
        [_, others @ ..] => {
            for field in others {
                let why = "may not specify more than 1 volume type";
                check.forbidden(format!("spec.{field}"), why);
            }
        }
    }
    class_name(check, spec);
    volume_mode(check, spec);
    if let Some(old) = old {
        let source = |object: &Value| -> Vec<Value> {
            sources
                .iter()
                .map(|field| {
                    at(object, "spec")
                        .get(field.as_str())
                        .cloned()
                        .unwrap_or_default()
                })
                .collect()
        };
        if source(new) != source(old) {
            check.forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            );
        }
        check.immutable(new, Some(old), "spec.volumeMode");
    }
}

pub(super) fn class(check: &mut Check, new: &Value, old: Option<&Value>) {
    match text(new, "provisioner") {
        "" => check.required("provisioner"),
        provisioner => {
            for message in schema::names::qualified_name(&provisioner.to_lowercase()) {
                check.invalid("provisioner", provisioner, message);
            }
        }
    }
    let policy = text(new, "reclaimPolicy");
    check.one_of("reclaimPolicy", policy, &["Delete", "Retain"]);
    let binding = text(new, "volumeBindingMode");
    check.one_of(
        "volumeBindingMode",
        binding,
        &["Immediate", "WaitForFirstConsumer"],
    );
    if let Some(old) = old {
        for field in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            if at(new, field) != at(old, field) {
                check.invalid(field, json!(null), IMMUTABLE);
            }
        }
    }
}

fn access_modes(check: &mut Check, modes: &[Value]) {
    for mode in modes.iter().filter_map(Value::as_str) {
        if !MODES.contains(&mode) {
            check.unsupported("spec.accessModes", mode, &MODES);
        }
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        check.forbidden(
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

fn class_name(check: &mut Check, spec: &Value) {
    if !text(spec, "storageClassName").is_empty() {
        check.dns_name("spec.storageClassName", text(spec, "storageClassName"));
    }
}

fn volume_mode(check: &mut Check, spec: &Value) {
    let mode = text(spec, "volumeMode");
    if !matches!(mode, "" | "Block" | "Filesystem") {
        check.unsupported("spec.volumeMode", mode, &["Block", "Filesystem"]);
    }
}
