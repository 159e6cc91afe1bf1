//! Deployment controller.

mod progress;
mod rollout;

use std::sync::Arc;

use serde_json::{Value, json};

use self::{
    progress::report,
    rollout::{recreate, roll},
};
use super::template_hash;
use crate::{
    Actor, Caches, Context, Key, Kind, Object, faults,
    kind::{DEPLOYMENT, POD, REPLICA_SET},
    object::{
        annotation, controlled_by, controller_key, is_deleted, name, namespace, number, text, time,
        truth,
    },
};

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const TEMPLATE_HASH: &str = "pod-template-hash";

#[derive(Clone, Copy, Debug)]
pub struct Deployments;

struct Rollout {
    deployment: Object,
    replicas: i64,
    /// The ReplicaSet with the Deployment's template.
    new: Option<Object>,
    /// Oldest first.
    old: Vec<Object>,
}

impl Rollout {
    fn sets(&self) -> impl Iterator<Item = &Object> {
        self.old.iter().chain(&self.new)
    }

    /// Sum of a number over all ReplicaSets.
    fn total(&self, pointer: &str) -> i64 {
        self.sets()
            .map(|set| number(set, pointer).unwrap_or_default())
            .sum()
    }
}

impl Actor for Deployments {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[DEPLOYMENT, REPLICA_SET, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            DEPLOYMENT => vec![Key::of(object)],
            REPLICA_SET => controller_key(object, DEPLOYMENT).into_iter().collect(),
            // Pods matter only to the strategy Recreate, which waits until the old ones are
            // deleted.
            _ => controller_key(object, REPLICA_SET)
                .and_then(|key| controller_key(caches.get(REPLICA_SET, &key)?, DEPLOYMENT))
                .into_iter()
                .collect(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(deployment) = ctx.observed(DEPLOYMENT) else {
            return;
        };
        if is_deleted(&deployment) {
            return;
        }
        let mut rollout = observe(ctx.caches, &deployment);
        let is_paused = truth(&deployment, "/spec/paused");
        if rollout.new.is_none() && !is_paused {
            if is_recreated(&deployment) && has_old_pods(ctx.caches, &rollout) {
                recreate(ctx, &rollout);
            } else {
                create_new(ctx, &rollout);
            }
        } else if is_paused {
            rollout::scale_only(ctx, &rollout);
        } else {
            follow_revision(ctx, &mut rollout);
            if is_recreated(&deployment) {
                recreate(ctx, &rollout);
            } else {
                roll(ctx, &rollout);
            }
            clean_up(ctx, &rollout);
        }
        report(ctx, &rollout);
    }
}

fn is_recreated(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

fn observe(caches: &Caches, deployment: &Object) -> Rollout {
    let template = deployment
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default();
    let mut sets: Vec<Object> = caches.children(REPLICA_SET, deployment).cloned().collect();
    sets.sort_by_key(|set| {
        (
            time(set, "/metadata/creationTimestamp"),
            name(set).to_owned(),
        )
    });
    let position = sets.iter().position(|set| template_of(set) == template);
    let new = position.map(|position| sets.remove(position));
    Rollout {
        deployment: Arc::clone(deployment),
        replicas: number(deployment, "/spec/replicas").unwrap_or(1),
        new,
        old: sets,
    }
}

/// Template that a ReplicaSet was created from.
fn template_of(set: &Value) -> Value {
    let mut template = set.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

fn has_old_pods(caches: &Caches, rollout: &Rollout) -> bool {
    rollout
        .old
        .iter()
        .any(|set| caches.children(POD, set).next().is_some())
}

fn revision(object: &Value) -> i64 {
    annotation(object, REVISION)
        .and_then(|revision| revision.parse().ok())
        .unwrap_or_default()
}

fn next_revision(rollout: &Rollout) -> i64 {
    rollout
        .old
        .iter()
        .map(|set| revision(set))
        .max()
        .unwrap_or_default()
        + 1
}

fn create_new(ctx: &mut Context<'_>, rollout: &Rollout) {
    let deployment = &rollout.deployment;
    let template = deployment
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default();
    let hash = template_hash(&template);
    let replicas = rollout::first_replicas(rollout);
    let mut labels = template
        .pointer("/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    labels[TEMPLATE_HASH] = hash.as_str().into();
    let mut selector = deployment
        .pointer("/spec/selector")
        .cloned()
        .unwrap_or_else(|| json!({}));
    selector["matchLabels"][TEMPLATE_HASH] = hash.as_str().into();
    let mut template = template;
    template["metadata"]["labels"] = labels.clone();
    let set_name = format!("{}-{hash}", name(deployment));
    let mut annotations = deployment
        .pointer("/metadata/annotations")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        // Pods get the Deployment's fault through their owners, so that removing it takes effect.
        annotations.remove(faults::ANNOTATION);
    }
    annotations[REVISION] = next_revision(rollout).to_string().into();
    annotations[DESIRED] = rollout.replicas.to_string().into();
    annotations[MAX] = (rollout.replicas + rollout::surge(rollout))
        .to_string()
        .into();
    ctx.create(
        REPLICA_SET,
        json!({
            "metadata": {
                "name": set_name,
                "namespace": namespace(deployment),
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [controlled_by(DEPLOYMENT, deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": number(deployment, "/spec/minReadySeconds").unwrap_or_default(),
                "selector": selector,
                "template": template,
            },
        }),
    );
    if replicas > 0 {
        let scaled = format!("Scaled up replica set {set_name} from 0 to {replicas}");
        ctx.normal(DEPLOYMENT, deployment, "ScalingReplicaSet", scaled);
    }
}

/// Gives the current ReplicaSet the highest revision, also after a rollback to an old one, and
/// copies it to the Deployment.
fn follow_revision(ctx: &mut Context<'_>, rollout: &mut Rollout) {
    let Some(new) = &rollout.new else {
        return;
    };
    let wanted = next_revision(rollout).max(revision(new));
    let annotations = json!({"metadata": {"annotations": {REVISION: wanted.to_string()}}});
    ctx.patch(REPLICA_SET, new, annotations.clone());
    ctx.patch(DEPLOYMENT, &rollout.deployment, annotations);
}

/// Deletes old ReplicaSets beyond revisionHistoryLimit.
fn clean_up(ctx: &mut Context<'_>, rollout: &Rollout) {
    let limit = number(&rollout.deployment, "/spec/revisionHistoryLimit").unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut empty: Vec<&Object> = rollout
        .old
        .iter()
        .filter(|set| {
            number(set, "/spec/replicas") == Some(0)
                && number(set, "/status/replicas").unwrap_or_default() == 0
                && !is_deleted(set)
        })
        .collect();
    empty.sort_by_key(|set| revision(set));
    let surplus = empty.len().saturating_sub(limit);
    for set in empty.into_iter().take(surplus) {
        ctx.delete(REPLICA_SET, set);
    }
}

#[cfg(test)]
mod tests;
