//! StatefulSet controller.

use serde_json::{Value, json};

use super::{count, pod_of, shown, template_hash};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{CLAIM, POD, STATEFUL_SET},
    object::{
        controller_key, generation, is_deleted, is_true, label, list, name, namespace, number, text,
    },
    pods::{is_available, is_finished},
};

const REVISION_HASH: &str = "controller-revision-hash";

#[derive(Clone, Copy, Debug)]
pub struct StatefulSets;

impl Actor for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[STATEFUL_SET, POD, CLAIM]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        match kind {
            POD => controller_key(object, STATEFUL_SET).into_iter().collect(),
            STATEFUL_SET => vec![Key::of(object)],
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(set) = ctx.observed(STATEFUL_SET) else {
            return;
        };
        if is_deleted(&set) {
            return;
        }
        let template = set.pointer("/spec/template").unwrap_or(&Value::Null);
        let revision = format!("{}-{}", name(&set), template_hash(template));
        let mut pods: Vec<(i64, Object)> = ctx
            .caches
            .children(POD, &set)
            .filter_map(|pod| Some((ordinal(pod)?, Object::clone(pod))))
            .collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        step(ctx, &set, &pods, &revision);
        report(ctx, &set, &pods, &revision);
    }
}

fn ordinal(pod: &Value) -> Option<i64> {
    name(pod).rsplit_once('-')?.1.parse().ok()
}

/// The next write; with `Parallel`, all writes at once.
fn step(ctx: &mut Context<'_>, set: &Object, pods: &[(i64, Object)], revision: &str) {
    let is_parallel = text(set, "/spec/podManagementPolicy") == "Parallel";
    let first = number(set, "/spec/ordinals/start").unwrap_or_default();
    let wanted = first..first + number(set, "/spec/replicas").unwrap_or(1);
    let find = |ordinal: i64| {
        pods.iter()
            .find(|(of, _)| *of == ordinal)
            .map(|(_, pod)| pod)
    };
    for ordinal in wanted.clone() {
        let is_ready = match find(ordinal) {
            None => {
                create(ctx, set, ordinal, revision);
                false
            }
            Some(pod) if is_finished(pod) && !is_deleted(pod) => {
                ctx.delete(POD, pod);
                false
            }
            Some(pod) => is_true(pod, "Ready") && !is_deleted(pod),
        };
        if !is_ready && !is_parallel {
            return;
        }
    }
    for (_, pod) in pods
        .iter()
        .rev()
        .filter(|(ordinal, _)| !wanted.contains(ordinal))
    {
        if !is_deleted(pod) {
            ctx.delete(POD, pod);
        }
        if !is_parallel {
            return;
        }
    }
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return;
    }
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default();
    for (ordinal, pod) in pods.iter().rev() {
        if *ordinal >= partition && label(pod, REVISION_HASH) != Some(revision) && !is_deleted(pod)
        {
            ctx.delete(POD, pod);
            return;
        }
        if !is_true(pod, "Ready") {
            return;
        }
    }
}

fn create(ctx: &mut Context<'_>, set: &Object, ordinal: i64, revision: &str) {
    let pod_name = format!("{}-{ordinal}", name(set));
    let mut pod = pod_of(STATEFUL_SET, set);
    let mut volumes = list(&pod, "/spec/volumes").to_vec();
    for template in list(set, "/spec/volumeClaimTemplates") {
        let claim_name = format!("{}-{pod_name}", name(template));
        volumes.retain(|volume| text(volume, "/name") != name(template));
        volumes.push(json!({
            "name": name(template),
            "persistentVolumeClaim": {"claimName": claim_name},
        }));
        if ctx
            .caches
            .find(CLAIM, namespace(set), &claim_name)
            .is_none()
        {
            let labels = set.pointer("/spec/selector/matchLabels").cloned();
            ctx.create(
                CLAIM,
                json!({
                    "metadata": {"name": claim_name, "namespace": namespace(set), "labels": labels},
                    "spec": template.get("spec"),
                }),
            );
        }
    }
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
    pod["spec"]["hostname"] = pod_name.as_str().into();
    pod["spec"]["subdomain"] = text(set, "/spec/serviceName").into();
    pod["metadata"]["name"] = pod_name.as_str().into();
    pod["metadata"]["labels"][REVISION_HASH] = revision.into();
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = pod_name.as_str().into();
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
    ctx.create(POD, pod);
    let made = format!(
        "create Pod {pod_name} in StatefulSet {} successful",
        name(set)
    );
    ctx.normal(STATEFUL_SET, set, "SuccessfulCreate", made);
}

fn report(ctx: &mut Context<'_>, set: &Object, pods: &[(i64, Object)], revision: &str) {
    let min_ready = number(set, "/spec/minReadySeconds").unwrap_or_default();
    let alive = || {
        pods.iter()
            .map(|(_, pod)| pod)
            .filter(|pod| !is_deleted(pod))
    };
    let available = count(alive().filter(|pod| is_available(ctx, pod, min_ready)));
    let updated = count(alive().filter(|pod| label(pod, REVISION_HASH) == Some(revision)));
    let replicas = count(alive());
    let before = text(set, "/status/currentRevision");
    let is_current = before.is_empty() || (updated == replicas && replicas > 0);
    let current = if is_current { revision } else { before };
    let on_current = count(alive().filter(|pod| label(pod, REVISION_HASH) == Some(current)));
    ctx.status(
        STATEFUL_SET,
        set,
        json!({
            "replicas": replicas,
            "readyReplicas": shown(count(alive().filter(|pod| is_true(pod, "Ready")))),
            "availableReplicas": available,
            "updatedReplicas": shown(updated),
            "currentReplicas": shown(on_current),
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
            "observedGeneration": generation(set),
        }),
    );
}
