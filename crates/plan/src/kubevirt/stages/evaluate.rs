//! Evaluation of each stage of an installation.

use serde_json::json;

use super::{
    Stage, StageContext, StageOutcome, definitions, obsolete, stage_of, temporary_webhook,
};
use crate::kubevirt::{
    action::Action, caches::PlanCaches, canary, compare::ComparisonCache, desired::NAMESPACE_LABEL,
    object::Id, ready::Readiness,
};

pub(in crate::kubevirt) fn evaluate(
    context: &StageContext<'_>,
    stage: Stage,
    caches: &mut PlanCaches,
) -> StageOutcome {
    let comparisons = &mut caches.comparisons;
    let mut outcome = StageOutcome::default();
    let to = &mut outcome;
    match stage {
        Stage::TemporaryWebhook => temporary_webhook::evaluate(context, comparisons, to),
        Stage::Definitions => definitions::evaluate(context, comparisons, to),
        Stage::Established => definitions::evaluate_established(context, to),
        Stage::Certificates => {
            to.steps.extend_from_slice(context.authorities);
            if to.steps.is_empty() {
                ensure_stage(context, stage, comparisons, to);
            }
        }
        Stage::LeafCertificates => to.steps.extend_from_slice(context.leaves),
        Stage::Namespace => namespace(context, to),
        Stage::Monitoring => {
            ensure_stage(context, stage, comparisons, to);
            // KubeVirt runs without monitoring: refusals are notes.
            to.notes.append(&mut to.refusals);
        }
        Stage::Handler => {
            for handler in context.of(stage) {
                canary::evaluate(context, handler, comparisons, to);
            }
        }
        Stage::Controller | Stage::Api => {
            ensure_stage(context, stage, comparisons, to);
            if !to.is_under_way() {
                wait(context, Some(stage), to);
            }
        }
        Stage::AllComponents => wait(context, None, to),
        Stage::ObsoleteEndpoints => obsolete::endpoints(context, to),
        Stage::Obsolete => {
            obsolete::evaluate(context, to);
            privileged(context, to);
        }
        Stage::Resources => resources(context, comparisons, to),
        Stage::StrategyCleanup => obsolete::strategies(context, to),
        _ => ensure_stage(context, stage, comparisons, to),
    }
    super::drop_refused(context.observed, context.now, to);
    outcome
}

fn ensure_stage(
    context: &StageContext<'_>,
    stage: Stage,
    comparisons: &mut ComparisonCache,
    outcome: &mut StageOutcome,
) {
    for object in context.of(stage) {
        context.ensure(object, comparisons, outcome);
    }
}

/// Waits for the components of a stage, or for all of them.
fn wait(context: &StageContext<'_>, stage: Option<Stage>, outcome: &mut StageOutcome) {
    for (object, readiness) in context.components() {
        if stage.is_some_and(|stage| stage != stage_of(&object.id, &[])) {
            continue;
        }
        match readiness {
            Readiness::Ready => {}
            Readiness::Noted(note) => outcome.notes.push(note.clone()),
            Readiness::NotReady(cause) => cause.add_to(&object.id, None, outcome),
        }
    }
}

fn namespace(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    let (label, value) = NAMESPACE_LABEL;
    let id = Id::new("", "Namespace", "", &context.observed.operator.namespace);
    let unlabelled = context
        .live(&id)
        .filter(|live| !live.deleting && live.labels.get(label).map(String::as_str) != Some(value));
    if let Some(live) = unlabelled {
        let action = Action::Patch {
            id,
            version: live.version.to_string(),
            patch: json!({"metadata": {"labels": {label: value}}}),
        };
        outcome.step(
            action,
            "OpenShift's Prometheus selects namespaces by this label",
        );
    }
}

/// Objects of KubeVirt's own kinds, which virt-api validates.
fn resources(
    context: &StageContext<'_>,
    comparisons: &mut ComparisonCache,
    outcome: &mut StageOutcome,
) {
    ensure_stage(context, Stage::Resources, comparisons, outcome);
    if !outcome.steps.is_empty() && !context.has_stage_rolled_out(Stage::Api) {
        outcome.steps.clear();
        wait(context, Some(Stage::Api), outcome);
    }
}

/// Old releases used OpenShift's privileged SecurityContextConstraints; now KubeVirt has its own.
fn privileged(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    if let Some(action) = super::remove_privileged_users(context.observed) {
        outcome.step(
            action,
            "the components have their own SecurityContextConstraints",
        );
    }
}
