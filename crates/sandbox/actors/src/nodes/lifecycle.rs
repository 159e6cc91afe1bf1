//! The pod part of the node lifecycle controller: pods of unready nodes become unready.

use serde_json::{Value, json};

use super::is_simulated;
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{NODE, POD},
    object::{condition, is_true, list, name, set_condition, text},
    pods::is_finished,
};

/// Sets pods of unready nodes to not ready; the kubelet sets them to ready again.
#[derive(Clone, Copy, Debug)]
pub struct NodeLifecycle;

impl Actor for NodeLifecycle {
    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[POD, NODE]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        pods_of(kind, object, caches)
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some((pod, node)) = pod_on_simulated_node(ctx) else {
            return;
        };
        if !is_unready(&node) || is_finished(&pod) || !is_true(&pod, "Ready") {
            return;
        }
        // As the real controller does: only the status changes, reason and message stay empty.
        let mut ready = condition(&pod, "Ready").cloned().unwrap_or_default();
        ready["status"] = "False".into();
        let mut conditions = list(&pod, "/status/conditions").to_vec();
        set_condition(&mut conditions, ready, ctx.now);
        ctx.status(POD, &pod, json!({"conditions": conditions}));
        ctx.warning(POD, &pod, "NodeNotReady", "Node is not ready");
    }
}

/// The observed pod and its node, if the node is simulated.
pub(crate) fn pod_on_simulated_node(ctx: &Context<'_>) -> Option<(Object, Object)> {
    let pod = ctx.observed(POD)?;
    let node = ctx.caches.find(NODE, "", text(&pod, "/spec/nodeName"));
    let node = node.filter(|node| is_simulated(node))?.clone();
    Some((pod, node))
}

/// Keys of the pods that a changed pod or node affects.
pub(crate) fn pods_of(kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
    if kind == NODE {
        let pods = caches.on_node(POD, name(object));
        return pods.map(|pod| Key::of(pod)).collect();
    }
    vec![Key::of(object)]
}

/// Whether a registered node is not ready. A node without the condition is still being registered.
pub(crate) fn is_unready(node: &Value) -> bool {
    condition(node, "Ready").is_some_and(|ready| text(ready, "/status") != "True")
}
