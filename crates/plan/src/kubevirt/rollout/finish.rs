//! Plan of the current stage: its writes, the status, Events, and when to reconcile again.

use api::Time;

use super::CurrentStage;
use crate::kubevirt::{
    action::Plan,
    events::{self, Details},
    observed::Observed,
    progress,
    rollback::{self, RolloutTarget},
    stages::{self, Stage, StageOutcome, later},
    status::{self, InstallState, RolloutReport, StageProblem, StatusDraft},
    synchronization,
};

/// Number of objects that the message of a stalled stage names.
const MAX_NAMED: usize = 3;

/// Makes the plan of the current stage.
pub(super) fn finish(
    observed: &Observed<'_>,
    now: &Time,
    target: &RolloutTarget,
    current: CurrentStage,
) -> Plan {
    let kubevirt = observed.kubevirt;
    let CurrentStage { stage, mut outcome } = current;
    let problem = problem(observed, now, stage, &mut outcome);
    let given_up = problem
        .as_ref()
        .and_then(|problem| rollback::give_up(kubevirt, target, problem.message()));
    let mut rollback = StageOutcome::default();
    rollback.steps.extend(given_up);
    stages::drop_refused(observed, now, &mut rollback);
    outcome.join(rollback);
    let mut draft = StatusDraft::of(kubevirt, now);
    let architecture = architecture(observed);
    draft.set_target(target, &observed.operator.version, architecture);
    let old = kubevirt.status.as_ref();
    let is_observed =
        old.is_some_and(|status| status.observed_deployment_id.as_deref() == Some(&*target.id));
    let writes_only = !outcome.steps.is_empty() && outcome.waits.is_empty();
    let mut details = Details::default();
    if let Some(refusal) = outcome.refusals.first() {
        draft.report(&InstallState::Refused(refusal.clone()), target);
    } else if stage == Stage::Deployed {
        let notes = &outcome.notes;
        draft.report(&InstallState::Deployed { notes }, target);
        draft.set_synchronization_addresses(synchronization::addresses(observed));
        let owned = observed
            .objects
            .values()
            .filter(|live| stages::is_owned(live));
        draft.set_generations(owned);
        details.notes = notes;
    } else if !(is_observed && writes_only) {
        // A small repair ends before anybody reads the status.
        let prefix = RolloutReport::new(old, target).message;
        let is_reported =
            old.is_some_and(|status| status.target_deployment_id.as_deref() == Some(&*target.id));
        let progress = progress::progress(observed, stage, now, &prefix, is_reported, &mut outcome);
        details.is_blocked = progress
            .as_ref()
            .is_some_and(|progress| progress.is_blocked);
        let state = InstallState::UnderWay {
            stage,
            progress: progress.map(|progress| progress.message),
            problem: problem.clone(),
        };
        draft.report(&state, target);
    }
    let status = draft.into_change();
    Plan {
        stage,
        stalled: problem.is_some() || !outcome.refusals.is_empty(),
        events: events::of_status_change(old, status.as_ref(), details),
        status,
        steps: outcome.steps,
        waits: outcome.waits,
        notes: outcome.notes,
        requeue_at: outcome.requeue_at,
    }
}

/// The problem of a stage. Sets when to check its deadline.
fn problem(
    observed: &Observed<'_>,
    now: &Time,
    stage: Stage,
    outcome: &mut StageOutcome,
) -> Option<StageProblem> {
    if let Some(failure) = &outcome.failure {
        return Some(StageProblem::Failed(failure.clone()));
    }
    if outcome.waits.is_empty() {
        return None;
    }
    let began = status::since(observed.kubevirt, stage, now);
    let progressed = outcome.progress.clone().filter(|at| at.0 > began.0);
    let since = progressed.unwrap_or(began);
    let deadline = later(&since, stage.deadline(observed.operator.speed));
    if now.0 < deadline.0 {
        outcome.requeue_at(deadline);
        return None;
    }
    Some(StageProblem::Stalled(format!(
        "{} since {}: {}",
        stage.reason(),
        since.0,
        progress::causes(&outcome.waits, MAX_NAMED)
    )))
}

/// The architecture of most nodes.
fn architecture<'a>(observed: &Observed<'a>) -> Option<&'a str> {
    let of_nodes = observed.nodes.iter().map(|node| node.architecture.as_str());
    let known: Vec<&str> = of_nodes.filter(|name| !name.is_empty()).collect();
    let count = |name: &str| known.iter().filter(|other| **other == name).count();
    let mut names: Vec<&str> = known.clone();
    names.sort_unstable();
    names.dedup();
    names.into_iter().rev().max_by_key(|name| count(name))
}
