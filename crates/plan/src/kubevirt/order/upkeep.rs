//! What keeps the version that runs alive while something is stuck: its certificates do not wait, as
//! those that CAs sign last for a day.

use api::Time;

use super::{Rendered, Wanted, scene, wanted};
use crate::kubevirt::{
    observed::Observed,
    rollback::{self, Aim},
    stages::{self, Outcome, Scene, Stage, earlier},
};

const UPKEEP: [Stage; 3] = [Stage::Certificates, Stage::Endpoints, Stage::Leaves];

/// Keeps the version that runs alive while the one that is aimed at cannot be had.
pub(super) fn keep_up(
    observed: &Observed<'_>,
    now: &Time,
    aim: &Aim,
    wanted: &impl Fn(&Aim) -> Wanted,
    outcome: &mut Outcome,
) {
    let other = rollback::last_good(observed.kubevirt).filter(|good| good.id != aim.id);
    if let Some(good) = other
        && let Wanted::Known(rendered) = wanted(&good)
    {
        look(&scene(observed, now, &good, &rendered), outcome);
        outcome.requeue_at = earlier(outcome.requeue_at.take(), rendered.requeue_at);
    } else {
        certificates(observed, now, outcome);
    }
}

/// Keeps the version that runs alive while a stage before the certificates is stuck. Nothing of
/// another version is written out of its order but certificates.
pub(super) fn while_stuck(scene: &Scene<'_>, rendered: &Rendered, outcome: &mut Outcome) {
    let Some(good) = rollback::last_good(scene.observed.kubevirt) else {
        return;
    };
    if good.id == scene.aim.id {
        look(scene, outcome);
    } else {
        issue(scene.observed, scene.now, rendered, outcome);
    }
}

/// Renews the certificates of the version that runs, and nothing else.
pub(in crate::kubevirt) fn certificates(
    observed: &Observed<'_>,
    now: &Time,
    outcome: &mut Outcome,
) {
    let good = rollback::last_good(observed.kubevirt);
    if let Some(rendered) = good.and_then(|good| wanted::plain(observed, &good, now)) {
        issue(observed, now, &rendered, outcome);
        outcome.requeue_at = earlier(outcome.requeue_at.take(), rendered.requeue_at);
    }
}

fn look(scene: &Scene<'_>, outcome: &mut Outcome) {
    let looks = UPKEEP.into_iter().map(|stage| stages::look(scene, stage));
    if let Some(found) = looks.into_iter().find(|found| !found.steps.is_empty()) {
        outcome.steps.extend(found.steps);
    }
}

fn issue(observed: &Observed<'_>, now: &Time, rendered: &Rendered, outcome: &mut Outcome) {
    let mut issues = Outcome::default();
    let steps = if rendered.authorities.is_empty() {
        &rendered.leaves
    } else {
        &rendered.authorities
    };
    issues.steps.clone_from(steps);
    stages::sift(observed, now, &mut issues);
    outcome.join(issues);
}
