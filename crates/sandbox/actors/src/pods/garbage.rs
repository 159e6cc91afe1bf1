//! Pod garbage collector: deletes pods whose node no longer exists.

use std::time::Duration;

use serde_json::Value;

use super::is_finished;
use crate::{
    Actor, Caches, Context, Key, Kind,
    kind::{NODE, POD},
    nodes::{is_simulated, is_unready, pods_of},
    object::{is_deleted, list, text},
};

/// How long a node must be missing before its pods are deleted.
const QUARANTINE: Duration = Duration::from_secs(40);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

#[derive(Clone, Copy, Debug)]
pub struct PodGarbageCollector;

impl Actor for PodGarbageCollector {
    fn name(&self) -> &'static str {
        "pod-garbage-collector"
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
        if node.is_empty() {
            return;
        }
        let is_orphaned = match ctx.caches.find(NODE, "", node) {
            None => ctx.waited_for(format!("node {node} to appear"), QUARANTINE),
            Some(node) => is_deleted(&pod) && is_out_of_service(node),
        };
        if !is_orphaned {
            return;
        }
        if is_finished(&pod) {
            ctx.delete_within(POD, &pod, 0);
        } else {
            ctx.status(POD, &pod, serde_json::json!({"phase": "Failed"}));
        }
    }
}

fn is_out_of_service(node: &Value) -> bool {
    let taints = list(node, "/spec/taints");
    let is_tainted = taints
        .iter()
        .any(|taint| text(taint, "/key") == OUT_OF_SERVICE);
    is_simulated(node) && is_unready(node) && is_tainted
}
