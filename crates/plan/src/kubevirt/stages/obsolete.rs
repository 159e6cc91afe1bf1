//! What the wanted version does not have goes, once every component has rolled over.
//!
//! A definition goes only when it has no objects, or when the resource says that they may go with
//! it.

use std::collections::BTreeSet;

use api::kubevirt::install;
use k8s_openapi::jiff::SignedDuration;

use super::{
    FRESH, Outcome, Scene, Stage, is_definition, is_held, is_ours, is_strategy, later, let_go,
    not_empty, stage_of,
};
use crate::kubevirt::{
    action::Action,
    job::is_finished,
    object::{Id, Live},
};

/// How often the objects of a definition that stays are counted.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Webhooks and policies go before anything else: they may stand in the way of what follows.
pub(super) fn endpoints(scene: &Scene<'_>, outcome: &mut Outcome) {
    let stages = [Stage::Endpoints, Stage::Policies];
    let endpoints = obsolete(scene);
    for live in endpoints.filter(|live| stages.contains(&stage_of(&live.id, &[]))) {
        scene.delete(live, why(scene), outcome);
    }
}

/// Everything else that is obsolete.
pub(super) fn look(scene: &Scene<'_>, outcome: &mut Outcome) {
    for live in obsolete(scene) {
        if is_definition(&live.id) {
            definition(scene, live, outcome);
        } else if !live.deleting {
            scene.delete(live, why(scene), outcome);
        }
    }
}

/// Strategies of other deployments go once the wanted one runs, and so do Jobs that have ended: what
/// ran last is needed until then, in case that it is gone back to.
pub(super) fn strategies(scene: &Scene<'_>, outcome: &mut Outcome) {
    let status = scene.observed.kubevirt.status.as_ref();
    let observed = status.and_then(|status| status.observed_deployment_id.as_deref());
    if observed != Some(&*scene.aim.id) {
        return;
    }
    let all = scene.observed.objects.values();
    for live in all.filter(|live| is_strategy(live) && live.is_managed() && !live.deleting) {
        let of = live.annotations.get(install::STRATEGY_IDENTIFIER);
        let is_other = of != Some(&scene.aim.id);
        if is_other || (live.id.is("batch", "Job") && is_finished(live)) {
            scene.delete(live, "nobody needs it any more", outcome);
        }
    }
}

fn why(scene: &Scene<'_>) -> String {
    format!("version {} does not have it", scene.aim.version)
}

fn obsolete<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a Live> {
    let wanted: BTreeSet<&Id> = scene.wanted.iter().map(|object| &object.id).collect();
    let all = scene.observed.objects.values().filter(|live| is_ours(live));
    all.filter(move |live| {
        !wanted.contains(&live.id)
            && !scene.kept.contains(&live.id)
            && !is_strategy(live)
            && !super::hold_back::is_ours(live)
    })
}

fn definition(scene: &Scene<'_>, live: &Live, outcome: &mut Outcome) {
    if live.deleting {
        if is_held(live) && not_empty(live).is_none() {
            outcome.step(let_go(live), "it has no objects");
        }
        return;
    }
    let name = live.id.name.to_string();
    let annotations = scene.observed.kubevirt.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(install::PRUNE_DEFINITIONS));
    if annotation.map(String::as_str) == Some("true") {
        scene.delete(
            live,
            format!("{}, and it may go with its objects", why(scene)),
            outcome,
        );
        return;
    }
    let count = scene.observed.counts.get(&name);
    let age = count.map(|count| scene.now.0.duration_since(count.at.0));
    match count {
        Some(count) if count.objects == 0 && age.is_some_and(|age| age <= FRESH) => {
            scene.delete(live, format!("{}, nor objects of it", why(scene)), outcome);
        }
        Some(count) if count.objects > 0 && age.is_some_and(|age| age <= AGAIN) => {
            outcome.requeue_at(later(&count.at, AGAIN));
            outcome.notes.push(format!(
                "definition {name} is kept, though version {} does not have it, for its objects: \
                 {}{}; the annotation {}=true lets them go",
                scene.aim.version,
                count.names.join(", "),
                if count.objects > count.names.len() {
                    ", ..."
                } else {
                    ""
                },
                install::PRUNE_DEFINITIONS,
            ));
        }
        _ => outcome.step(
            Action::Count { definition: name },
            "a definition that is obsolete goes only without objects",
        ),
    }
}
