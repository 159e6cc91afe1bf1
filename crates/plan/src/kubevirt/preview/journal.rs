//! Record of the simulated writes by stage. Several writes to an object in one stage become one effect.

use super::{Effect, Rollout, StagePreview, Verb};
use crate::{
    kubevirt::{
        compare,
        object::{Id, Live, Object},
        stages::Stage,
    },
    preview::{Change, changes},
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
pub(super) struct ObjectWrite {
    pub(super) id: Id,
    pub(super) reason: String,
    pub(super) before: Option<Live>,
    pub(super) after: Option<Live>,
    /// The applied object.
    pub(super) wanted: Option<Object>,
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

    pub(super) fn record(&mut self, verb: Verb, id: Id, reason: &str, fields: Vec<Change>) {
        if let Some(current) = self.stages.last_mut() {
            current.entries.push(Entry::Effect(Effect {
                verb,
                id,
                reason: reason.to_owned(),
                fields,
            }));
        }
    }

    pub(super) fn record_write(&mut self, write: ObjectWrite) {
        let Some(current) = self.stages.last_mut() else {
            return;
        };
        let earlier = current.entries.iter_mut().find_map(|entry| match entry {
            Entry::Write(earlier) if earlier.id == write.id => Some(earlier),
            _ => None,
        });
        match earlier {
            Some(earlier) => {
                earlier.after = write.after;
                earlier.wanted = write.wanted.or_else(|| earlier.wanted.take());
            }
            None => current.entries.push(Entry::Write(Box::new(write))),
        }
    }

    /// Records a rollout in the stage that last wrote its object.
    pub(super) fn record_rollout(&mut self, rollout: Rollout) {
        let current = self.stages.iter_mut().rev().find(|current| {
            current.entries.iter().any(|entry| match entry {
                Entry::Write(write) => write.id == rollout.id,
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

impl Entry {
    fn effect(self) -> Option<Effect> {
        let write = match self {
            Self::Effect(effect) => return Some(effect),
            Self::Write(write) => *write,
        };
        let ObjectWrite {
            id,
            reason,
            before,
            after,
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
