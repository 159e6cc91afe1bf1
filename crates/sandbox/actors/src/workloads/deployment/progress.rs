//! Status of a Deployment's rollout.

use std::time::Duration;

use serde_json::{Value, json};

use super::Rollout;
use crate::{
    Context,
    kind::DEPLOYMENT,
    object::{condition, generation, list, name, number, set_condition, text, time, truth},
    workloads::{share, shown},
};

const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const COMPLETE: &str = "NewReplicaSetAvailable";

pub(super) fn report(ctx: &mut Context<'_>, rollout: &Rollout) {
    let deployment = &rollout.deployment;
    let of_new = |pointer| {
        rollout
            .new
            .as_ref()
            .and_then(|new| number(new, pointer))
            .unwrap_or_default()
    };
    let replicas = rollout.total("/status/replicas");
    let available = rollout.total("/status/availableReplicas");
    let updated = of_new("/status/replicas");
    let unavailable = (rollout.total("/spec/replicas") - available).max(0);
    let mut conditions = list(deployment, "/status/conditions").to_vec();

    let least = rollout.replicas
        - share(
            deployment.pointer("/spec/strategy/rollingUpdate/maxUnavailable"),
            &json!("25%"),
            rollout.replicas,
            false,
        );
    let is_available = available >= least;
    let (reason, message) = if is_available {
        (
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set(
        ctx,
        &mut conditions,
        "Available",
        is_available,
        reason,
        message,
        false,
    );

    let is_complete = rollout.new.is_some()
        && updated == rollout.replicas
        && replicas == rollout.replicas
        && available == rollout.replicas
        && generation(deployment)
            >= number(deployment, "/status/observedGeneration").unwrap_or_default();
    let before = |pointer| number(deployment, pointer).unwrap_or_default();
    let has_moved = updated > before("/status/updatedReplicas")
        || (replicas - updated) < before("/status/replicas") - before("/status/updatedReplicas")
        || rollout.total("/status/readyReplicas") > before("/status/readyReplicas")
        || available > before("/status/availableReplicas");
    progress(ctx, rollout, &mut conditions, is_complete, has_moved);

    ctx.status(
        DEPLOYMENT,
        deployment,
        json!({
            "observedGeneration": generation(deployment),
            "replicas": shown(replicas),
            "updatedReplicas": shown(updated),
            "readyReplicas": shown(rollout.total("/status/readyReplicas")),
            "availableReplicas": shown(available),
            "unavailableReplicas": shown(unavailable),
            "conditions": conditions,
        }),
    );
}

fn progress(
    ctx: &mut Context<'_>,
    rollout: &Rollout,
    conditions: &mut Vec<Value>,
    is_complete: bool,
    has_moved: bool,
) {
    let deployment = &rollout.deployment;
    let old = condition(deployment, "Progressing");
    if truth(deployment, "/spec/paused") {
        if old.is_none_or(|old| text(old, "/reason") != "DeploymentPaused") {
            let condition = json!({
                "type": "Progressing",
                "status": "Unknown",
                "reason": "DeploymentPaused",
                "message": "Deployment is paused",
                "lastUpdateTime": ctx.timestamp(),
            });
            set_condition(conditions, condition, ctx.now);
        }
        return;
    }
    let subject = match &rollout.new {
        Some(new) => format!("ReplicaSet {:?}", name(new)),
        None => format!("Deployment {:?}", name(deployment)),
    };
    // A complete rollout does not time out later, even if pods become unavailable.
    let was_complete =
        old.is_some_and(|old| text(old, "/reason") == COMPLETE) && !has_new_template(rollout);
    if is_complete || was_complete {
        let message = format!("{subject} has successfully progressed.");
        set(
            ctx,
            conditions,
            "Progressing",
            true,
            COMPLETE,
            &message,
            false,
        );
        return;
    }
    let Some(old) = old else {
        let (reason, message) = match &rollout.new {
            Some(_) => ("FoundNewReplicaSet", format!("{subject} is progressing.")),
            None => ("NewReplicaSetCreated", "Created new replica set".to_owned()),
        };
        set(ctx, conditions, "Progressing", true, reason, &message, true);
        return;
    };
    if has_moved || text(old, "/reason") == COMPLETE {
        let message = format!("{subject} is progressing.");
        set(
            ctx,
            conditions,
            "Progressing",
            true,
            "ReplicaSetUpdated",
            &message,
            true,
        );
        return;
    }
    let deadline = number(deployment, "/spec/progressDeadlineSeconds").unwrap_or(600);
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or_default());
    let since = time(old, "/lastUpdateTime").unwrap_or(ctx.now);
    if text(old, "/reason") != TIMED_OUT && ctx.has_elapsed(since, deadline) {
        let message = format!("{subject} has timed out progressing.");
        set(
            ctx,
            conditions,
            "Progressing",
            false,
            TIMED_OUT,
            &message,
            true,
        );
    }
}

/// Whether the rollout of the current template has only begun.
fn has_new_template(rollout: &Rollout) -> bool {
    rollout.new.is_none()
        || rollout
            .old
            .iter()
            .any(|set| number(set, "/spec/replicas").unwrap_or_default() > 0)
}

fn set(
    ctx: &Context<'_>,
    conditions: &mut Vec<Value>,
    of_type: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    is_news: bool,
) {
    let status = if is_true { "True" } else { "False" };
    let same = conditions.iter().find(|old| {
        text(old, "/type") == of_type
            && text(old, "/status") == status
            && text(old, "/reason") == reason
    });
    let updated = same.filter(|_| !is_news).map_or_else(
        || ctx.timestamp(),
        |old| text(old, "/lastUpdateTime").to_owned(),
    );
    let condition = json!({
        "type": of_type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": updated,
    });
    set_condition(conditions, condition, ctx.now);
}
