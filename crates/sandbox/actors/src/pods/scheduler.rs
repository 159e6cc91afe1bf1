//! kube-scheduler: binds pods to nodes.
//!
//! Honours node selectors, required node affinity, taints, cordons, readiness, requests and the
//! topology of volumes, and topology spread constraints. Inter-pod affinity, host ports and preemption
//! are not simulated.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    fit::{Wanted, fullness, misfits, no_node},
    is_finished,
    requests::requests,
    spread::Spread,
};
use crate::{
    Actor, Caches, Context, Key, Kind, Object, Step,
    actor::SELECTED_NODE,
    kind::{CLAIM, NODE, POD, STORAGE_CLASS, VOLUME},
    object::{annotation, is_deleted, list, name, namespace, set_condition, text},
};

const BIND: Step = Step::millis(20);

#[derive(Clone, Copy, Debug)]
pub struct Scheduler;

impl Actor for Scheduler {
    fn name(&self) -> &'static str {
        "default-scheduler"
    }

    fn watches(&self) -> &[Kind] {
        &[POD, NODE, CLAIM, VOLUME, STORAGE_CLASS]
    }

    fn is_serial(&self) -> bool {
        true
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        let pending = || caches.on_node(POD, "").map(|pod| Key::of(pod));
        if kind == POD {
            if text(object, "/spec/nodeName").is_empty() {
                return vec![Key::of(object)];
            }
            // Freed capacity may let another pod fit.
            return if is_finished(object) || is_deleted(object) {
                pending().collect()
            } else {
                Vec::new()
            };
        }
        if kind == CLAIM {
            return pending()
                .filter(|key| key.namespace == namespace(object))
                .collect();
        }
        pending().collect()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(pod) = ctx.observed(POD) else {
            return;
        };
        let scheduler = text(&pod, "/spec/schedulerName");
        let is_ours = scheduler.is_empty() || scheduler == "default-scheduler";
        let is_waiting = text(&pod, "/spec/nodeName").is_empty() && !is_finished(&pod);
        let is_gated = !list(&pod, "/spec/schedulingGates").is_empty();
        if !is_ours || !is_waiting || is_deleted(&pod) || is_gated {
            return;
        }
        if !ctx.waited("bind", BIND) {
            return;
        }
        match choose(ctx, &pod) {
            Choice::Node(node) => {
                ctx.bind(&pod, &node);
                let place = format!("{}/{} to {node}", namespace(&pod), name(&pod));
                ctx.normal(
                    POD,
                    &pod,
                    "Scheduled",
                    format!("Successfully assigned {place}"),
                );
            }
            Choice::WaitForVolumes(node, claims) => {
                for claim in claims {
                    let selected = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                    ctx.patch(CLAIM, &claim, selected);
                }
            }
            Choice::None(message) => unschedulable(ctx, &pod, &message),
        }
    }
}

enum Choice {
    Node(String),
    /// Waits until volumes are provisioned for this node.
    WaitForVolumes(String, Vec<Object>),
    None(String),
}

/// Constraints of a pod's claims, and the claims that wait for their first consumer.
#[derive(Default)]
struct Volumes<'a> {
    selectors: Vec<&'a Value>,
    unbound: Vec<Object>,
}

fn choose(ctx: &mut Context<'_>, pod: &Object) -> Choice {
    let caches = ctx.caches;
    let nodes: Vec<&Object> = caches.all(NODE).collect();
    if super::kubelet::pod_fault(ctx, pod, "Unschedulable").is_some() {
        let requested =
            vec![vec!["node(s) were refused by the fault Unschedulable".to_owned()]; nodes.len()];
        return Choice::None(no_node(nodes.len(), &requested));
    }
    let volumes = match volumes(caches, pod) {
        Ok(volumes) => volumes,
        Err(reason) => {
            let preemption = format!(
                "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling.",
                nodes.len()
            );
            return Choice::None(format!(
                "0/{} nodes are available: {reason}. {preemption}",
                nodes.len()
            ));
        }
    };
    if nodes.is_empty() {
        return Choice::None("no nodes available to schedule pods".to_owned());
    }
    let requests = requests(pod);
    let wanted = Wanted {
        pod,
        requests: &requests,
        volumes: volumes.selectors,
    };
    // A claim with a selected node pins the pod to it.
    let promised = volumes
        .unbound
        .iter()
        .find_map(|claim| annotation(claim, SELECTED_NODE));
    let spread = Spread::of(pod, &nodes, caches);
    let mut reasons = Vec::new();
    let mut best: Option<((i64, i128), &str)> = None;
    for node in &nodes {
        let used = caches.requested(name(node));
        let mut misfits = misfits(&wanted, node, &used);
        if misfits.is_empty() {
            misfits.extend(spread.misfit(node).map(str::to_owned));
        }
        if !misfits.is_empty() {
            reasons.push(misfits);
            continue;
        }
        let is_promised = promised == Some(name(node));
        let fullness = if is_promised {
            -1
        } else {
            fullness(&wanted, node, &used)
        };
        let crowd = if is_promised { -1 } else { spread.crowd(node) };
        if best.is_none_or(|(least, _)| (crowd, fullness) < least) {
            best = Some(((crowd, fullness), name(node)));
        }
    }
    match best {
        None => Choice::None(no_node(nodes.len(), &reasons)),
        Some((_, node)) if volumes.unbound.is_empty() => Choice::Node(node.to_owned()),
        Some((_, node)) => Choice::WaitForVolumes(node.to_owned(), volumes.unbound),
    }
}

fn volumes<'a>(caches: &'a Caches, pod: &Value) -> Result<Volumes<'a>, String> {
    let mut volumes = Volumes::default();
    for claim_name in claim_names(pod) {
        let claim = caches
            .find(CLAIM, namespace(pod), &claim_name)
            .ok_or_else(|| format!("persistentvolumeclaim {claim_name:?} not found"))?;
        if is_deleted(claim) {
            return Err(format!(
                "persistentvolumeclaim {claim_name:?} is being deleted"
            ));
        }
        if text(claim, "/status/phase") == "Lost" {
            return Err(format!(
                "persistentvolumeclaim {claim_name:?} bound to non-existent persistentvolume {:?}",
                text(claim, "/spec/volumeName")
            ));
        }
        if text(claim, "/status/phase") == "Bound" {
            let volume = caches.find(VOLUME, "", text(claim, "/spec/volumeName"));
            volumes
                .selectors
                .extend(volume.and_then(|volume| volume.pointer("/spec/nodeAffinity/required")));
        } else if crate::storage::waits_for_consumer(caches, claim) {
            volumes.unbound.push(Arc::clone(claim));
        } else {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    Ok(volumes)
}

/// Names of the claims that a pod uses, including those of ephemeral volumes.
pub(crate) fn claim_names(pod: &Value) -> impl Iterator<Item = String> {
    list(pod, "/spec/volumes").iter().filter_map(move |volume| {
        let claim = text(volume, "/persistentVolumeClaim/claimName");
        if !claim.is_empty() {
            return Some(claim.to_owned());
        }
        volume
            .get("ephemeral")
            .map(|_| format!("{}-{}", name(pod), text(volume, "/name")))
    })
}

fn unschedulable(ctx: &mut Context<'_>, pod: &Object, message: &str) {
    let mut conditions = list(pod, "/status/conditions").to_vec();
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": null,
    });
    let is_new = crate::object::condition(pod, "PodScheduled")
        .is_none_or(|old| text(old, "/message") != message);
    set_condition(&mut conditions, condition, ctx.now);
    ctx.status(POD, pod, json!({"conditions": conditions}));
    if is_new {
        ctx.warning(POD, pod, "FailedScheduling", message);
    }
}

#[cfg(test)]
mod tests;
