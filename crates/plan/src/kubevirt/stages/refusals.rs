//! Backoff of refused writes: they are reported, and not repeated before their time.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use apimachinery::retry_ledger::Retry;
use k8s_openapi::jiff::SignedDuration;

use super::StageOutcome;
use crate::kubevirt::{
    action::{Action, Step},
    cause::{Cause, kind},
    object::Id,
    observed::{Observed, Refusal, WriteError},
};

/// How long a possibly transient failure is reported as a wait.
const TRANSIENT_FOR: SignedDuration = SignedDuration::from_mins(1);

/// Reports the refused steps of a stage and drops those whose backoff has not ended. Steps that
/// apply, create or delete an object were checked when they were added.
///
/// Of the steps that share a cause, one is reported and retried; the others follow once it succeeds.
/// Meanwhile one step of each other kind is tried at a time: if it is refused for the same cause, its
/// kind waits too.
pub(in crate::kubevirt) fn drop_refused(
    observed: &Observed<'_>,
    now: &Time,
    outcome: &mut StageOutcome,
) {
    let metadata = &observed.kubevirt.metadata;
    let kubevirt = Id::new(
        "kubevirt.io",
        "KubeVirt",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let causes = &observed.memory.causes;
    let steps: Vec<(Id, Step)> = std::mem::take(&mut outcome.steps)
        .into_iter()
        .map(|step| (step.action.subject(&kubevirt), step))
        .collect();
    // Each cause is retried with the object that was refused, if it still needs a write.
    let mut tried: BTreeMap<&Cause, Id> = BTreeMap::new();
    for (subject, _) in &steps {
        if let Some((cause, shared)) = causes.of(&kind(subject)) {
            let object = tried.entry(cause).or_insert_with(|| subject.clone());
            if *subject == shared.reason.tried {
                *object = subject.clone();
            }
        }
    }
    let waits_as_one = tried.keys().any(|cause| cause.is_named());
    let mut others = BTreeSet::new();
    for (subject, step) in steps {
        if let Some((cause, shared)) = causes.of(&kind(&subject)) {
            let is_tried = tried.get(cause) == Some(&subject);
            if !is_tried
                || report_refusal(
                    &subject,
                    &shared.reason.refusal,
                    &shared.retry_at,
                    "cannot be written",
                    now,
                    outcome,
                )
            {
                continue;
            }
        } else if waits_as_one && !is_exempt(&subject) && !others.insert(kind(&subject)) {
            continue;
        }
        if !is_deferred(observed, now, &kubevirt, &step, outcome) {
            outcome.steps.push(step);
        }
    }
}

/// Whether the API server calls no webhooks for its kind: its objects may repair a webhook.
fn is_exempt(id: &Id) -> bool {
    &*id.group == "admissionregistration.k8s.io"
}

fn is_deferred(
    observed: &Observed<'_>,
    now: &Time,
    kubevirt: &Id,
    step: &Step,
    outcome: &mut StageOutcome,
) -> bool {
    if matches!(
        step.action,
        Action::Create(_) | Action::Apply { .. } | Action::Delete { .. }
    ) {
        return false;
    }
    let subject = step.action.subject(kubevirt);
    let refusal = observed.memory.refusals.get(&subject);
    let refusal = refusal.filter(|it| it.reason.fingerprint == step.action.fingerprint());
    let failure = match step.action {
        Action::Count { .. } => "cannot have its objects counted",
        Action::DeleteAll { .. } => "cannot have its objects deleted",
        _ => "cannot be changed",
    };
    refusal.is_some_and(
        |Retry {
             reason, retry_at, ..
         }| { report_refusal(&subject, reason, retry_at, failure, now, outcome) },
    )
}

/// Reports a refusal, as a wait while it may be transient. Returns whether its backoff has not ended.
pub(super) fn report_refusal(
    id: &Id,
    refusal: &Refusal,
    retry_at: &Time,
    failure: &str,
    now: &Time,
    outcome: &mut StageOutcome,
) -> bool {
    let lasts = now.0.duration_since(refusal.since.0) > TRANSIENT_FOR;
    let message = format!("{failure}: {}", refusal.message);
    let is_transient = matches!(
        refusal.error,
        WriteError::Status(404 | 409 | 429 | 500..) | WriteError::Unanswered | WriteError::NotSent
    );
    if lasts || !is_transient {
        outcome.refusals.push(format!("{id} {message}"));
    } else {
        outcome.wait(id, message);
    }
    let is_early = retry_at.0 > now.0;
    if is_early {
        outcome.requeue_at(retry_at.clone());
    }
    is_early
}
