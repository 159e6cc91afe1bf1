//! Which resource is served, and that it stays until everything is removed.

use api::{Time, kubevirt::install};

use crate::kubevirt::{
    action::{Action, Plan},
    observed::{Observed, OtherKubeVirt},
    stages::{Outcome, Stage},
    status::Draft,
    tell,
};

/// The plan for a resource that nothing is done for; None if it is to be served.
pub(super) fn refused(observed: &Observed<'_>, now: &Time) -> Option<Plan> {
    let kubevirt = observed.kubevirt;
    let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
    let served = &observed.operator.namespace;
    let message = if namespace == served {
        let first = observed
            .others
            .iter()
            .find(|other| other.namespace == *served && comes_first(other, kubevirt))?;
        format!(
            "There is an active KubeVirt deployment: KubeVirt {}/{}",
            first.namespace, first.name
        )
    } else {
        format!(
            "The operator serves namespace {served} alone: there can be one KubeVirt deployment in \
             a cluster"
        )
    };
    let mut draft = Draft::of(kubevirt, now);
    draft.refused(&message);
    let status = draft.finished();
    let events = tell::events(kubevirt.status.as_ref(), status.as_ref());
    let mut outcome = Outcome::default();
    // One in another namespace may be another operator's.
    if kubevirt.metadata.deletion_timestamp.is_some() && namespace == served {
        release(kubevirt, "nothing was installed for it", &mut outcome);
    }
    Some(Plan {
        stage: Stage::Refused,
        steps: outcome.steps,
        status,
        events,
        ..Plan::default()
    })
}

/// Whether another resource is served rather than this one: something was installed for it, or it
/// was there first.
fn comes_first(other: &OtherKubeVirt, kubevirt: &install::KubeVirt) -> bool {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let installed = finalizers.iter().any(|finalizer| is_ours(finalizer));
    let created = kubevirt.metadata.creation_timestamp.as_ref();
    let name = kubevirt.metadata.name.as_deref().unwrap_or_default();
    let this = (!installed, created.map(|at| at.0), name);
    let that = (
        !other.installed,
        other.created.as_ref().map(|at| at.0),
        other.name.as_str(),
    );
    that < this
}

fn is_ours(finalizer: &str) -> bool {
    matches!(finalizer, install::FINALIZER | install::OLD_FINALIZER)
}

/// Lets the resource go.
pub(in crate::kubevirt) fn release(
    kubevirt: &install::KubeVirt,
    reason: &str,
    outcome: &mut Outcome,
) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let others: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_ours(finalizer))
        .cloned()
        .collect();
    if others.len() < finalizers.len() {
        outcome.step(Action::Finalizers(others), reason);
    }
}

/// Holds the resource until everything is removed.
pub(super) fn claim(kubevirt: &install::KubeVirt, outcome: &mut Outcome) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has(install::FINALIZER) && !has(install::OLD_FINALIZER) {
        return;
    }
    let mut wanted: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_ours(finalizer))
        .cloned()
        .collect();
    wanted.push(install::FINALIZER.to_owned());
    let reason = "what is made is removed before the resource goes";
    outcome.step(Action::Finalizers(wanted), reason);
}
