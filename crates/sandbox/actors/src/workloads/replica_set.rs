//! ReplicaSet controller.

use serde_json::{Value, json};

use super::{count, name_pod, pod_of, selects, shown};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{POD, REPLICA_SET},
    object::{controller_key, generation, is_deleted, is_true, name, number, text},
    pods::{is_active, is_available},
};

#[derive(Clone, Copy, Debug)]
pub struct ReplicaSets;

impl Actor for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[REPLICA_SET, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        if kind == POD {
            return controller_key(object, REPLICA_SET).into_iter().collect();
        }
        vec![Key::of(object)]
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(set) = ctx.observed(REPLICA_SET) else {
            return;
        };
        let pods = ctx.caches.children(POD, &set).filter(|pod| is_active(pod));
        let mut pods: Vec<Object> = pods.cloned().collect();
        if !is_deleted(&set) {
            scale(ctx, &set, &mut pods);
        }
        let min_ready = number(&set, "/spec/minReadySeconds").unwrap_or_default();
        let template = json!({"matchLabels": set.pointer("/spec/template/metadata/labels")});
        let available = count(pods.iter().filter(|pod| is_available(ctx, pod, min_ready)));
        ctx.status(REPLICA_SET, &set, json!({
            // Required: shown even if zero.
            "replicas": count(pods.iter()),
            "fullyLabeledReplicas": shown(count(pods.iter().filter(|pod| selects(&template, pod)))),
            "readyReplicas": shown(count(pods.iter().filter(|pod| is_true(pod, "Ready")))),
            "availableReplicas": shown(available),
            "observedGeneration": generation(&set),
        }));
    }
}

/// Creates missing pods or deletes surplus ones.
fn scale(ctx: &mut Context<'_>, set: &Object, pods: &mut Vec<Object>) {
    let wanted = number(set, "/spec/replicas").unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or_default();
    for number in pods.len()..wanted {
        let pod_name = name_pod(ctx, set, number);
        let mut pod = pod_of(REPLICA_SET, set);
        pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
        pod["metadata"]["name"] = pod_name.as_str().into();
        ctx.create(POD, pod);
        ctx.normal(
            REPLICA_SET,
            set,
            "SuccessfulCreate",
            format!("Created pod: {pod_name}"),
        );
    }
    // Surplus pods are popped from the end: the least useful first.
    pods.sort_by_key(|pod| std::cmp::Reverse(usefulness(pod)));
    for pod in pods.split_off(wanted.min(pods.len())) {
        ctx.delete(POD, &pod);
        ctx.normal(
            REPLICA_SET,
            set,
            "SuccessfulDelete",
            format!("Deleted pod: {}", name(&pod)),
        );
    }
}

/// Scheduled, running, ready and older pods rank higher.
fn usefulness(
    pod: &Value,
) -> (
    bool,
    bool,
    bool,
    std::cmp::Reverse<String>,
    std::cmp::Reverse<String>,
) {
    (
        !text(pod, "/spec/nodeName").is_empty(),
        text(pod, "/status/phase") == "Running",
        is_true(pod, "Ready"),
        std::cmp::Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
        std::cmp::Reverse(name(pod).to_owned()),
    )
}
