//! Scaling of a Deployment's ReplicaSets.

use serde_json::json;

use super::{DESIRED, MAX, Rollout, has_old_pods, is_recreated};
use crate::{
    Context, Object,
    kind::{DEPLOYMENT, REPLICA_SET},
    object::{name, number},
    workloads::share,
};

/// Number of pods allowed above the desired number.
pub(super) fn surge(rollout: &Rollout) -> i64 {
    if is_recreated(&rollout.deployment) {
        return 0;
    }
    let given = rollout
        .deployment
        .pointer("/spec/strategy/rollingUpdate/maxSurge");
    share(given, &json!("25%"), rollout.replicas, true)
}

/// Number of desired pods that may be unavailable.
fn max_unavailable(rollout: &Rollout) -> i64 {
    let given = rollout
        .deployment
        .pointer("/spec/strategy/rollingUpdate/maxUnavailable");
    let unavailable = share(given, &json!("25%"), rollout.replicas, false);
    // With both at zero, no rollout could make progress.
    if unavailable == 0 && surge(rollout) == 0 {
        1
    } else {
        unavailable.min(rollout.replicas)
    }
}

fn spec_replicas(set: &Object) -> i64 {
    number(set, "/spec/replicas").unwrap_or(1)
}

fn available(set: &Object) -> i64 {
    number(set, "/status/availableReplicas").unwrap_or_default()
}

/// Initial replicas of the new ReplicaSet.
pub(super) fn first_replicas(rollout: &Rollout) -> i64 {
    if is_recreated(&rollout.deployment) {
        return rollout.replicas;
    }
    let room = rollout.replicas + surge(rollout) - rollout.total("/spec/replicas");
    room.clamp(0, rollout.replicas.max(0))
}

/// Deletes all old pods before it creates new ones.
pub(super) fn recreate(ctx: &mut Context<'_>, rollout: &Rollout) {
    let mut is_busy = false;
    for set in &rollout.old {
        if spec_replicas(set) > 0 {
            scale(ctx, rollout, set, 0);
            is_busy = true;
        }
    }
    if let Some(new) = &rollout.new
        && !is_busy
        && !has_old_pods(ctx.caches, rollout)
    {
        scale(ctx, rollout, new, rollout.replicas);
    }
}

/// One step of a rolling update: scales the new ReplicaSet up within the surge, and old ones down
/// while enough pods are available.
pub(super) fn roll(ctx: &mut Context<'_>, rollout: &Rollout) {
    let Some(new) = &rollout.new else {
        return;
    };
    let current = spec_replicas(new);
    if current > rollout.replicas {
        scale(ctx, rollout, new, rollout.replicas);
        return;
    }
    let room = rollout.replicas + surge(rollout) - rollout.total("/spec/replicas");
    if current < rollout.replicas && room > 0 {
        scale(
            ctx,
            rollout,
            new,
            current + room.min(rollout.replicas - current),
        );
        return;
    }
    if rollout.old.iter().any(|set| spec_replicas(set) > 0) {
        scale_down(ctx, rollout, new);
    } else {
        note_wanted(ctx, rollout, new);
    }
}

fn scale_down(ctx: &mut Context<'_>, rollout: &Rollout, new: &Object) {
    let least = rollout.replicas - max_unavailable(rollout);
    let new_missing = spec_replicas(new) - available(new);
    let mut spare = rollout.total("/spec/replicas") - least - new_missing;
    if spare <= 0 {
        return;
    }
    // Unavailable pods first: deleting them does not reduce availability.
    let mut left: Vec<(usize, i64)> = Vec::new();
    for (index, set) in rollout.old.iter().enumerate() {
        let current = spec_replicas(set);
        let unhealthy = (current - available(set)).clamp(0, spare.max(0));
        spare -= unhealthy;
        left.push((index, current - unhealthy));
    }
    let mut spare = rollout.total("/status/availableReplicas") - least;
    for (index, wanted) in left {
        let Some(set) = rollout.old.get(index) else {
            continue;
        };
        let fewer = wanted.min(available(set)).clamp(0, spare.max(0));
        spare -= fewer;
        scale(ctx, rollout, set, wanted - fewer);
    }
}

/// Scales a paused Deployment without rolling out its template.
pub(super) fn scale_only(ctx: &mut Context<'_>, rollout: &Rollout) {
    let mut active = rollout.sets().filter(|set| spec_replicas(set) > 0);
    if let (Some(only), None) = (active.next(), active.next()) {
        scale(ctx, rollout, only, rollout.replicas);
    }
}

fn scale(ctx: &mut Context<'_>, rollout: &Rollout, set: &Object, to: i64) {
    let from = spec_replicas(set);
    if from != to {
        let direction = if to > from { "up" } else { "down" };
        let scaled = format!(
            "Scaled {direction} replica set {} from {from} to {to}",
            name(set)
        );
        ctx.normal(DEPLOYMENT, &rollout.deployment, "ScalingReplicaSet", scaled);
        ctx.patch(REPLICA_SET, set, json!({"spec": {"replicas": to}}));
    }
    note_wanted(ctx, rollout, set);
}

fn note_wanted(ctx: &mut Context<'_>, rollout: &Rollout, set: &Object) {
    let most = rollout.replicas + surge(rollout);
    ctx.patch(
        REPLICA_SET,
        set,
        json!({"metadata": {"annotations": {
            DESIRED: rollout.replicas.to_string(),
            MAX: most.to_string(),
        }}}),
    );
}
