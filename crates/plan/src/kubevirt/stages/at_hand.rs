//! The strategy of the wanted version is at hand, or a Job is made that writes it.

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;

use super::{Outcome, later};
use crate::{
    Event,
    kubevirt::{
        action::{Action, Step},
        object::{Live, Object},
        observed::Observed,
        ready,
        rollback::Aim,
    },
};

/// A Job that has ended is left alone for that long: what it wrote may not have been seen yet.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// The longest time between two Jobs for the same strategy.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);

/// Sees to it that the strategy of a deployment comes, by a Job. `since` is when it was first
/// waited for.
pub(in crate::kubevirt) fn look(
    observed: &Observed<'_>,
    aim: &Aim,
    job: &Object,
    since: &Time,
    now: &Time,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(why) = observed.unreadable.get(&aim.id) {
        outcome.refusals.push(format!(
            "the install strategy of version {} cannot be read: {why}; delete its ConfigMap to \
             have it written anew",
            aim.version
        ));
        return outcome;
    }
    let jobs = observed
        .objects
        .values()
        .filter(|live| live.id.is("batch", "Job") && super::is_strategy(live) && is_of(live, aim));
    let mut jobs: Vec<&Live> = jobs.collect();
    jobs.sort_by(|one, other| one.id.cmp(&other.id));
    if jobs.is_empty() {
        make(observed, job, aim, now, &mut outcome);
    }
    for live in jobs {
        if live.deleting {
            outcome.wait(&live.id, super::going(live));
            continue;
        }
        match state(live) {
            State::Running => {
                let pods = ready::pods(observed, &live.id);
                let trouble = ready::troubles(pods).map(|trouble| format!(": {trouble}"));
                outcome.wait(
                    &live.id,
                    format!(
                        "has not written the strategy yet{}",
                        trouble.unwrap_or_default()
                    ),
                );
            }
            State::Ended { at, failure } => {
                let at = at.unwrap_or_else(|| now.clone());
                // Each failure is followed by a longer time of rest.
                let rest = at.0.duration_since(since.0).clamp(GRACE, LONGEST);
                let rest = if failure.is_some() { rest } else { GRACE };
                let again = later(&at, rest);
                let words = failure.map_or_else(
                    || "ended and wrote no strategy".to_owned(),
                    |words| failed(observed, live, &words),
                );
                if again.0 <= now.0 {
                    let mut step = Outcome::default();
                    super::delete(observed, now, live, "it is tried again", &mut step);
                    for step in &mut step.steps {
                        let message = format!("{} {words}; it is tried again", live.id);
                        step.event = Some(Event::warning("StrategyJobFailed", message));
                    }
                    outcome.join(step);
                } else {
                    outcome.look_again(again);
                }
                outcome.wait(&live.id, words);
            }
        }
    }
    outcome
}

fn make(observed: &Observed<'_>, job: &Object, aim: &Aim, now: &Time, outcome: &mut Outcome) {
    if let Some(refused) = observed.memory.refused.get(&job.id) {
        let refusal = format!("{} is refused: {}", job.id, refused.message);
        outcome.refusals.push(refusal);
        if refused.again.0 > now.0 {
            outcome.look_again(refused.again.clone());
            return;
        }
    }
    outcome.steps.push(Step {
        action: Action::Create(job.clone()),
        reason: format!(
            "the install strategy of version {} is not at hand",
            aim.version
        ),
        event: Some(Event::normal(
            "StrategyJobCreated",
            format!(
                "A Job writes the install strategy of version {}",
                aim.version
            ),
        )),
    });
}

fn is_of(live: &Live, aim: &Aim) -> bool {
    live.annotations.get(install::STRATEGY_IDENTIFIER) == Some(&aim.id)
}

/// What is known of a Job that failed: its own words, and those of its pods.
fn failed(observed: &Observed<'_>, live: &Live, words: &str) -> String {
    let trouble = ready::troubles(ready::pods(observed, &live.id));
    match trouble {
        Some(trouble) => format!("failed: {words}; {trouble}"),
        None => format!("failed: {words}"),
    }
}

/// How a Job is.
enum State {
    Running,
    Ended {
        at: Option<Time>,
        /// What it says of why it failed, if it did.
        failure: Option<String>,
    },
}

fn state(live: &Live) -> State {
    let value = live.value();
    let conditions = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ended = conditions.find(|condition| {
        let type_ = condition["type"].as_str();
        matches!(type_, Some("Complete" | "Failed")) && condition["status"] == "True"
    });
    let Some(ended) = ended else {
        return State::Running;
    };
    let text = |field: &str| ended[field].as_str().unwrap_or_default();
    let at = value
        .pointer("/status/completionTime")
        .and_then(Value::as_str);
    let at = at
        .unwrap_or(text("lastTransitionTime"))
        .parse()
        .ok()
        .map(Time);
    let failure = (text("type") == "Failed").then(|| {
        let words = [text("reason"), text("message")];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(": ")
    });
    State::Ended { at, failure }
}

/// Whether a Job has ended.
pub(in crate::kubevirt) fn has_ended(live: &Live) -> bool {
    matches!(state(live), State::Ended { .. })
}
