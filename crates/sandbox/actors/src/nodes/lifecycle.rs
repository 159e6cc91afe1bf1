//! The node lifecycle controller's work on pods: those of a node that is not ready are not ready.

use serde_json::{Value, json};

use super::is_simulated;
use crate::{
    Actor, Caches, Context, Key, Kind,
    kind::{NODE, POD},
    object::{condition, is_true, list, name, set_condition, text},
    pods::is_finished,
};

/// Marks the pods of nodes that do not answer as not ready. The kubelet marks them as ready again.
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
        let Some(pod) = ctx.observed(POD) else {
            return;
        };
        let node = text(&pod, "/spec/nodeName");
        let Some(node) = ctx.caches.find(NODE, "", node) else {
            return;
        };
        let is_lost = is_simulated(node) && is_unready(node);
        if !is_lost || is_finished(&pod) || !is_true(&pod, "Ready") {
            return;
        }
        // As the real one does: the status changes, the reason and the message stay empty.
        let mut ready = condition(&pod, "Ready").cloned().unwrap_or_default();
        ready["status"] = "False".into();
        let mut conditions = list(&pod, "/status/conditions").to_vec();
        set_condition(&mut conditions, ready, ctx.now);
        ctx.status(POD, &pod, json!({"conditions": conditions}));
        ctx.warning(POD, &pod, "NodeNotReady", "Node is not ready");
    }
}

/// The keys of pods that a changed pod or node concerns.
pub(crate) fn pods_of(kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
    if kind == NODE {
        let pods = caches.on_node(POD, name(object));
        return pods.map(|pod| Key::of(pod)).collect();
    }
    vec![Key::of(object)]
}

/// Whether a node that was ready before, or is registered, is not ready. A node without the
/// condition is only being registered.
pub(crate) fn is_unready(node: &Value) -> bool {
    condition(node, "Ready").is_some_and(|ready| text(ready, "/status") != "True")
}
