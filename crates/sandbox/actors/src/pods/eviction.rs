//! Taint-based eviction: deletes pods that do not tolerate a node's NoExecute taint.
//!
//! A pod that tolerates the taint for tolerationSeconds is deleted that long after the taint was
//! added. Like grace periods, tolerationSeconds do not depend on the speed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{is_active, taints::tolerations_of};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{NODE, POD},
    nodes::{pod_on_simulated_node, pods_of},
    object::{list, name, namespace, number, set_condition, text, time},
};

#[derive(Clone, Copy, Debug)]
pub struct TaintEviction;

impl Actor for TaintEviction {
    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[POD, NODE]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        pods_of(kind, object, caches)
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some((pod, node)) = pod_on_simulated_node(ctx).filter(|(pod, _)| is_active(pod)) else {
            return;
        };
        let tolerations = list(&pod, "/spec/tolerations");
        let mut is_due = false;
        for taint in list(&node, "/spec/taints") {
            if text(taint, "/effect") != "NoExecute" {
                continue;
            }
            let since = time(taint, "/timeAdded").unwrap_or(ctx.now);
            is_due |= match tolerated_for(tolerations, taint) {
                Tolerated::No => true,
                Tolerated::For(seconds) => ctx.has_elapsed(since, seconds),
                Tolerated::Forever => false,
            };
        }
        if is_due {
            evict(ctx, &pod);
        }
    }
}

fn evict(ctx: &mut Context<'_>, pod: &Object) {
    let mut conditions = list(pod, "/status/conditions").to_vec();
    let target = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    });
    let is_marked = conditions
        .iter()
        .any(|condition| text(condition, "/reason") == "DeletionByTaintManager");
    if is_marked {
        ctx.delete(POD, pod);
    } else {
        let message = format!("Marking for deletion Pod {}/{}", namespace(pod), name(pod));
        ctx.normal(POD, pod, "TaintManagerEviction", message);
        set_condition(&mut conditions, target, ctx.now);
        ctx.status(POD, pod, json!({"conditions": conditions}));
    }
}

/// How long a pod may stay on a node with a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerated {
    No,
    For(Duration),
    Forever,
}

/// Shortest time that the matching tolerations grant.
fn tolerated_for(tolerations: &[Value], taint: &Value) -> Tolerated {
    let mut matching = tolerations_of(tolerations, taint).peekable();
    if matching.peek().is_none() {
        return Tolerated::No;
    }
    let shortest = matching
        .filter_map(|toleration| number(toleration, "/tolerationSeconds"))
        .min();
    match shortest {
        None => Tolerated::Forever,
        Some(seconds) => Tolerated::For(Duration::from_secs(
            u64::try_from(seconds).unwrap_or_default(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!([]), Tolerated::No)]
    #[case(json!([{"key": "other", "operator": "Exists"}]), Tolerated::No)]
    #[case(json!([{"operator": "Exists"}]), Tolerated::Forever)]
    #[case(json!([{"operator": "Exists", "tolerationSeconds": 30}]), Tolerated::For(Duration::from_secs(30)))]
    #[case(json!([{"operator": "Exists", "tolerationSeconds": -5}]), Tolerated::For(Duration::ZERO))]
    #[case(
        json!([
            {"operator": "Exists"},
            {"key": "down", "operator": "Exists", "tolerationSeconds": 300},
            {"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ]),
        Tolerated::For(Duration::from_secs(60))
    )]
    fn the_shortest_toleration_counts(#[case] tolerations: Value, #[case] expected: Tolerated) {
        let taint = json!({"key": "down", "effect": "NoExecute"});
        let tolerations = list(&json!({"t": tolerations}), "/t").to_vec();
        assert_eq!(tolerated_for(&tolerations, &taint), expected);
    }
}
