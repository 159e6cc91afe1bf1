//! The metadata that every object has.

use serde_json::Value;

use super::{check::Check, names};
use crate::{
    Kind, NameRule,
    value::{at, flag, list, text},
};

/// What annotations may take in all.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check(check: &mut Check, kind: &Kind, new: &Value, old: Option<&Value>) {
    match old {
        None => name(check, kind, new),
        Some(_) => {
            check.immutable(new, old, "metadata.name");
            check.immutable(new, old, "metadata.namespace");
        }
    }
    check.labels("metadata.labels", at(new, "metadata.labels"));
    annotations(
        check,
        "metadata.annotations",
        at(new, "metadata.annotations"),
    );
    owners(check, new);
    finalizers(check, new);
}

fn name(check: &mut Check, kind: &Kind, new: &Value) {
    let messages = |name: &str| match kind.name_rule {
        NameRule::Subdomain => names::dns_name(name),
        NameRule::Label | NameRule::Label1035 => names::label_name(name),
        NameRule::PathSegment => names::path_segment(name),
    };
    match text(new, "metadata.name") {
        "" if text(new, "metadata.generateName").is_empty() => {
            check.required_because("metadata.name", "name or generateName is required");
        }
        "" => {}
        name => {
            for message in messages(name) {
                check.invalid("metadata.name", name, message);
            }
        }
    }
    if kind.namespaced {
        match text(new, "metadata.namespace") {
            "" => check.required("metadata.namespace"),
            namespace => check.dns_label("metadata.namespace", namespace),
        }
    }
}

/// Keys are compared without regard to case, and the whole has a bound.
pub(super) fn annotations(check: &mut Check, path: &str, annotations: &Value) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for message in names::qualified_name(&key.to_lowercase()) {
            check.invalid(path, key.as_str(), message);
        }
    }
    if bytes > MOST_ANNOTATION_BYTES {
        check.too_long(path, MOST_ANNOTATION_BYTES as u64);
    }
}

fn owners(check: &mut Check, new: &Value) {
    let mut controller: Option<String> = None;
    for (index, owner) in list(new, "metadata.ownerReferences").iter().enumerate() {
        let path = format!("metadata.ownerReferences[{index}]");
        if text(owner, "apiVersion").is_empty() {
            check.invalid(
                format!("{path}.apiVersion"),
                "",
                "version must not be empty",
            );
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                check.required_because(format!("{path}.{field}"), "must not be empty");
            }
        }
        if text(owner, "apiVersion") == "v1" && text(owner, "kind") == "Event" {
            check.invalid(
                path,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if flag(owner, "controller") {
            match &controller {
                None => controller = Some(text(owner, "name").to_owned()),
                Some(first) => check.invalid(
                    "metadata.ownerReferences",
                    at(new, "metadata.ownerReferences").clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}",
                        text(owner, "name")
                    ),
                ),
            }
        }
    }
}

fn finalizers(check: &mut Check, new: &Value) {
    const STANDARD: [&str; 3] = ["kubernetes", "foregroundDeletion", "orphan"];
    for (index, finalizer) in list(new, "metadata.finalizers").iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let path = format!("metadata.finalizers[{index}]");
        let messages = names::qualified_name(finalizer);
        for message in &messages {
            check.invalid(path.clone(), finalizer, message.as_str());
        }
        if messages.is_empty() && !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            check.invalid(
                path,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
    let both = |name: &str| {
        list(new, "metadata.finalizers")
            .iter()
            .any(|finalizer| finalizer == name)
    };
    if both("orphan") && both("foregroundDeletion") {
        let all = at(new, "metadata.finalizers").clone();
        check.invalid(
            "metadata.finalizers",
            all,
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}
