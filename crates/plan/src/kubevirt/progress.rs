//! The message of `Progressing`: what a stage waits for, and why.
//!
//! Guarantees: the message names the objects at once, and the causes (which pod, which reason, who
//! reported it) after [`DETAIL_AFTER`], long before the stage's deadline. Causes change often in a
//! healthy rollout, so the message is rewritten at most every [`REWRITE_AFTER`], or every
//! [`DETAIL_AFTER`] when more than numbers have changed.

use std::fmt::Write as _;

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use super::{
    action::Wait,
    observed::Observed,
    stages::{Stage, StageOutcome, later},
    status,
};
use crate::conditions::bounded;

/// Most waits end before their message needs a cause.
const DETAIL_AFTER: SignedDuration = SignedDuration::from_secs(20);

/// Minimum age of a message in which only numbers would change.
const REWRITE_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Number of objects that a message names.
const MAX_NAMED: usize = 3;

/// Message of `Progressing` for a stage that waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) message: String,
    /// Whether the message names a pod's problem or finalizers.
    pub(super) is_blocked: bool,
}

/// The message of a stage, beginning with `prefix`; None if it does not wait. Sets when to evaluate
/// the stage again. `is_reported` says that the status is about the same rollout or removal.
pub(super) fn progress(
    observed: &Observed<'_>,
    stage: Stage,
    now: &Time,
    prefix: &str,
    is_reported: bool,
    outcome: &mut StageOutcome,
) -> Option<Progress> {
    if outcome.waits.is_empty() {
        return None;
    }
    let speed = observed.operator.speed;
    let since = status::since(observed.kubevirt, stage, now);
    let detailed_from = later(&since, speed.scale(DETAIL_AFTER));
    let names = bounded(format!("{prefix}: {}", names(&outcome.waits)));
    if now.0 < detailed_from.0 {
        outcome.requeue_at(detailed_from);
        return Some(Progress {
            message: names,
            is_blocked: false,
        });
    }
    let mut detailed = outcome.waits.iter().take(MAX_NAMED);
    let is_blocked = detailed.any(|wait| wait.is_blocked);
    let details = bounded(format!("{prefix}: {}", detailed_names(&outcome.waits)));
    let new = Progress {
        message: details,
        is_blocked,
    };
    let old = status::progress(observed.kubevirt, stage).filter(|_| is_reported);
    let (Some(old), Some(written)) = (old, observed.memory.progress_at.as_ref()) else {
        return Some(new);
    };
    if old == new.message || old == names {
        return Some(new);
    }
    let interval = if is_same_but_for_numbers(old, &new.message) {
        REWRITE_AFTER
    } else {
        DETAIL_AFTER
    };
    let due = later(written, speed.scale(interval));
    if now.0 < due.0 {
        outcome.requeue_at(due);
        return Some(Progress {
            message: old.to_owned(),
            is_blocked,
        });
    }
    Some(new)
}

fn names(waits: &[Wait]) -> String {
    let names = waits.iter().take(MAX_NAMED).map(|wait| wait.id.to_string());
    let names: Vec<String> = names.collect();
    let mut text = format!("waiting for {}", names.join(", "));
    count_rest(waits, MAX_NAMED, &mut text);
    text
}

fn detailed_names(waits: &[Wait]) -> String {
    let names = waits.iter().take(MAX_NAMED);
    let names = names.map(|wait| format!("{} ({})", wait.id, wait.message));
    let mut text = format!("waiting for {}", names.collect::<Vec<_>>().join(", "));
    count_rest(waits, MAX_NAMED, &mut text);
    text
}

/// The objects that a stage waits for, each with its cause, as sentences.
pub(super) fn causes(waits: &[Wait], max: usize) -> String {
    let causes = waits.iter().take(max);
    let causes = causes.map(|wait| format!("{} {}", wait.id, wait.message));
    let mut text = causes.collect::<Vec<_>>().join("; ");
    count_rest(waits, max, &mut text);
    text
}

fn count_rest(waits: &[Wait], max: usize, text: &mut String) {
    if waits.len() > max {
        // Writing to a String does not fail.
        let _ = write!(text, " and {} more", waits.len() - max);
    }
}

/// Whether two messages differ in digits alone.
pub(super) fn is_same_but_for_numbers(one: &str, other: &str) -> bool {
    let without = |text: &str| text.replace(|char: char| char.is_ascii_digit(), "");
    without(one) == without(other)
}

#[cfg(test)]
mod tests {
    use super::{detailed_names, is_same_but_for_numbers};
    use crate::kubevirt::{action::Wait, object::Id};

    #[test]
    fn numbers_alone_do_not_make_another_message() {
        assert!(is_same_but_for_numbers("1 of 12 pods", "10 of 12 pods"));
        assert!(!is_same_but_for_numbers(
            "1 of 2 pods",
            "1 of 2 pods; pod a: Unschedulable"
        ));
    }

    #[test]
    fn names_each_object_with_its_cause_and_counts_the_rest() {
        let wait = |name: &str| Wait {
            id: Id::new("apps", "Deployment", "kubevirt", name),
            message: "0 of 2 pods are ready".to_owned(),
            is_blocked: false,
        };
        let waits = [wait("a"), wait("b"), wait("c"), wait("d")];
        assert_eq!(
            detailed_names(&waits),
            "waiting for Deployment kubevirt/a (0 of 2 pods are ready), \
             Deployment kubevirt/b (0 of 2 pods are ready), \
             Deployment kubevirt/c (0 of 2 pods are ready) and 1 more"
        );
    }
}
