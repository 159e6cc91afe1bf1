//! Upkeep of the running version while a rollout is stuck. Leaf certificates last for a day, so their
//! renewal must not wait for the rollout.

use api::Time;

use super::{RenderResult, Rendered, render, stage_context};
use crate::kubevirt::{
    caches::PlanCaches,
    observed::Observed,
    rollback::{self, RolloutTarget},
    stages::{self, Stage, StageContext, StageOutcome, earlier},
};

const UPKEEP: [Stage; 3] = [
    Stage::Certificates,
    Stage::Endpoints,
    Stage::LeafCertificates,
];

/// Keeps the running version working while the target cannot be rendered.
pub(super) fn keep_running(
    observed: &Observed<'_>,
    now: &Time,
    target: &RolloutTarget,
    render: &impl Fn(&RolloutTarget, &mut PlanCaches) -> RenderResult,
    caches: &mut PlanCaches,
    outcome: &mut StageOutcome,
) {
    let other = rollback::last_deployed(observed.kubevirt).filter(|last| last.id != target.id);
    if let Some(last) = other
        && let RenderResult::Rendered(rendered) = render(&last, caches)
    {
        let context = stage_context(observed, now, &last, &rendered);
        evaluate(&context, caches, outcome);
        outcome.requeue_at = earlier(outcome.requeue_at.take(), rendered.requeue_at);
    } else {
        renew_certificates(observed, now, caches, outcome);
    }
}

/// Renews certificates while a stage before them is stuck. Of another version, nothing else is
/// written out of order.
pub(super) fn renew_while_stuck(
    context: &StageContext<'_>,
    rendered: &Rendered,
    caches: &mut PlanCaches,
    outcome: &mut StageOutcome,
) {
    let Some(last) = rollback::last_deployed(context.observed.kubevirt) else {
        return;
    };
    if last.id == context.target.id {
        evaluate(context, caches, outcome);
    } else {
        issue(context.observed, context.now, rendered, outcome);
    }
}

/// Renews the certificates of the running version, and nothing else.
pub(in crate::kubevirt) fn renew_certificates(
    observed: &Observed<'_>,
    now: &Time,
    caches: &mut PlanCaches,
    outcome: &mut StageOutcome,
) {
    let last = rollback::last_deployed(observed.kubevirt);
    let rendered =
        last.and_then(|last| render::without_customizations(observed, &last, now, caches));
    if let Some(rendered) = rendered {
        issue(observed, now, &rendered, outcome);
        outcome.requeue_at = earlier(outcome.requeue_at.take(), rendered.requeue_at);
    }
}

fn evaluate(context: &StageContext<'_>, caches: &mut PlanCaches, outcome: &mut StageOutcome) {
    let mut outcomes = UPKEEP
        .into_iter()
        .map(|stage| stages::evaluate(context, stage, caches));
    if let Some(found) = outcomes.find(|found| !found.steps.is_empty()) {
        outcome.steps.extend(found.steps);
    }
}

fn issue(observed: &Observed<'_>, now: &Time, rendered: &Rendered, outcome: &mut StageOutcome) {
    let mut issues = StageOutcome::default();
    let steps = if rendered.authorities.is_empty() {
        &rendered.leaves
    } else {
        &rendered.authorities
    };
    issues.steps.clone_from(steps);
    stages::drop_refused(observed, now, &mut issues);
    outcome.join(issues);
}
