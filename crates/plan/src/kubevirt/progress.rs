//! The message of `Progressing`: what a stage waits for, and why.
//!
//! Guarantees: the objects are named at once, the causes (which pod, which reason, in whose words)
//! within [`DETAIL_AFTER`], long before the stage's deadline. Causes change often while a roll-out
//! goes well, so that the message is rewritten at most every [`REWRITE_AFTER`], or every
//! [`DETAIL_AFTER`] when more than figures have changed.

use std::fmt::Write as _;

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use super::{
    action::Wait,
    observed::Observed,
    stages::{Outcome, Stage, later, scaled},
    status,
};

/// How long a stage may wait before its message says why: most waits are over by then.
const DETAIL_AFTER: SignedDuration = SignedDuration::from_secs(20);

/// How long a message stays in which nothing but figures would change.
const REWRITE_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// How many objects are named in a sentence.
const MOST: usize = 3;

/// How the message begins after the words about the version.
const WAITING: &str = "waiting for ";

/// What a stage waits for; None if it does not wait. Sets when to evaluate it again.
pub(super) fn waits_for(
    observed: &Observed<'_>,
    stage: Stage,
    now: &Time,
    outcome: &mut Outcome,
) -> Option<String> {
    if outcome.waits.is_empty() {
        return None;
    }
    let speed = observed.operator.speed;
    let since = status::since(observed.kubevirt, stage, now);
    let detailed_from = later(&since, scaled(DETAIL_AFTER, speed));
    let names = names(&outcome.waits);
    if now.0 < detailed_from.0 {
        outcome.requeue_at(detailed_from);
        return Some(names);
    }
    let new = detailed_names(&outcome.waits);
    let Some(old) = status::progress(observed.kubevirt, stage) else {
        return Some(new);
    };
    let old = old.split_once(WAITING).map(|(_, rest)| rest);
    let old = old.map(|rest| format!("{WAITING}{rest}"));
    let (Some(old), Some(written)) = (old, observed.memory.progress_at.as_ref()) else {
        return Some(new);
    };
    if old == new || old == names {
        return Some(new);
    }
    let interval = if is_same_but_for_figures(&old, &new) {
        REWRITE_AFTER
    } else {
        DETAIL_AFTER
    };
    let due = later(written, scaled(interval, speed));
    if now.0 < due.0 {
        outcome.requeue_at(due);
        return Some(old);
    }
    Some(new)
}

fn names(waits: &[Wait]) -> String {
    let names = waits.iter().take(MOST).map(|wait| wait.id.to_string());
    let names: Vec<String> = names.collect();
    let mut text = format!("{WAITING}{}", names.join(", "));
    more(waits, MOST, &mut text);
    text
}

fn detailed_names(waits: &[Wait]) -> String {
    let names = waits.iter().take(MOST);
    let names = names.map(|wait| format!("{} ({})", wait.id, wait.message));
    let mut text = format!("{WAITING}{}", names.collect::<Vec<_>>().join(", "));
    more(waits, MOST, &mut text);
    text
}

/// The objects that are waited for and their causes, as sentences.
pub(super) fn causes(waits: &[Wait], most: usize) -> String {
    let causes = waits.iter().take(most);
    let causes = causes.map(|wait| format!("{} {}", wait.id, wait.message));
    let mut text = causes.collect::<Vec<_>>().join("; ");
    more(waits, most, &mut text);
    text
}

fn more(waits: &[Wait], most: usize, text: &mut String) {
    if waits.len() > most {
        // Writing to a String does not fail.
        let _ = write!(text, " and {} more", waits.len() - most);
    }
}

/// Whether two messages differ in nothing but digits.
pub(super) fn is_same_but_for_figures(one: &str, other: &str) -> bool {
    let without = |text: &str| text.replace(|char: char| char.is_ascii_digit(), "");
    without(one) == without(other)
}

#[cfg(test)]
mod tests {
    use super::{detailed_names, is_same_but_for_figures};
    use crate::kubevirt::{action::Wait, object::Id};

    #[test]
    fn figures_alone_are_no_other_message() {
        assert!(is_same_but_for_figures("1 of 12 pods", "10 of 12 pods"));
        assert!(!is_same_but_for_figures(
            "1 of 2 pods",
            "1 of 2 pods; pod a: Unschedulable"
        ));
    }

    #[test]
    fn each_object_is_named_with_its_cause_and_the_rest_is_counted() {
        let wait = |name: &str| Wait {
            id: Id::new("apps", "Deployment", "kubevirt", name),
            message: "0 of 2 pods are ready".to_owned(),
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
