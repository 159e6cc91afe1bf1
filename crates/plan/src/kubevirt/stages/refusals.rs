//! Writes that were refused: they are reported, and not tried again too soon.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use super::Outcome;
use crate::kubevirt::{
    action::{Action, Step},
    cause::{Cause, kind},
    object::Id,
    observed::{Observed, Refusal},
};

/// How long what may pass by itself is not told as a refusal.
const PASSES: SignedDuration = SignedDuration::from_mins(1);

/// Reports the steps that were refused, and drops those whose time has not come yet. What applies,
/// creates or deletes an object has been through this when it was made.
///
/// The steps are those of a stage. Of those that are refused for a cause that they share, one is reported
/// and tried; the others follow once it succeeds. Meanwhile one step of each other kind is tried at a
/// time: if it is refused for the same cause, its kind waits as well.
pub(in crate::kubevirt) fn sift(observed: &Observed<'_>, now: &Time, outcome: &mut Outcome) {
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
    // The object that each cause is tried with: the one that was refused, if it is still to be written.
    let mut tried: BTreeMap<&Cause, Id> = BTreeMap::new();
    for (subject, _) in &steps {
        if let Some((cause, shared)) = causes.of(&kind(subject)) {
            let object = tried.entry(cause).or_insert_with(|| subject.clone());
            if *subject == shared.tried {
                *object = subject.clone();
            }
        }
    }
    let waits_as_one = tried.keys().any(|cause| cause.is_named());
    let mut others = BTreeSet::new();
    for (subject, step) in steps {
        if let Some((cause, shared)) = causes.of(&kind(&subject)) {
            let is_tried = tried.get(cause) == Some(&subject);
            if !is_tried || told(&subject, &shared.refusal, "cannot be written", now, outcome) {
                continue;
            }
        } else if waits_as_one && !is_exempt(&subject) && !others.insert(kind(&subject)) {
            continue;
        }
        if !is_held_back(observed, now, &kubevirt, &step, outcome) {
            outcome.steps.push(step);
        }
    }
}

/// Whether no webhook is asked about objects of its kind: they may be what makes one answer again.
fn is_exempt(id: &Id) -> bool {
    &*id.group == "admissionregistration.k8s.io"
}

fn is_held_back(
    observed: &Observed<'_>,
    now: &Time,
    kubevirt: &Id,
    step: &Step,
    outcome: &mut Outcome,
) -> bool {
    if matches!(
        step.action,
        Action::Create(_) | Action::Apply { .. } | Action::Delete { .. }
    ) {
        return false;
    }
    let subject = step.action.subject(kubevirt);
    let refused = observed.memory.refusals.get(&subject);
    let refused = refused.filter(|refused| refused.fingerprint == step.action.fingerprint());
    let what = match step.action {
        Action::Count { .. } => "cannot have its objects counted",
        Action::DeleteAll { .. } => "cannot have its objects deleted",
        _ => "cannot be changed",
    };
    refused.is_some_and(|refused| told(&subject, refused, what, now, outcome))
}

/// Tells of a refusal: as something to wait for where it may pass. Whether it is too early to try
/// again.
pub(super) fn told(
    id: &Id,
    refused: &Refusal,
    what: &str,
    now: &Time,
    outcome: &mut Outcome,
) -> bool {
    let lasts = now.0.duration_since(refused.since.0) > PASSES;
    let message = format!("{what}: {}", refused.message);
    if lasts || !matches!(refused.error.code(), 0 | 404 | 409 | 429 | 500..) {
        outcome.refusals.push(format!("{id} {message}"));
    } else {
        outcome.wait(id, message);
    }
    let is_early = refused.retry_at.0 > now.0;
    if is_early {
        outcome.requeue_at(refused.retry_at.clone());
    }
    is_early
}
