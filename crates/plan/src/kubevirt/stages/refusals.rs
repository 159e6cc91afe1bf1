//! Writes that were refused: they are told of, and not tried again too soon.

use std::collections::BTreeSet;

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use super::Outcome;
use crate::kubevirt::{
    action::{Action, Step},
    object::Id,
    observed::{Observed, Refused},
};

/// How long what may pass by itself is not told as a refusal.
const PASSES: SignedDuration = SignedDuration::from_mins(1);

/// Tells of the steps that were refused, and drops those whose time has not come yet. What applies,
/// creates or deletes an object has been through this when it was made. Of steps that are refused
/// for a cause that they share, the first is reported and tried; the others follow once it succeeds.
pub(in crate::kubevirt) fn sift(observed: &Observed<'_>, now: &Time, outcome: &mut Outcome) {
    let metadata = &observed.kubevirt.metadata;
    let kubevirt = Id::new(
        "kubevirt.io",
        "KubeVirt",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let mut reported = BTreeSet::new();
    for step in std::mem::take(&mut outcome.steps) {
        let subject = step.action.subject(&kubevirt);
        let kind = (subject.group.clone(), subject.kind.clone());
        if let Some(refused) = observed.memory.shared.get(&kind) {
            let is_first = reported.insert(kind);
            if !is_first || told(&subject, refused, "cannot be written", now, outcome) {
                continue;
            }
        }
        if !is_held_back(observed, now, &kubevirt, &step, outcome) {
            outcome.steps.push(step);
        }
    }
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
    let refused = observed.memory.refused.get(&subject);
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
    refused: &Refused,
    what: &str,
    now: &Time,
    outcome: &mut Outcome,
) -> bool {
    let lasts = now.0.duration_since(refused.since.0) > PASSES;
    let message = format!("{what}: {}", refused.message);
    if lasts || !matches!(refused.code, 0 | 404 | 409 | 429 | 500..) {
        outcome.refusals.push(format!("{id} {message}"));
    } else {
        outcome.wait(id, message);
    }
    let is_early = refused.again.0 > now.0;
    if is_early {
        outcome.look_again(refused.again.clone());
    }
    is_early
}
