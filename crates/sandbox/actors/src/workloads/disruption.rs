//! PodDisruptionBudget controller.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{count, selects, share};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, STATEFUL_SET},
    object::{
        controller, controller_key, generation, is_deleted, is_true, list, name, namespace, number,
        set_condition, text,
    },
    pods::is_finished,
};

#[derive(Clone, Copy, Debug)]
pub struct DisruptionBudgets;

impl Actor for DisruptionBudgets {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[
            DISRUPTION_BUDGET,
            POD,
            REPLICA_SET,
            DEPLOYMENT,
            STATEFUL_SET,
        ]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            DISRUPTION_BUDGET => vec![Key::of(object)],
            POD => caches
                .within(DISRUPTION_BUDGET, namespace(object))
                .filter(|budget| covers(budget, object))
                .map(|budget| Key::of(budget))
                .collect(),
            _ => caches
                .within(DISRUPTION_BUDGET, namespace(object))
                .map(|budget| Key::of(budget))
                .collect(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(budget) = ctx.observed(DISRUPTION_BUDGET) else {
            return;
        };
        if is_deleted(&budget) {
            return;
        }
        let caches = ctx.caches;
        let pods: Vec<&Object> = caches
            .within(POD, namespace(&budget))
            .filter(|pod| covers(&budget, pod) && !is_finished(pod))
            .collect();
        let (expected, desired) = wanted(caches, &budget, &pods);
        // Pods whose eviction the API server has admitted count as deleted.
        let promised = budget.pointer("/status/disruptedPods");
        let is_promised =
            |pod: &Value| promised.is_some_and(|promised| promised.get(name(pod)).is_some());
        let healthy = count(
            pods.iter()
                .filter(|pod| is_true(pod, "Ready") && !is_deleted(pod) && !is_promised(pod)),
        );
        let kept: Map<String, Value> = promised
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(promised, at)| {
                let is_there = |pod: &&Object| name(pod) == promised && !is_deleted(pod);
                let kept = pods.iter().any(is_there).then(|| at.clone());
                (promised.clone(), kept.unwrap_or(Value::Null))
            })
            .collect();
        let allowed = if expected > 0 {
            (healthy - desired).max(0)
        } else {
            0
        };
        let mut conditions = list(&budget, "/status/conditions").to_vec();
        let (status, reason) = if allowed > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": generation(&budget),
        });
        set_condition(&mut conditions, condition, ctx.now);
        let mut status = json!({
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation(&budget),
            "conditions": conditions,
        });
        if !kept.is_empty() {
            status["disruptedPods"] = kept.into();
        }
        ctx.status(DISRUPTION_BUDGET, &budget, status);
    }
}

fn covers(budget: &Value, pod: &Value) -> bool {
    budget
        .pointer("/spec/selector")
        .is_some_and(|selector| selects(selector, pod))
}

/// Expected number of pods, and how many of them must be healthy.
fn wanted(caches: &Caches, budget: &Value, pods: &[&Object]) -> (i64, i64) {
    let present = count(pods.iter());
    if let Some(unavailable) = budget.pointer("/spec/maxUnavailable") {
        let expected = expected(caches, pods);
        return (
            expected,
            (expected - share(Some(unavailable), &json!(1), expected, true)).max(0),
        );
    }
    match budget.pointer("/spec/minAvailable") {
        Some(percent) if percent.is_string() => {
            let expected = expected(caches, pods);
            (expected, share(Some(percent), &json!(1), expected, true))
        }
        number => (present, number.and_then(Value::as_i64).unwrap_or(1)),
    }
}

/// Sum of the replicas of the pods' controllers; a pod without a scalable one counts as 1.
fn expected(caches: &Caches, pods: &[&Object]) -> i64 {
    let mut by_controller = BTreeMap::<String, i64>::new();
    let mut single = 0;
    for pod in pods {
        let scale = [REPLICA_SET, STATEFUL_SET].into_iter().find_map(|kind| {
            let owner = caches.get(kind, &controller_key(pod, kind)?)?;
            let top =
                controller_key(owner, DEPLOYMENT).and_then(|key| caches.get(DEPLOYMENT, &key));
            number(top.unwrap_or(owner), "/spec/replicas").map(|replicas| {
                (
                    text(top.unwrap_or(owner), "/metadata/uid").to_owned(),
                    replicas,
                )
            })
        });
        match (scale, controller(pod)) {
            (Some((uid, replicas)), _) => {
                by_controller.insert(uid, replicas);
            }
            (None, _) => single += 1,
        }
    }
    by_controller.values().sum::<i64>() + single
}
