//! The strategy of the wanted version is at hand, or a Job is made that writes it.

use api::{Time, kubevirt::install};

use super::{Outcome, is_strategy};
use crate::{
    Event,
    kubevirt::{
        action::{Action, Step},
        job::{self, Dumping},
        object::{Id, Live, Object, Unnamed},
        observed::Observed,
        rollback::Aim,
    },
};

/// Sees to it that the strategy of a deployment comes. `make` makes the Job with that number.
pub(in crate::kubevirt) fn look(
    observed: &Observed<'_>,
    aim: &Aim,
    make: impl Fn(u32) -> Result<Object, Unnamed>,
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
    let jobs = observed.objects.values().filter(|live| is_strategy(live));
    let dumping = job::dumping(&aim.id, jobs, observed.pods, now);
    for (id, _) in &dumping.delete {
        if let Some(live) = observed.objects.get(id) {
            super::delete(observed, now, live, "another takes its place", &mut outcome);
        }
    }
    if let Some(job) = dumping.make.and_then(|number| make(number).ok()) {
        create(observed, job, aim, now, &mut outcome);
    }
    if let Some(job) = stuck(observed, &dumping) {
        let reason = "the KubeVirt resource has changed since, and it does not go on";
        super::delete(observed, now, job, reason, &mut outcome);
        if let Ok(next) = make(dumping.number.saturating_add(1)) {
            create(observed, next, aim, now, &mut outcome);
        }
    }
    let job = dumping.job.unwrap_or_else(|| {
        let namespace = &observed.operator.namespace;
        Id::new("", "ConfigMap", namespace, "kubevirt-install-strategy")
    });
    if dumping.is_failing {
        for step in &mut outcome.steps {
            if matches!(step.action, Action::Create(_)) {
                let message = format!("{job}: {}; it is tried again", dumping.message);
                step.event = Some(Event::warning("StrategyJobFailed", message));
            }
        }
    }
    outcome.wait(&job, dumping.message);
    if let Some(at) = dumping.requeue_at {
        outcome.requeue_at(at);
    }
    outcome
}

/// The Job that is waited for, if it does not go on and was made for another state of the KubeVirt
/// resource, which may say something else now of where it runs.
fn stuck<'a>(observed: &Observed<'a>, dumping: &Dumping) -> Option<&'a Live> {
    let job = observed.objects.get(dumping.job.as_ref()?)?;
    let generation = observed.kubevirt.metadata.generation?.to_string();
    let made_for = job.annotations.get(install::GENERATION)?;
    let is_stuck = dumping.is_failing && dumping.make.is_none() && !job::is_finished(job);
    (is_stuck && !job.deleting && *made_for != generation).then_some(job)
}

fn create(observed: &Observed<'_>, job: Object, aim: &Aim, now: &Time, outcome: &mut Outcome) {
    if let Some(refused) = observed.memory.refusals.get(&job.id) {
        let refusal = format!("{} is refused: {}", job.id, refused.message);
        outcome.refusals.push(refusal);
        if refused.retry_at.0 > now.0 {
            outcome.requeue_at(refused.retry_at.clone());
            return;
        }
    }
    outcome.steps.push(Step {
        action: Action::Create(job),
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
