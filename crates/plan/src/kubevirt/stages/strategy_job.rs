//! Stage that obtains the install strategy of the target version with a Job.

use api::{Time, kubevirt::install};

use super::{StageOutcome, is_strategy};
use crate::{
    Event,
    kubevirt::{
        action::{Action, Step},
        job::{self, StrategyJobPlan},
        object::{Id, Live, Object, Unnamed},
        observed::Observed,
        rollback::RolloutTarget,
    },
};

/// Creates, watches and retries the Job. `build` builds the Job of an attempt.
pub(in crate::kubevirt) fn evaluate(
    observed: &Observed<'_>,
    target: &RolloutTarget,
    build: impl Fn(u32) -> Result<Object, Unnamed>,
    now: &Time,
) -> StageOutcome {
    let mut outcome = StageOutcome::default();
    if let Some(error) = observed.unreadable.get(&target.id) {
        outcome.refusals.push(format!(
            "the install strategy of version {} cannot be read: {error}; delete its ConfigMap, and \
             the operator has it written again",
            target.version
        ));
        return outcome;
    }
    let jobs = observed.objects.values().filter(|live| is_strategy(live));
    let job_plan = job::plan_strategy_job(&target.id, jobs, observed.pods, now);
    for (id, _) in &job_plan.delete {
        if let Some(live) = observed.objects.get(id) {
            super::delete(observed, now, live, "a new Job replaces it", &mut outcome);
        }
    }
    if let Some(job) = job_plan.create.and_then(|attempt| build(attempt).ok()) {
        create(observed, job, target, now, &mut outcome);
    }
    if let Some((job, attempt)) = outdated(observed, &job_plan) {
        let reason = "the Job is stuck, and the KubeVirt resource has changed since it was created";
        super::delete(observed, now, job, reason, &mut outcome);
        if let Ok(next) = build(attempt.saturating_add(1)) {
            create(observed, next, target, now, &mut outcome);
        }
    }
    let job = job_plan.job.map(|(job, _)| job);
    let job = job.unwrap_or_else(|| {
        let namespace = &observed.operator.namespace;
        Id::new("", "ConfigMap", namespace, "kubevirt-install-strategy")
    });
    if job_plan.is_failing {
        for step in &mut outcome.steps {
            if matches!(step.action, Action::Create(_)) {
                let message = format!("{job}: {}; the operator retries", job_plan.message);
                step.event = Some(Event::warning("StrategyJobFailed", message));
            }
        }
    }
    outcome.wait(&job, job_plan.message);
    if let Some(at) = job_plan.requeue_at {
        outcome.requeue_at(at);
    }
    outcome
}

/// The current Job, if it is stuck and was created for another generation of the KubeVirt resource,
/// whose placement may differ now. Returns its attempt too.
fn outdated<'a>(observed: &Observed<'a>, job_plan: &StrategyJobPlan) -> Option<(&'a Live, u32)> {
    let (id, attempt) = job_plan.job.as_ref()?;
    let job = observed.objects.get(id)?;
    let generation = observed.kubevirt.metadata.generation?.to_string();
    let created_for = job.annotations.get(install::GENERATION)?;
    let is_stuck = job_plan.is_failing && job_plan.create.is_none() && !job::is_finished(job);
    (is_stuck && !job.deleting && *created_for != generation).then_some((job, *attempt))
}

fn create(
    observed: &Observed<'_>,
    job: Object,
    target: &RolloutTarget,
    now: &Time,
    outcome: &mut StageOutcome,
) {
    if let Some(refused) = observed.memory.refusals.get(&job.id) {
        let refusal = format!("{} is refused: {}", job.id, refused.reason.message);
        outcome.refusals.push(refusal);
        if refused.retry_at.0 > now.0 {
            outcome.requeue_at(refused.retry_at.clone());
            return;
        }
    }
    outcome.steps.push(Step {
        action: Action::Create(job),
        reason: format!(
            "the install strategy of version {} is missing",
            target.version
        ),
        event: Some(Event::normal(
            "StrategyJobCreated",
            format!(
                "A Job writes the install strategy of version {}",
                target.version
            ),
        )),
    });
}
