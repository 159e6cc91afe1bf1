//! Choice of the KubeVirt resource that the operator serves, and its finalizer.

use api::{Time, kubevirt::install};

use crate::kubevirt::{
    action::{Action, Plan},
    events::{self, Details},
    observed::{Observed, OtherKubeVirt},
    stages::{Stage, StageOutcome},
    status::StatusDraft,
};

/// The plan for a resource that the operator does not serve; None if it serves it.
pub(super) fn not_served(observed: &Observed<'_>, now: &Time) -> Option<Plan> {
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
            "The operator serves only namespace {served}: a cluster can have one KubeVirt \
             deployment"
        )
    };
    let mut draft = StatusDraft::of(kubevirt, now);
    draft.report_not_served(&message);
    let status = draft.into_change();
    let events = events::of_status_change(
        kubevirt.status.as_ref(),
        status.as_ref(),
        Details::default(),
    );
    let mut outcome = StageOutcome::default();
    // Another operator may serve a resource in another namespace.
    if kubevirt.metadata.deletion_timestamp.is_some() && namespace == served {
        remove_finalizer(kubevirt, "nothing was installed for it", &mut outcome);
    }
    Some(Plan {
        stage: Stage::Refused,
        steps: outcome.steps,
        status,
        events,
        ..Plan::default()
    })
}

/// Whether another resource takes precedence: it has an installation, or it is older.
fn comes_first(other: &OtherKubeVirt, kubevirt: &install::KubeVirt) -> bool {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let installed = finalizers
        .iter()
        .any(|finalizer| is_own_finalizer(finalizer));
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

fn is_own_finalizer(finalizer: &str) -> bool {
    matches!(finalizer, install::FINALIZER | install::OLD_FINALIZER)
}

pub(in crate::kubevirt) fn remove_finalizer(
    kubevirt: &install::KubeVirt,
    reason: &str,
    outcome: &mut StageOutcome,
) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let others: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_own_finalizer(finalizer))
        .cloned()
        .collect();
    if others.len() < finalizers.len() {
        outcome.step(Action::Finalizers(others), reason);
    }
}

/// Keeps the resource until everything is removed.
pub(super) fn add_finalizer(kubevirt: &install::KubeVirt, outcome: &mut StageOutcome) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has(install::FINALIZER) && !has(install::OLD_FINALIZER) {
        return;
    }
    let mut wanted: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_own_finalizer(finalizer))
        .cloned()
        .collect();
    wanted.push(install::FINALIZER.to_owned());
    let reason = "the operator removes the installation before the resource is deleted";
    outcome.step(Action::Finalizers(wanted), reason);
}
