//! Preview of a rollout or removal: the writes of the operator, stage by stage, without sending them.
//!
//! [`forecast`] plans repeatedly with the operator's own planner and executes each plan on a copy of
//! the observed state, in which writes succeed, components become ready and definitions are served.
//!
//! Guarantees: it terminates, and shows neither certificates nor the data of Secrets.

mod controllers;
mod journal;

use std::collections::BTreeSet;

use api::Time;

use self::{controllers::Controllers, journal::Journal};
use super::{
    action::{Plan, Wait},
    caches::PlanCaches,
    object::Id,
    observed::Observed,
    rollout::plan,
    simulation::Simulation,
    stages::Stage,
};
use crate::preview::Effect;

/// Upper bound of plans; a complete rollout takes fewer.
const ROUNDS: usize = 500;

/// Writes of a rollout or removal, and its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Stages with writes, in order. A stage may occur twice.
    pub stages: Vec<StagePreview>,
    pub end: End,
    /// Warnings about the end, such as definitions that are kept.
    pub notes: Vec<String>,
    /// What the installation waits for now.
    pub waits: Vec<Wait>,
    /// Definitions whose objects have not been counted; the forecast assumes none.
    pub uncounted: BTreeSet<String>,
}

impl Forecast {
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
}

/// Writes and rollouts of one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePreview {
    pub stage: Stage,
    pub effects: Vec<Effect>,
    pub rollouts: Vec<Rollout>,
}

/// Pods of a component that are created or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub id: Id,
    /// Number of pods afterwards; for a DaemonSet, of nodes.
    pub pods: usize,
    /// Number of pods that are replaced.
    pub replaced: usize,
    /// Whether it begins with a canary.
    pub canary: bool,
}

/// How a rollout or removal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Deployed,
    Deleted,
    /// A Job has to write the install strategy first; its content is unknown.
    Strategy,
    Stuck {
        stage: Stage,
        causes: Vec<String>,
    },
}

/// Forecasts all writes until the rollout or removal ends.
pub fn forecast(observed: &Observed<'_>, now: &Time) -> Forecast {
    let mut simulation = Simulation::of(observed);
    let mut controllers = Controllers::new(now);
    let mut caches = PlanCaches::default();
    let mut journal = Journal::default();
    let mut waits = None;
    let mut last = Plan::default();
    let mut ended = false;
    for _ in 0..ROUNDS {
        let next = simulation.observed(|observed| plan(observed, now, &mut caches));
        waits.get_or_insert_with(|| next.waits.clone());
        journal.enter(next.stage);
        for step in &next.steps {
            // A refused step is planned again, for what the earlier ones have changed.
            if let Ok(executed) = simulation.execute(step, now) {
                controllers.on_write(&executed);
                journal.record(step, executed);
            }
        }
        let mut has_changed = !next.steps.is_empty();
        if let Some(status) = next.status.clone() {
            simulation.kubevirt.status = Some(status);
            has_changed = true;
        }
        // The rest depends on the strategy that the Job writes.
        let is_unknown = next.stage == Stage::Strategy;
        has_changed |= !is_unknown && controllers.run(&mut simulation, &mut journal);
        last = next;
        ended = !has_changed || is_unknown || !simulation.exists;
        if ended {
            break;
        }
    }
    let end = match last.stage {
        _ if !simulation.exists => End::Deleted,
        Stage::Deployed if ended => End::Deployed,
        Stage::Strategy if !last.stalled => End::Strategy,
        stage => End::Stuck {
            stage,
            causes: causes(&simulation, &last),
        },
    };
    Forecast {
        stages: journal.finish(),
        end,
        notes: last.notes,
        waits: waits.unwrap_or_default(),
        uncounted: simulation.uncounted,
    }
}

/// Why a plan is stuck.
fn causes(simulation: &Simulation, plan: &Plan) -> Vec<String> {
    let waits = plan.waits.iter();
    let mut causes: Vec<String> = waits
        .map(|wait| format!("{} {}", wait.id, wait.message))
        .collect();
    let status = simulation.kubevirt.status.as_ref();
    let status = plan.status.as_ref().or(status);
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let conditions = conditions.into_iter().flatten();
    let mut wrong = conditions.filter(|condition| {
        let wrong = match condition.type_.as_str() {
            "Synchronized" => "False",
            "Degraded" => "True",
            _ => return false,
        };
        condition.status == wrong
    });
    if causes.is_empty() {
        causes.extend(wrong.find_map(|condition| condition.message.clone()));
    }
    causes
}
