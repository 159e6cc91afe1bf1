//! Status of a VM, from its VMI and its own state.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Context,
    kubevirt::{
        edit::{new_condition, probed, put_condition, remove, remove_condition, set},
        names::GENERATION_ANNOTATION,
        printable::printable_status,
        run::{self, is_final},
    },
    object::{annotation, condition, generation, is_true, list, seconds, text, uid},
};

/// Reason and message of the condition `Failure`.
pub(super) type Problem = (&'static str, String);

/// Updates the status of `next`. `stopping` means that the VMI was deleted in this reconcile.
pub(super) fn describe(
    next: &mut Value,
    vm: &Value,
    vmi: Option<&Value>,
    problem: Option<&Problem>,
    stopping: bool,
    ctx: &Context<'_>,
) {
    set_flag(next, "/status/created", vmi.is_some());
    set_flag(
        next,
        "/status/ready",
        vmi.is_some_and(|vmi| is_true(vmi, "Ready")),
    );
    if let Some(observed) = vmi.and_then(|vmi| annotation(vmi, GENERATION_ANNOTATION)) {
        set(
            next,
            "/status/observedGeneration",
            observed.parse().unwrap_or(0_i64),
        );
        set(next, "/status/desiredGeneration", generation(vm));
    }
    if vmi.is_some() || !text(next, "/status/runStrategy").is_empty() {
        set(next, "/status/runStrategy", run::strategy(vm));
    }
    if run::first_request_is_met(next, vmi) {
        let requests = list(next, "/status/stateChangeRequests").to_vec();
        match requests.get(1..) {
            Some(rest) if !rest.is_empty() => {
                set(next, "/status/stateChangeRequests", rest.to_vec());
            }
            _ => {
                remove(next, "/status/stateChangeRequests");
            }
        }
    }
    count_start_failure(next, vmi, ctx);
    mirror_conditions(next, vmi, problem, ctx.now);
    let status = printable_status(next, vmi, ctx.caches, stopping);
    set(next, "/status/printableStatus", status);
}

/// Counts a VMI that failed before it ran, and sets the time of the next start.
fn count_start_failure(next: &mut Value, vmi: Option<&Value>, ctx: &Context<'_>) {
    let has_run = vmi.is_some_and(|vmi| {
        list(vmi, "/status/phaseTransitionTimestamps")
            .iter()
            .any(|transition| text(transition, "/phase") == "Running")
    });
    if has_run || !run::restarts(next) {
        remove(next, "/status/startFailure");
        return;
    }
    let Some(vmi) = vmi.filter(|vmi| is_final(vmi)) else {
        return;
    };
    if text(next, "/status/startFailure/lastFailedVMIUID") == uid(vmi) {
        return;
    }
    let failures = run::failures(next).saturating_add(1);
    let retry = ctx
        .now
        .saturating_add(run::backoff(failures, vmi, ctx.speed))
        .unwrap_or(ctx.now);
    set(
        next,
        "/status/startFailure",
        json!({
            "consecutiveFailCount": failures,
            "lastFailedVMIUID": uid(vmi),
            "retryAfterTimestamp": seconds(retry),
        }),
    );
}

/// Copies the VMI's conditions to the VM. `Ready` outlives the VMI; `Failure` and `RestartRequired`
/// belong to the VM.
fn mirror_conditions(
    next: &mut Value,
    vmi: Option<&Value>,
    problem: Option<&Problem>,
    now: Timestamp,
) {
    let not_ready = |reason: &str, message: &str| {
        probed(new_condition("Ready", "False", reason, message, Some(now)))
    };
    let ready = match vmi {
        None => not_ready("VMINotExists", "VMI does not exist"),
        Some(vmi) => condition(vmi, "Ready").cloned().unwrap_or_else(|| {
            not_ready("VMIConditionMissing", "VMI is missing the Ready condition")
        }),
    };
    put_condition(next, ready);
    match problem {
        Some((reason, message)) => {
            let failure = new_condition("Failure", "True", reason, message, Some(now));
            put_condition(next, failure);
        }
        None => remove_condition(next, "Failure"),
    }
    let Some(vmi) = vmi else {
        return;
    };
    let own = ["Ready", "Failure", "RestartRequired"];
    let mirrored = || {
        list(vmi, "/status/conditions")
            .iter()
            .filter(|condition| !own.contains(&text(condition, "/type")))
    };
    for condition in mirrored() {
        put_condition(next, condition.clone());
    }
    let removed: Vec<String> = list(next, "/status/conditions")
        .iter()
        .map(|condition| text(condition, "/type").to_owned())
        .filter(|of_type| !own.contains(&of_type.as_str()))
        .filter(|of_type| !mirrored().any(|kept| text(kept, "/type") == of_type))
        .collect();
    for of_type in removed {
        remove_condition(next, &of_type);
    }
}

fn set_flag(object: &mut Value, pointer: &str, value: bool) {
    if value {
        set(object, pointer, true);
    } else {
        remove(object, pointer);
    }
}
