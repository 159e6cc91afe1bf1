//! The workload controllers of kube-controller-manager.
//!
//! A child is known by its owner reference alone: pods with matching labels are not adopted, and
//! pods that lose their labels are not released.

mod daemon_set;
mod deployment;
mod disruption;
mod job;
mod namespaces;
mod replica_set;
mod stateful_set;

pub use self::{
    daemon_set::DaemonSets, deployment::Deployments, disruption::DisruptionBudgets, job::Jobs,
    namespaces::Namespaces, replica_set::ReplicaSets, stateful_set::StatefulSets,
};

use apimachinery::label_selector;
use serde_json::{Value, json};

use crate::{
    Context, Kind,
    kind::POD,
    object::{controlled_by, name, namespace, uid},
};

/// Whether a label selector selects an object.
pub(crate) fn selects(selector: &Value, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels").unwrap_or(&Value::Null);
    label_selector::matches(selector, labels) == Ok(true)
}

/// A number, or a percentage of a whole such as `25%`.
fn share(value: Option<&Value>, default: &Value, whole: i64, round_up: bool) -> i64 {
    let value = value.unwrap_or(default);
    let Some(percent) = value.as_str() else {
        return value.as_i64().unwrap_or_default();
    };
    let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or_default();
    let hundredfold = whole.saturating_mul(percent);
    if round_up {
        hundredfold.saturating_add(99) / 100
    } else {
        hundredfold / 100
    }
}

/// Hash of a pod template, encoded as in pod-template-hash.
fn template_hash(template: &Value) -> String {
    let bytes = template.to_string().into_bytes();
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^= hash >> 29;
    letters(hash, 10)
}

/// Encodes a number for a name suffix, with the alphabet of `generateName`.
pub(crate) fn letters(mut number: u64, length: usize) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut text = String::new();
    for _ in 0..length {
        let index = usize::try_from(number % 27).unwrap_or_default();
        text.push(char::from(LETTERS.get(index).copied().unwrap_or(b'b')));
        number /= 27;
    }
    text
}

/// A pod from its owner's template, still without `name` and `generateName`.
fn pod_of(kind: Kind, owner: &Value) -> Value {
    let template = owner.pointer("/spec/template").cloned().unwrap_or_default();
    let mut metadata = template
        .get("metadata")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|key, _| matches!(key.as_str(), "labels" | "annotations" | "finalizers"));
    }
    metadata["namespace"] = namespace(owner).into();
    metadata["ownerReferences"] = json!([controlled_by(kind, owner)]);
    json!({"metadata": metadata, "spec": template.get("spec")})
}

/// A pod name as `generateName` would give it, known before the pod is created because the Event
/// names it.
fn name_pod(ctx: &Context<'_>, owner: &Value, number: usize) -> String {
    let named = |attempt: usize| {
        let random = ctx.random(&format!("{} {} {number} {attempt}", uid(owner), ctx.now));
        format!("{}-{}", name(owner), letters(random, 5))
    };
    // Virtual time may not advance, so an earlier pod can have the same name.
    let mut candidates = (0..100).map(named);
    let free = candidates.find(|name| ctx.caches.find(POD, namespace(owner), name).is_none());
    free.unwrap_or_else(|| named(100))
}

/// A count of a status; null for zero, since the API omits zeros.
fn shown(count: i64) -> Value {
    if count == 0 {
        Value::Null
    } else {
        count.into()
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
