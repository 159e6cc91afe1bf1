//! Record of the simulated writes by stage. Several writes to an object in one stage become one effect.

use super::{Rollout, StagePreview};
use crate::{
    kubevirt::{
        action::{Action, Step},
        compare,
        object::{Live, Object},
        simulation::Executed,
        stages::Stage,
    },
    preview::{Change, Effect, Verb, changes},
    simulation::Written,
};

/// Fields that the API server sets.
const SERVER_FIELDS: [&str; 3] = [
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.deletionTimestamp",
];

#[derive(Debug, Default)]
pub(super) struct Journal {
    stages: Vec<StageEntries>,
}

#[derive(Debug)]
struct StageEntries {
    stage: Stage,
    entries: Vec<Entry>,
    rollouts: Vec<Rollout>,
}

#[derive(Debug)]
enum Entry {
    Effect(Effect),
    Write(Box<ObjectWrite>),
}

/// A write to an object, or several in one stage.
#[derive(Debug)]
struct ObjectWrite {
    written: Written<Live>,
    reason: String,
    /// The applied object.
    wanted: Option<Object>,
}

impl Journal {
    /// Starts a stage, unless it is the current one.
    pub(super) fn enter(&mut self, stage: Stage) {
        if self
            .stages
            .last()
            .is_none_or(|current| current.stage != stage)
        {
            self.stages.push(StageEntries {
                stage,
                entries: Vec::new(),
                rollouts: Vec::new(),
            });
        }
    }

    pub(super) fn record(&mut self, step: &Step, executed: Executed) {
        let Some(current) = self.stages.last_mut() else {
            return;
        };
        let reason = match &step.action {
            Action::Issue { issue, .. } => issue.reason.clone(),
            _ => step.reason.clone(),
        };
        let (verb, id, reason, fields) = match executed {
            Executed::Object(written) => {
                let wanted = match &step.action {
                    Action::Create(object) | Action::Apply { object, .. } => Some(object.clone()),
                    _ => None,
                };
                current.record_write(ObjectWrite {
                    written: *written,
                    reason,
                    wanted,
                });
                return;
            }
            Executed::Fields(id, fields) => (Verb::Change, id, reason, fields),
            Executed::Issued(id) => (Verb::Issue, id, reason, Vec::new()),
            Executed::Secret(id) => (Verb::Change, id, reason, Vec::new()),
            Executed::Emptied(id, names) => {
                let reason = format!("{}: {reason}", names.join(", "));
                (Verb::Empty, id, reason, Vec::new())
            }
            Executed::Counted => return,
        };
        current.entries.push(Entry::Effect(Effect {
            verb,
            id,
            reason,
            fields,
        }));
    }

    /// Records a rollout in the stage that last wrote its object.
    pub(super) fn record_rollout(&mut self, rollout: Rollout) {
        let current = self.stages.iter_mut().rev().find(|current| {
            current.entries.iter().any(|entry| match entry {
                Entry::Write(write) => write.written.id == rollout.id,
                Entry::Effect(_) => false,
            })
        });
        let Some(current) = current else {
            return;
        };
        let earlier = current.rollouts.iter_mut().find(|it| it.id == rollout.id);
        match earlier {
            Some(earlier) => {
                earlier.replaced += rollout.replaced;
                earlier.pods = rollout.pods;
                earlier.canary |= rollout.canary;
            }
            None => current.rollouts.push(rollout),
        }
    }

    pub(super) fn finish(self) -> Vec<StagePreview> {
        let stages = self.stages.into_iter().map(|current| StagePreview {
            stage: current.stage,
            effects: current
                .entries
                .into_iter()
                .filter_map(Entry::effect)
                .collect(),
            rollouts: current.rollouts,
        });
        stages
            .filter(|stage| !stage.effects.is_empty() || !stage.rollouts.is_empty())
            .collect()
    }
}

impl StageEntries {
    fn record_write(&mut self, write: ObjectWrite) {
        let earlier = self.entries.iter_mut().find_map(|entry| match entry {
            Entry::Write(earlier) if earlier.written.id == write.written.id => Some(earlier),
            _ => None,
        });
        match earlier {
            Some(earlier) => {
                earlier.written.after = write.written.after;
                earlier.wanted = write.wanted.or_else(|| earlier.wanted.take());
            }
            None => self.entries.push(Entry::Write(Box::new(write))),
        }
    }
}

impl Entry {
    fn effect(self) -> Option<Effect> {
        let write = match self {
            Self::Effect(effect) => return Some(effect),
            Self::Write(write) => *write,
        };
        let ObjectWrite {
            written: Written { id, before, after },
            reason,
            wanted,
        } = write;
        let (verb, reason, fields) = match (before, after) {
            (None, None) => return None,
            (None, Some(_)) => (Verb::Create, reason, Vec::new()),
            (Some(_), None) => (Verb::Delete, reason, Vec::new()),
            (Some(before), Some(after)) => {
                let is_same = before.uid == after.uid;
                let mut fields = match &wanted {
                    Some(wanted) => compare::differences(&before, wanted),
                    None => changes(&before.value(), &after.value()),
                };
                fields.retain(|field| !SERVER_FIELDS.contains(&field.path.as_str()));
                fields.iter_mut().for_each(hide);
                match (is_same, wanted) {
                    (false, _) => (Verb::Replace, reason, fields),
                    // The changed fields are the reason.
                    (true, Some(_)) => (Verb::Change, String::new(), fields),
                    (true, None) => (Verb::Change, reason, fields),
                }
            }
        };
        Some(Effect {
            verb,
            id,
            reason,
            fields,
        })
    }
}

/// Hides certificates: they are long, and those of future writes are unknown.
fn hide(field: &mut Change) {
    let names = ["caBundle", "caCertificate", "ca-bundle"];
    if names.iter().any(|name| field.path.ends_with(name)) {
        field.from = None;
        field.to = None;
    }
}
