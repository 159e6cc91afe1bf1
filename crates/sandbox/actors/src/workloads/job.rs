//! Job controller.
//!
//! Indexed Jobs, success policies and pod failure policies are treated like ordinary Jobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{count, name_pod, pod_of, shown};
use crate::{
    Actor, Caches, Context, Key, Kind, Object, Step,
    kind::{JOB, POD},
    object::{
        condition, controller_key, is_deleted, is_true, list, name, number, set_condition, text,
        time, truth,
    },
    pods::is_active,
};

const BACK_OFF: Step = Step::seconds(10);

#[derive(Clone, Copy, Debug)]
pub struct Jobs;

impl Actor for Jobs {
    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[JOB, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        if kind == POD {
            return controller_key(object, JOB).into_iter().collect();
        }
        vec![Key::of(object)]
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(job) = ctx.observed(JOB) else {
            return;
        };
        if is_deleted(&job) {
            return;
        }
        if is_true(&job, "Complete") || is_true(&job, "Failed") {
            expire(ctx, &job);
            return;
        }
        let pods: Vec<Object> = ctx.caches.children(POD, &job).cloned().collect();
        go_on(ctx, &job, &Tally::of(&job, &pods), &pods);
    }
}

/// Counts of a Job's pods. Counted pods stay counted after their deletion.
struct Tally {
    active: i64,
    ready: i64,
    succeeded: i64,
    failed: i64,
}

impl Tally {
    fn of(job: &Value, pods: &[Object]) -> Self {
        let in_phase = |phase: &str| {
            count(
                pods.iter()
                    .filter(|pod| text(pod, "/status/phase") == phase),
            )
        };
        let before = |pointer| number(job, pointer).unwrap_or_default();
        let active = || pods.iter().filter(|pod| is_active(pod));
        Self {
            active: count(active()),
            ready: count(active().filter(|pod| is_true(pod, "Ready"))),
            succeeded: in_phase("Succeeded").max(before("/status/succeeded")),
            failed: in_phase("Failed").max(before("/status/failed")),
        }
    }
}

fn go_on(ctx: &mut Context<'_>, job: &Object, tally: &Tally, pods: &[Object]) {
    if truth(job, "/spec/suspend") {
        suspend(ctx, job, tally, pods);
        return;
    }
    let Some(started) = time(job, "/status/startTime") else {
        ctx.status(JOB, job, json!({"startTime": ctx.timestamp()}));
        return;
    };
    if let Some(target) = condition(job, "FailureTarget").filter(|_| is_true(job, "FailureTarget"))
    {
        let why = (text(target, "/reason"), text(target, "/message"));
        end(ctx, job, tally, pods, Err(why));
        return;
    }
    let parallelism = number(job, "/spec/parallelism").unwrap_or(1);
    let completions = number(job, "/spec/completions");
    let limit = number(job, "/spec/backoffLimit").unwrap_or(6);
    let retries: i64 = pods
        .iter()
        .filter_map(|pod| list(pod, "/status/containerStatuses").first())
        .filter_map(|status| number(status, "/restartCount"))
        .sum();
    let deadline =
        number(job, "/spec/activeDeadlineSeconds").and_then(|seconds| u64::try_from(seconds).ok());
    let failure = if tally.failed > limit || (retries > 0 && retries >= limit) {
        let message = "Job has reached the specified backoff limit";
        Some(("BackoffLimitExceeded", message))
    } else if deadline
        .is_some_and(|deadline| ctx.has_elapsed(started, Duration::from_secs(deadline)))
    {
        let message = "Job was active longer than specified deadline";
        Some(("DeadlineExceeded", message))
    } else {
        None
    };
    if let Some(failure) = failure {
        end(ctx, job, tally, pods, Err(failure));
        return;
    }
    let is_complete = match completions {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0 && tally.active == 0,
    };
    if is_complete {
        end(ctx, job, tally, pods, Ok(()));
        return;
    }
    let missing = match completions {
        Some(completions) => (completions - tally.succeeded).min(parallelism) - tally.active,
        // Without `completions`, no pods are started after the first success.
        None if tally.succeeded > 0 => 0,
        None => parallelism - tally.active,
    };
    let doublings = u32::try_from(tally.failed).unwrap_or_default().clamp(1, 6) - 1;
    let back_off = ctx.speed.of(BACK_OFF) * (1 << doublings);
    if missing > 0
        && (tally.failed == 0 || ctx.waited_for(format!("retry {}", tally.failed), back_off))
    {
        for number in 0..usize::try_from(missing).unwrap_or_default() {
            let pod_name = name_pod(ctx, job, number);
            let mut pod = pod_of(JOB, job);
            pod["metadata"]["generateName"] = format!("{}-", name(job)).into();
            pod["metadata"]["name"] = pod_name.as_str().into();
            ctx.create(POD, pod);
            ctx.normal(
                JOB,
                job,
                "SuccessfulCreate",
                format!("Created pod: {pod_name}"),
            );
        }
    }
    ctx.status(JOB, job, counts(tally));
}

fn counts(tally: &Tally) -> Value {
    json!({
        "active": shown(tally.active),
        "ready": tally.ready,
        "succeeded": shown(tally.succeeded),
        "failed": shown(tally.failed),
        "terminating": 0,
        "uncountedTerminatedPods": {},
    })
}

/// Deletes the pods of a suspended Job.
fn suspend(ctx: &mut Context<'_>, job: &Object, tally: &Tally, pods: &[Object]) {
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        ctx.delete(POD, pod);
    }
    let mut conditions = list(job, "/status/conditions").to_vec();
    if !is_true(job, "Suspended") {
        set(
            ctx,
            &mut conditions,
            "Suspended",
            "JobSuspended",
            "Job suspended",
        );
        ctx.normal(JOB, job, "Suspended", "Job suspended");
    }
    let mut status = counts(tally);
    status["conditions"] = conditions.into();
    status["startTime"] = Value::Null;
    ctx.status(JOB, job, status);
}

/// Writes the end of a Job: first its target condition, and once its pods are deleted the final
/// one.
fn end(
    ctx: &mut Context<'_>,
    job: &Object,
    tally: &Tally,
    pods: &[Object],
    outcome: Result<(), (&str, &str)>,
) {
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        ctx.delete(POD, pod);
    }
    let (first, last, reason, message) = match outcome {
        Ok(()) => (
            "SuccessCriteriaMet",
            "Complete",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        ),
        Err((reason, message)) => ("FailureTarget", "Failed", reason, message),
    };
    let mut conditions = list(job, "/status/conditions").to_vec();
    let mut status = counts(tally);
    if !is_true(job, first) {
        set(ctx, &mut conditions, first, reason, message);
        if outcome.is_err() {
            // Pods that are stopped count as failed.
            status["failed"] = shown(tally.failed + tally.active);
        }
    } else if tally.active == 0 && !pods.iter().any(|pod| is_deleted(pod)) {
        set(ctx, &mut conditions, last, reason, message);
        if outcome.is_ok() {
            status["completionTime"] = ctx.timestamp().into();
            ctx.normal(JOB, job, "Completed", "Job completed");
        } else {
            ctx.warning(JOB, job, reason, message);
        }
    }
    status["conditions"] = conditions.into();
    ctx.status(JOB, job, status);
}

fn set(ctx: &Context<'_>, conditions: &mut Vec<Value>, of_type: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": of_type,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": ctx.timestamp(),
    });
    set_condition(conditions, condition, ctx.now);
}

/// Deletes a finished Job after ttlSecondsAfterFinished.
fn expire(ctx: &mut Context<'_>, job: &Object) {
    let Some(seconds) = number(job, "/spec/ttlSecondsAfterFinished") else {
        return;
    };
    let ended = list(job, "/status/conditions").iter().filter(|condition| {
        matches!(text(condition, "/type"), "Complete" | "Failed")
            && text(condition, "/status") == "True"
    });
    let ended = ended
        .filter_map(|condition| time(condition, "/lastTransitionTime"))
        .max();
    let ttl = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if ended.is_some_and(|ended| ctx.has_elapsed(ended, ttl)) {
        ctx.delete(JOB, job);
    }
}

#[cfg(test)]
mod tests;
