//! DaemonSet controller.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::taints::DAEMON_TAINTS;
use serde_json::{Value, json};

use super::{count, name_pod, pod_of, share, shown, template_hash};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD},
    object::{
        controlled_by, controller_key, generation, is_deleted, is_true, label, list, name,
        namespace, number, text,
    },
    pods::{affinity::admits, is_available, is_finished, taints::untolerated},
};

const REVISION_HASH: &str = "controller-revision-hash";

#[derive(Clone, Copy, Debug)]
pub struct DaemonSets;

impl Actor for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[DAEMON_SET, POD, NODE, CONTROLLER_REVISION]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            NODE => caches.all(DAEMON_SET).map(|set| Key::of(set)).collect(),
            DAEMON_SET => vec![Key::of(object)],
            _ => controller_key(object, DAEMON_SET).into_iter().collect(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(set) = ctx.observed(DAEMON_SET) else {
            return;
        };
        if is_deleted(&set) {
            return;
        }
        let hash = template_hash(set.pointer("/spec/template").unwrap_or(&Value::Null));
        record_revision(ctx, &set, &hash);
        let places = Places::observe(ctx, &set);
        place(ctx, &set, &places, &hash);
        if text(&set, "/spec/updateStrategy/type") != "OnDelete" {
            update(ctx, &set, &places, &hash);
        }
        report(ctx, &set, &places, &hash);
    }
}

/// Nodes that need a pod, and the existing pods.
struct Places {
    wanted: Vec<String>,
    pods: BTreeMap<String, Vec<Object>>,
    /// Names of the pods that are available.
    available: BTreeSet<String>,
}

impl Places {
    fn observe(ctx: &mut Context<'_>, set: &Value) -> Self {
        let caches = ctx.caches;
        let spec = pod_spec(set);
        let tolerations = list(&spec, "/tolerations").to_vec();
        let wanted = caches.all(NODE).filter(|node| {
            admits(&spec, node)
                && untolerated(node, &tolerations, &["NoSchedule", "NoExecute"]).is_none()
        });
        let wanted = wanted.map(|node| name(node).to_owned()).collect();
        let mut pods = BTreeMap::<String, Vec<Object>>::new();
        for pod in caches.children(POD, set) {
            pods.entry(node_of(pod).to_owned())
                .or_default()
                .push(Object::clone(pod));
        }
        let mut places = Self {
            wanted,
            pods,
            available: BTreeSet::new(),
        };
        let min_ready = number(set, "/spec/minReadySeconds").unwrap_or_default();
        let available = places
            .current()
            .filter(|pod| is_available(ctx, pod, min_ready));
        places.available = available.map(|pod| name(pod).to_owned()).collect();
        places
    }

    fn on(&self, node: &str) -> &[Object] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// The pod that counts for each of the nodes.
    fn current(&self) -> impl Iterator<Item = &Object> {
        self.wanted.iter().filter_map(|node| {
            self.on(node)
                .iter()
                .find(|pod| !is_deleted(pod) && !is_finished(pod))
        })
    }
}

/// Node that a pod runs on or is pinned to.
fn node_of(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound;
    }
    text(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
    )
}

/// Pod spec of the template, with the tolerations that all daemon pods have.
fn pod_spec(set: &Value) -> Value {
    let mut spec = set
        .pointer("/spec/template/spec")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let mut tolerations = list(&spec, "/tolerations").to_vec();
    for (key, effect) in DAEMON_TAINTS {
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    if spec.pointer("/hostNetwork") == Some(&Value::Bool(true)) {
        let key = "node.kubernetes.io/network-unavailable";
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}));
    }
    spec["tolerations"] = tolerations.into();
    spec
}

/// Creates missing pods; deletes finished and surplus pods, and those on nodes that need none.
fn place(ctx: &mut Context<'_>, set: &Object, places: &Places, hash: &str) {
    for (number, node) in places.wanted.iter().enumerate() {
        let pods = places.on(node);
        for failed in pods
            .iter()
            .filter(|pod| is_finished(pod) && !is_deleted(pod))
        {
            ctx.delete(POD, failed);
        }
        // A terminating pod still occupies its node.
        if pods.is_empty() {
            create(ctx, set, node, hash, number);
        }
        let alive = pods
            .iter()
            .filter(|pod| !is_deleted(pod) && !is_finished(pod));
        for surplus in alive.skip(1) {
            ctx.delete(POD, surplus);
        }
    }
    for (node, pods) in &places.pods {
        if !places.wanted.contains(node) {
            for pod in pods.iter().filter(|pod| !is_deleted(pod)) {
                delete(ctx, set, pod);
            }
        }
    }
}

fn delete(ctx: &mut Context<'_>, set: &Object, pod: &Object) {
    ctx.delete(POD, pod);
    let message = format!("Deleted pod: {}", name(pod));
    ctx.normal(DAEMON_SET, set, "SuccessfulDelete", message);
}

fn create(ctx: &mut Context<'_>, set: &Object, node: &str, hash: &str, number: usize) {
    let pod_name = name_pod(ctx, set, number);
    let mut pod = pod_of(DAEMON_SET, set);
    let mut spec = pod_spec(set);
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [node]},
    ]}]});
    pod["spec"] = spec;
    pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
    pod["metadata"]["name"] = pod_name.as_str().into();
    pod["metadata"]["labels"][REVISION_HASH] = hash.into();
    pod["metadata"]["labels"]["pod-template-generation"] = generation(set).to_string().into();
    ctx.create(POD, pod);
    ctx.normal(
        DAEMON_SET,
        set,
        "SuccessfulCreate",
        format!("Created pod: {pod_name}"),
    );
}

/// Deletes pods of older templates, at most maxUnavailable at a time.
fn update(ctx: &mut Context<'_>, set: &Object, places: &Places, hash: &str) {
    let whole = count(places.wanted.iter());
    let most = share(
        set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"),
        &json!(1),
        whole,
        true,
    )
    .max(1);
    let mut allowed = most - (whole - count(places.available.iter()));
    let old = places
        .current()
        .filter(|pod| label(pod, REVISION_HASH) != Some(hash));
    let (useless, useful): (Vec<_>, Vec<_>) =
        old.partition(|pod| !places.available.contains(name(pod)));
    for pod in useless {
        ctx.delete(POD, pod);
    }
    for pod in useful {
        if allowed > 0 {
            allowed -= 1;
            delete(ctx, set, pod);
        }
    }
}

fn report(ctx: &mut Context<'_>, set: &Object, places: &Places, hash: &str) {
    let desired = count(places.wanted.iter());
    let available = count(places.available.iter());
    let current =
        |filter: &dyn Fn(&Object) -> bool| count(places.current().filter(|pod| filter(pod)));
    let misplaced = places
        .pods
        .iter()
        .filter(|(node, pods)| !pods.is_empty() && !places.wanted.contains(node));
    ctx.status(DAEMON_SET, set, json!({
        "currentNumberScheduled": current(&|_| true),
        "desiredNumberScheduled": desired,
        "numberMisscheduled": count(misplaced),
        "numberReady": current(&|pod| is_true(pod, "Ready")),
        "updatedNumberScheduled": shown(current(&|pod| label(pod, REVISION_HASH) == Some(hash))),
        "numberAvailable": shown(available),
        "numberUnavailable": shown(desired - available),
        "observedGeneration": generation(set),
    }));
}

/// Stores the template in a ControllerRevision, for `kubectl rollout history` and `undo`.
fn record_revision(ctx: &mut Context<'_>, set: &Object, hash: &str) {
    let mut revisions: Vec<&Object> = ctx.caches.children(CONTROLLER_REVISION, set).collect();
    let of = |object: &Object| number(object, "/revision").unwrap_or_default();
    let newest = revisions
        .iter()
        .map(|revision| of(revision))
        .max()
        .unwrap_or_default();
    let current = revisions
        .iter()
        .find(|revision| label(revision, REVISION_HASH) == Some(hash));
    if let Some(current) = current.copied().cloned() {
        if of(&current) < newest {
            ctx.patch(
                CONTROLLER_REVISION,
                &current,
                json!({"revision": newest + 1}),
            );
        }
    } else {
        let mut template = set
            .pointer("/spec/template")
            .cloned()
            .unwrap_or_else(|| json!({}));
        template["$patch"] = "replace".into();
        let mut labels = set
            .pointer("/spec/template/metadata/labels")
            .cloned()
            .unwrap_or_else(|| json!({}));
        labels[REVISION_HASH] = hash.into();
        ctx.create(
            CONTROLLER_REVISION,
            json!({
                "metadata": {
                    "name": format!("{}-{hash}", name(set)),
                    "namespace": namespace(set),
                    "labels": labels,
                    "ownerReferences": [controlled_by(DAEMON_SET, set)],
                },
                "data": {"spec": {"template": template}},
                "revision": newest + 1,
            }),
        );
    }
    let limit = number(set, "/spec/revisionHistoryLimit").unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or_default();
    revisions.retain(|revision| label(revision, REVISION_HASH) != Some(hash));
    revisions.sort_by_key(|revision| of(revision));
    let surplus = revisions.len().saturating_sub(limit);
    for revision in revisions
        .into_iter()
        .take(surplus)
        .cloned()
        .collect::<Vec<_>>()
    {
        ctx.delete(CONTROLLER_REVISION, &revision);
    }
}

#[cfg(test)]
mod tests;
