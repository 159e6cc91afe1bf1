//! Overlay of a given KubeVirt resource on that of the cluster.

use std::sync::Arc;

use api::{Time, kubevirt::install::KubeVirt};
use kube::ResourceExt as _;
use plan::{
    Id,
    preview::{Effect, Verb, changes},
};
use serde_json::{Value, json};

/// Result of applying a given resource to the one of that name in the cluster, and the change. The spec is
/// replaced; labels and annotations are added.
pub(super) fn overlay(
    live: &[Arc<KubeVirt>],
    given: &KubeVirt,
    now: &Time,
) -> (Option<KubeVirt>, Option<Effect>) {
    let is_it = |live: &&Arc<KubeVirt>| {
        live.name_any() == given.name_any() && live.namespace() == given.namespace()
    };
    let id = Id::new(
        "kubevirt.io",
        "KubeVirt",
        &given.namespace().unwrap_or_default(),
        &given.name_any(),
    );
    let Some(live) = live.iter().find(is_it) else {
        let mut kubevirt = given.clone();
        kubevirt.status = None;
        kubevirt.metadata.uid = Some(String::new());
        kubevirt.metadata.generation = Some(1);
        kubevirt.metadata.creation_timestamp = Some(now.clone());
        kubevirt.metadata.deletion_timestamp = None;
        kubevirt.metadata.finalizers = None;
        let effect = Effect {
            verb: Verb::Create,
            id,
            reason: String::new(),
            fields: Vec::new(),
        };
        return (Some(kubevirt), Some(effect));
    };
    let mut kubevirt = KubeVirt::clone(live);
    kubevirt.spec.clone_from(&given.spec);
    let labels = kubevirt.metadata.labels.get_or_insert_default();
    labels.extend(given.labels().clone());
    let annotations = kubevirt.metadata.annotations.get_or_insert_default();
    annotations.extend(given.annotations().clone());
    if kubevirt.spec != live.spec {
        let generation = kubevirt.metadata.generation.unwrap_or_default();
        kubevirt.metadata.generation = Some(generation.saturating_add(1));
    }
    let fields = changes(&user_fields(live), &user_fields(&kubevirt));
    let effect = (!fields.is_empty()).then(|| Effect {
        verb: Verb::Change,
        id,
        reason: String::new(),
        fields,
    });
    (Some(kubevirt), effect)
}

/// Fields that users write.
fn user_fields(kubevirt: &KubeVirt) -> Value {
    json!({
        "metadata": { "labels": kubevirt.labels(), "annotations": kubevirt.annotations() },
        "spec": kubevirt.spec,
    })
}
