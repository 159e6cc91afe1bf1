//! Stages that remove what the target version does not have, once all components have rolled out.
//!
//! A definition is removed only without objects, or if the resource allows their loss with an
//! annotation.

use std::collections::BTreeSet;

use api::kubevirt::install;
use k8s_openapi::jiff::SignedDuration;

use super::{
    COUNT_MAX_AGE, Stage, StageContext, StageOutcome, describe_remaining, has_definition_finalizer,
    is_definition, is_owned, is_strategy, later, remove_definition_finalizer, stage_of,
};
use crate::kubevirt::{
    action::Action,
    job::is_finished,
    object::{Id, Live},
};

/// Interval at which the objects of an obsolete definition are counted.
const RECOUNT_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// Removes webhooks and policies first: they may block the following deletions.
pub(super) fn endpoints(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    let stages = [Stage::Endpoints, Stage::Policies];
    let endpoints = obsolete(context);
    for live in endpoints.filter(|live| stages.contains(&stage_of(&live.id, &[]))) {
        context.delete(live, reason(context), outcome);
    }
}

/// Removes all other obsolete objects.
pub(super) fn evaluate(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    for live in obsolete(context) {
        if is_definition(&live.id) {
            definition(context, live, outcome);
        } else if !live.deleting {
            context.delete(live, reason(context), outcome);
        }
    }
}

/// Removes the strategies of other deployments, and Jobs that have ended, once the target is
/// deployed. Until then a rollback may need them.
pub(super) fn strategies(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    let status = context.observed.kubevirt.status.as_ref();
    let observed = status.and_then(|status| status.observed_deployment_id.as_deref());
    if observed != Some(&*context.target.id) {
        return;
    }
    let all = context.observed.objects.values();
    for live in all.filter(|live| is_strategy(live) && live.is_managed() && !live.deleting) {
        let of = live.annotations.get(install::STRATEGY_IDENTIFIER);
        let is_other = of != Some(&context.target.id);
        if is_other || (live.id.is("batch", "Job") && is_finished(live)) {
            context.delete(live, "it is not needed any more", outcome);
        }
    }
}

fn reason(context: &StageContext<'_>) -> String {
    format!("version {} does not have it", context.target.version)
}

fn obsolete<'a>(context: &'a StageContext<'_>) -> impl Iterator<Item = &'a Live> {
    let wanted: BTreeSet<&Id> = context.wanted.iter().map(|object| &object.id).collect();
    let all = context
        .observed
        .objects
        .values()
        .filter(|live| is_owned(live));
    all.filter(move |live| {
        !wanted.contains(&live.id)
            && !context.kept.contains(&live.id)
            && !is_strategy(live)
            && !super::temporary_webhook::is_temporary_webhook(live)
    })
}

fn definition(context: &StageContext<'_>, live: &Live, outcome: &mut StageOutcome) {
    if live.deleting {
        if has_definition_finalizer(live) && describe_remaining(live).is_none() {
            outcome.step(remove_definition_finalizer(live), "it has no objects");
        }
        return;
    }
    let name = live.id.name.to_string();
    let annotations = context.observed.kubevirt.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(install::PRUNE_DEFINITIONS));
    if annotation.map(String::as_str) == Some("true") {
        context.delete(
            live,
            format!(
                "{}, and the annotation allows the loss of its objects",
                reason(context)
            ),
            outcome,
        );
        return;
    }
    let count = context.observed.counts.get(&name);
    let age = count.map(|count| context.now.0.duration_since(count.at.0));
    match count {
        Some(count) if count.objects == 0 && age.is_some_and(|age| age <= COUNT_MAX_AGE) => {
            context.delete(
                live,
                format!("{}, and it has no objects", reason(context)),
                outcome,
            );
        }
        Some(count) if count.objects > 0 && age.is_some_and(|age| age <= RECOUNT_INTERVAL) => {
            outcome.requeue_at(later(&count.at, RECOUNT_INTERVAL));
            outcome.notes.push(format!(
                "the operator keeps definition {name}, which version {} does not have, for its \
                 objects: {}{}; the annotation {}=true allows their loss",
                context.target.version,
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
            "an obsolete definition is deleted only without objects",
        ),
    }
}
