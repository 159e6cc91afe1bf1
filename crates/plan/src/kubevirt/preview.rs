//! What an operator would do, stage by stage, told before anything is touched.
//!
//! [`forecast`] asks for one plan after the other, and carries each out on a copy of what was observed:
//! writes succeed, components become ready, definitions are served, certificates are there. So what
//! is told is what the operator does when nothing goes wrong, decided by the very function that
//! drives it.
//!
//! Guaranteed: it comes to an end; what is in Secrets, and certificates, are not told.

mod actors;
mod imagined;
mod journal;

use std::collections::BTreeSet;

use api::Time;

use self::{imagined::Imagined, journal::Journal};
use super::{
    action::{Plan, Wait},
    object::Id,
    observed::Observed,
    order::plan,
    stages::Stage,
};
use crate::preview::Change;

/// More rounds than any way to rest takes.
const ROUNDS: usize = 500;

/// What would be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The stages in which something is done, in order. One may come again.
    pub stages: Vec<StagePreview>,
    /// How it ends.
    pub end: End,
    /// What people should know of how it ends, such as definitions that are kept.
    pub notes: Vec<String>,
    /// What is waited for right now, and why it has not happened yet.
    pub waits: Vec<Wait>,
    /// Definitions whose objects would be counted, and were not: they are taken for having none.
    pub uncounted: BTreeSet<String>,
}

impl Forecast {
    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
}

/// What is done in a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePreview {
    /// Which stage.
    pub stage: Stage,
    /// What becomes of objects.
    pub effects: Vec<Effect>,
    /// Components whose pods are made or replaced, and that are waited for.
    pub rollouts: Vec<Rollout>,
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What is done.
    pub verb: Verb,
    /// To which object.
    pub id: Id,
    /// Why, unless the fields say so.
    pub reason: String,
    /// The fields that change. One without values changes to something that is not told.
    pub fields: Vec<Change>,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is made.
    Create,
    /// Fields of it change.
    Change,
    /// It goes and is made anew, since fields of it change that cannot.
    Replace,
    /// A certificate is made, and put into this Secret.
    Issue,
    /// It goes.
    Delete,
    /// All objects of this definition go.
    Empty,
}

/// Pods of a component that are made or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The component.
    pub id: Id,
    /// How many pods it has then; of a DaemonSet, on how many nodes.
    pub pods: usize,
    /// How many pods of it are replaced.
    pub replaced: usize,
    /// Whether one node tries it, and then a tenth of them at a time.
    pub canary: bool,
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything is as wanted.
    Deployed,
    /// Nothing is left.
    Deleted,
    /// A Job has to write the strategy first; what is in it is not known.
    Strategy,
    /// It does not go on.
    Stuck {
        /// Where.
        stage: Stage,
        /// Why.
        causes: Vec<String>,
    },
}

/// What would be done about an installation, from now to its end.
pub fn forecast(observed: &Observed<'_>, now: &Time) -> Forecast {
    let mut imagined = Imagined::of(observed, now);
    let mut journal = Journal::default();
    let mut waits = None;
    let mut last = Plan::default();
    let mut ended = false;
    for _ in 0..ROUNDS {
        let next = imagined.observed(|observed| plan(observed, now));
        waits.get_or_insert_with(|| next.waits.clone());
        journal.enter(next.stage);
        for step in &next.steps {
            imagined.carry_out(step, &mut journal);
        }
        let mut moved = !next.steps.is_empty();
        if let Some(status) = next.status.clone() {
            imagined.kubevirt.status = Some(status);
            moved = true;
        }
        // The rest depends on what the Job writes.
        let is_unknown = next.stage == Stage::Strategy;
        moved |= !is_unknown && imagined.go_on(&mut journal);
        last = next;
        ended = !moved || is_unknown || !imagined.exists;
        if ended {
            break;
        }
    }
    let end = match last.stage {
        _ if !imagined.exists => End::Deleted,
        Stage::Deployed if ended => End::Deployed,
        Stage::Strategy if !last.stalled => End::Strategy,
        stage => End::Stuck {
            stage,
            causes: imagined.causes(&last),
        },
    };
    Forecast {
        stages: journal.finish(),
        end,
        notes: last.notes,
        waits: waits.unwrap_or_default(),
        uncounted: imagined.uncounted,
    }
}
