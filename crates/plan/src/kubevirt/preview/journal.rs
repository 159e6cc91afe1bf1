//! What was done in each stage. Several writes to an object in a stage are told as one.

use super::{Effect, Rollout, StagePreview, Verb};
use crate::{
    kubevirt::{
        compare,
        object::{Id, Live, Object},
        stages::Stage,
    },
    preview::{Change, changes},
};

/// Fields that the API server keeps by itself.
const KEPT: [&str; 3] = [
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.deletionTimestamp",
];

#[derive(Debug, Default)]
pub(super) struct Journal {
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    stage: Stage,
    entries: Vec<Entry>,
    rollouts: Vec<Rollout>,
}

#[derive(Debug)]
enum Entry {
    Told(Effect),
    Touched(Box<Touched>),
}

/// An object that was written to.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) id: Id,
    pub(super) reason: String,
    pub(super) before: Option<Live>,
    pub(super) after: Option<Live>,
    /// What was applied to it.
    pub(super) wanted: Option<Object>,
}

impl Journal {
    /// What follows is done in this stage.
    pub(super) fn enter(&mut self, stage: Stage) {
        if self.pages.last().is_none_or(|page| page.stage != stage) {
            self.pages.push(Page {
                stage,
                entries: Vec::new(),
                rollouts: Vec::new(),
            });
        }
    }

    pub(super) fn tell(&mut self, verb: Verb, id: Id, reason: &str, fields: Vec<Change>) {
        if let Some(page) = self.pages.last_mut() {
            page.entries.push(Entry::Told(Effect {
                verb,
                id,
                reason: reason.to_owned(),
                fields,
            }));
        }
    }

    pub(super) fn touched(&mut self, touched: Touched) {
        let Some(page) = self.pages.last_mut() else {
            return;
        };
        let earlier = page.entries.iter_mut().find_map(|entry| match entry {
            Entry::Touched(earlier) if earlier.id == touched.id => Some(earlier),
            _ => None,
        });
        match earlier {
            Some(earlier) => {
                earlier.after = touched.after;
                earlier.wanted = touched.wanted.or_else(|| earlier.wanted.take());
            }
            None => page.entries.push(Entry::Touched(Box::new(touched))),
        }
    }

    /// Pods are made or replaced, by what was last written to that object.
    pub(super) fn rolled(&mut self, rollout: Rollout) {
        let page = self.pages.iter_mut().rev().find(|page| {
            page.entries.iter().any(|entry| match entry {
                Entry::Touched(touched) => touched.id == rollout.id,
                Entry::Told(_) => false,
            })
        });
        let Some(page) = page else { return };
        let earlier = page.rollouts.iter_mut().find(|it| it.id == rollout.id);
        match earlier {
            Some(earlier) => {
                earlier.replaced += rollout.replaced;
                earlier.pods = rollout.pods;
                earlier.canary |= rollout.canary;
            }
            None => page.rollouts.push(rollout),
        }
    }

    pub(super) fn finish(self) -> Vec<StagePreview> {
        let stages = self.pages.into_iter().map(|page| StagePreview {
            stage: page.stage,
            effects: page.entries.into_iter().filter_map(Entry::effect).collect(),
            rollouts: page.rollouts,
        });
        stages
            .filter(|stage| !stage.effects.is_empty() || !stage.rollouts.is_empty())
            .collect()
    }
}

impl Entry {
    fn effect(self) -> Option<Effect> {
        let touched = match self {
            Self::Told(effect) => return Some(effect),
            Self::Touched(touched) => *touched,
        };
        let Touched {
            id,
            reason,
            before,
            after,
            wanted,
        } = touched;
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
                fields.retain(|field| !KEPT.contains(&field.path.as_str()));
                fields.iter_mut().for_each(hide);
                match (is_same, wanted) {
                    (false, _) => (Verb::Replace, reason, fields),
                    // Nothing but its fields is the reason.
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

/// Certificates are long, and those that are not made yet are not known.
fn hide(field: &mut Change) {
    let names = ["caBundle", "caCertificate", "ca-bundle"];
    if names.iter().any(|name| field.path.ends_with(name)) {
        field.from = None;
        field.to = None;
    }
}
