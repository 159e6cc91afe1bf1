//! What each stage of an installation has to do.

use serde_json::json;

use super::{Outcome, Scene, Stage, definitions, hold_back, obsolete, stage_of};
use crate::kubevirt::{
    action::Action, canary, desired::NAMESPACE_LABEL, object::Id, ready::Readiness,
};

/// Looks at a stage.
pub(in crate::kubevirt) fn look(scene: &Scene<'_>, stage: Stage) -> Outcome {
    let mut outcome = Outcome::default();
    let to = &mut outcome;
    match stage {
        Stage::HoldingBack => hold_back::look(scene, to),
        Stage::Definitions => definitions::look(scene, to),
        Stage::Established => definitions::established(scene, to),
        Stage::Certificates => {
            to.steps.extend_from_slice(scene.authorities);
            if to.steps.is_empty() {
                put(scene, stage, to);
            }
        }
        Stage::Leaves => to.steps.extend_from_slice(scene.leaves),
        Stage::Namespace => namespace(scene, to),
        Stage::Monitoring => {
            put(scene, stage, to);
            // KubeVirt runs without being watched; who watches it is told.
            to.notes.append(&mut to.refusals);
        }
        Stage::Handler => {
            for handler in scene.of(stage) {
                canary::look(scene, handler, to);
            }
        }
        Stage::Controller | Stage::Api => {
            put(scene, stage, to);
            if !to.is_under_way() {
                wait(scene, Some(stage), to);
            }
        }
        Stage::RollOver => wait(scene, None, to),
        Stage::ObsoleteEndpoints => obsolete::endpoints(scene, to),
        Stage::Obsolete => {
            obsolete::look(scene, to);
            privileged(scene, to);
        }
        Stage::Resources => resources(scene, to),
        Stage::Tidying => obsolete::strategies(scene, to),
        _ => put(scene, stage, to),
    }
    super::sift(scene.observed, scene.now, to);
    outcome
}

fn put(scene: &Scene<'_>, stage: Stage, outcome: &mut Outcome) {
    for object in scene.of(stage) {
        scene.put(object, outcome);
    }
}

/// Waits for the components of a stage, or for all of them.
fn wait(scene: &Scene<'_>, stage: Option<Stage>, outcome: &mut Outcome) {
    for (object, readiness) in scene.components() {
        if stage.is_some_and(|stage| stage != stage_of(&object.id, &[])) {
            continue;
        }
        match readiness {
            Readiness::Ready => {}
            Readiness::Noted(note) => outcome.notes.push(note.clone()),
            Readiness::NotReady(message) => outcome.wait(&object.id, message),
        }
    }
}

fn namespace(scene: &Scene<'_>, outcome: &mut Outcome) {
    let (label, value) = NAMESPACE_LABEL;
    let id = Id::new("", "Namespace", "", &scene.observed.operator.namespace);
    let unlabelled = scene
        .live(&id)
        .filter(|live| !live.deleting && live.labels.get(label).map(String::as_str) != Some(value));
    if let Some(live) = unlabelled {
        let action = Action::Patch {
            id,
            version: live.version.to_string(),
            patch: json!({"metadata": {"labels": {label: value}}}),
        };
        outcome.step(action, "OpenShift's Prometheus goes by this label");
    }
}

/// Objects of KubeVirt's own kinds, which virt-api checks.
fn resources(scene: &Scene<'_>, outcome: &mut Outcome) {
    put(scene, Stage::Resources, outcome);
    if !outcome.steps.is_empty() && !scene.has_rolled_over(Stage::Api) {
        outcome.steps.clear();
        wait(scene, Some(Stage::Api), outcome);
    }
}

/// Old releases ran with OpenShift's own privileged constraints; now there are constraints of
/// KubeVirt's own.
fn privileged(scene: &Scene<'_>, outcome: &mut Outcome) {
    if let Some(action) = super::without_privileges(scene.observed) {
        outcome.step(action, "components have constraints of their own now");
    }
}
