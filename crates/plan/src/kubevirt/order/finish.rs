//! What the stage that is under way makes of the plan: what is told, and when to look again.

use api::Time;

use super::Walk;
use crate::kubevirt::{
    action::Plan,
    observed::Observed,
    progress,
    rollback::{self, Aim},
    stages::{self, Outcome, Stage, later},
    status::{self, Draft, Said, StageProblem},
    synchronization, tell,
};

/// Makes a plan of how far an installation has come.
pub(super) fn finish(observed: &Observed<'_>, now: &Time, aim: &Aim, walk: Walk) -> Plan {
    let kubevirt = observed.kubevirt;
    let Walk { stage, mut outcome } = walk;
    let problem = problem(observed, now, stage, &mut outcome);
    let given_up = problem
        .as_ref()
        .and_then(|problem| rollback::give_up(kubevirt, aim, problem.message()));
    let mut way_back = Outcome::default();
    way_back.steps.extend(given_up);
    stages::sift(observed, now, &mut way_back);
    outcome.join(way_back);
    let mut draft = Draft::of(kubevirt, now);
    let architecture = architecture(observed);
    draft.aims(aim, &observed.operator.version, architecture);
    let old = kubevirt.status.as_ref();
    let is_observed =
        old.is_some_and(|status| status.observed_deployment_id.as_deref() == Some(&*aim.id));
    let writes_only = !outcome.steps.is_empty() && outcome.waits.is_empty();
    if let Some(refusal) = outcome.refusals.first() {
        draft.says(&Said::Refused(refusal.clone()), aim);
    } else if stage == Stage::Deployed {
        let notes = &outcome.notes;
        draft.says(&Said::Deployed { notes }, aim);
        draft.synchronizes_at(synchronization::addresses(observed));
        let ours = observed
            .objects
            .values()
            .filter(|live| stages::is_ours(live));
        draft.generations(ours);
    } else if !(is_observed && writes_only) {
        // A small repair is over before anybody could read of it.
        let waits_for = progress::waits_for(observed, stage, now, &mut outcome);
        let said = Said::UnderWay {
            stage,
            waits_for,
            problem: problem.clone(),
        };
        draft.says(&said, aim);
    }
    let status = draft.finished();
    Plan {
        stage,
        stalled: problem.is_some() || !outcome.refusals.is_empty(),
        events: tell::events(old, status.as_ref()),
        status,
        steps: outcome.steps,
        waits: outcome.waits,
        notes: outcome.notes,
        requeue_at: outcome.requeue_at,
    }
}

/// What is wrong with a stage, and when to look whether something is.
fn problem(
    observed: &Observed<'_>,
    now: &Time,
    stage: Stage,
    outcome: &mut Outcome,
) -> Option<StageProblem> {
    if let Some(failure) = &outcome.failure {
        return Some(StageProblem::Failed(failure.clone()));
    }
    if outcome.waits.is_empty() {
        return None;
    }
    let began = status::since(observed.kubevirt, stage, now);
    let moved = outcome.progress.clone().filter(|at| at.0 > began.0);
    let since = moved.unwrap_or(began);
    let deadline = later(&since, stage.deadline(observed.operator.speed));
    if now.0 < deadline.0 {
        outcome.requeue_at(deadline);
        return None;
    }
    Some(StageProblem::Stalled(format!(
        "{} since {}: {}",
        stage.reason(),
        since.0,
        progress::causes(&outcome.waits, MOST)
    )))
}

/// How many objects are named in a sentence.
const MOST: usize = 3;

/// The architecture that most nodes have.
fn architecture<'a>(observed: &Observed<'a>) -> Option<&'a str> {
    let of_nodes = observed.nodes.iter().map(|node| node.architecture.as_str());
    let known: Vec<&str> = of_nodes.filter(|name| !name.is_empty()).collect();
    let count = |name: &str| known.iter().filter(|other| **other == name).count();
    let mut names: Vec<&str> = known.clone();
    names.sort_unstable();
    names.dedup();
    names.into_iter().rev().max_by_key(|name| count(name))
}
