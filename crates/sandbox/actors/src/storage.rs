//! Storage controllers: StorageClasses, claims and PersistentVolumes.
//!
//! Every StorageClass is provisioned for, whatever its provisioner, except
//! `kubernetes.io/no-provisioner`. A volume of a class with WaitForFirstConsumer is accessible from
//! that consumer's node only, unless the claim is ReadWriteMany.

mod claims;
mod expansion;
mod volumes;

pub use self::{claims::Claims, volumes::Volumes};

use serde_json::{Value, json};

use crate::{
    Caches, Key, Object,
    kind::STORAGE_CLASS,
    object::{annotation, is_deleted, list, namespace, text, time, uid},
};

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const PROVISIONER: &str = "provisioner.sandbox.vitistack.io";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The sandbox's StorageClasses: `standard`, the default; `local`, with WaitForFirstConsumer; and
/// `fixed`, without expansion.
pub fn classes() -> Vec<Value> {
    let class = |name: &str, binding: &str, grows: bool, is_default: bool| {
        let mut class = json!({
            "metadata": {"name": name},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": binding,
            "allowVolumeExpansion": grows,
        });
        if is_default {
            class["metadata"]["annotations"] = json!({IS_DEFAULT: "true"});
        }
        class
    };
    vec![
        class("standard", "Immediate", true, true),
        class("local", "WaitForFirstConsumer", true, false),
        class("fixed", "Immediate", false, false),
    ]
}

/// Class of claims that name none: the newest of the default classes.
pub(crate) fn default_class(caches: &Caches) -> Option<&Object> {
    caches
        .all(STORAGE_CLASS)
        .filter(|class| annotation(class, IS_DEFAULT) == Some("true"))
        .max_by_key(|class| time(class, "/metadata/creationTimestamp"))
}

pub(crate) fn class_of<'a>(caches: &'a Caches, claim: &Value) -> Option<&'a Object> {
    caches.get(
        STORAGE_CLASS,
        &Key::cluster(text(claim, "/spec/storageClassName")),
    )
}

pub(crate) fn waits_for_consumer(caches: &Caches, claim: &Value) -> bool {
    text(claim, "/spec/volumeName").is_empty()
        && class_of(caches, claim)
            .is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer")
}

/// Whether a volume is reserved for a claim: for its UID, or for its name without a UID.
fn is_for(volume: &Value, claim: &Value) -> bool {
    let reference = text(volume, "/spec/claimRef/uid");
    text(volume, "/spec/claimRef/name") == crate::object::name(claim)
        && text(volume, "/spec/claimRef/namespace") == namespace(claim)
        && (reference.is_empty() || reference == uid(claim))
}

/// Whether a free volume satisfies a claim.
fn suits(volume: &Value, claim: &Value) -> bool {
    let is_free =
        volume.pointer("/spec/claimRef").is_none() && text(volume, "/status/phase") == "Available";
    let modes = list(volume, "/spec/accessModes");
    let mode = |object: &Value| match text(object, "/spec/volumeMode") {
        "Block" => "Block",
        _ => "Filesystem",
    };
    let size = |value: Option<&Value>| value.map(crate::pods::requests::amount).unwrap_or_default();
    (is_free || is_for(volume, claim))
        && !is_deleted(volume)
        && text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && list(claim, "/spec/accessModes")
            .iter()
            .all(|mode| modes.contains(mode))
        && mode(volume) == mode(claim)
        && size(volume.pointer("/spec/capacity/storage"))
            >= size(claim.pointer("/spec/resources/requests/storage"))
        && claim
            .pointer("/spec/selector")
            .is_none_or(|selector| crate::workloads::selects(selector, volume))
}

#[cfg(test)]
mod tests;
