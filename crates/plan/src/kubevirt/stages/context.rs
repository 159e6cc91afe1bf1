//! Input of the stages, and the writes that they share.

use std::{cell::OnceCell, collections::BTreeSet, fmt::Write as _};

use api::Time;
use apimachinery::retry_ledger::Retry;

use super::{Stage, StageOutcome, is_component, refusals::report_refusal, stage_of};
use crate::kubevirt::{
    action::{Action, Existing, Step},
    compare::ComparisonCache,
    object::{Id, Live, Object},
    observed::Observed,
    ready::{self, Readiness},
    rollback::RolloutTarget,
    status,
};

/// Input of the stages of an installation.
pub(in crate::kubevirt) struct StageContext<'a> {
    pub(in crate::kubevirt) observed: &'a Observed<'a>,
    pub(in crate::kubevirt) now: &'a Time,
    pub(in crate::kubevirt) target: &'a RolloutTarget,
    /// All objects of the desired state.
    pub(in crate::kubevirt) wanted: &'a [Object],
    /// Objects that belong to the target though it does not define their content.
    pub(in crate::kubevirt) kept: &'a BTreeSet<Id>,
    /// Writes to the Secrets of CAs.
    pub(in crate::kubevirt) authorities: &'a [Step],
    /// Writes to the Secrets of leaf certificates.
    pub(in crate::kubevirt) leaves: &'a [Step],
    /// Readiness of the components, computed once.
    pub(in crate::kubevirt) readiness: OnceCell<Vec<(&'a Object, Readiness)>>,
}

impl<'a> StageContext<'a> {
    pub(in crate::kubevirt) fn live(&self, id: &Id) -> Option<&'a Live> {
        self.observed.objects.get(id)
    }

    /// The desired objects of a stage.
    pub(in crate::kubevirt) fn of(
        &self,
        stage: Stage,
    ) -> impl Iterator<Item = &'a Object> + use<'_, 'a> {
        let wanted = self.wanted;
        let objects = wanted.iter();
        objects.filter(move |object| stage_of(&object.id, wanted) == stage)
    }

    pub(in crate::kubevirt) fn components(&self) -> &[(&'a Object, Readiness)] {
        self.readiness.get_or_init(|| {
            let components = self.wanted.iter().filter(|object| is_component(&object.id));
            components
                .map(|object| (object, ready::component(self, &object.id)))
                .collect()
        })
    }

    /// Whether all components of a stage are ready.
    pub(in crate::kubevirt) fn has_stage_rolled_out(&self, stage: Stage) -> bool {
        let mut of_stage = self
            .components()
            .iter()
            .filter(|(object, _)| stage_of(&object.id, &[]) == stage);
        of_stage.all(|(_, readiness)| readiness.is_ready())
    }

    /// Whether all components are ready.
    pub(in crate::kubevirt) fn has_rolled_out(&self) -> bool {
        let mut all = self.components().iter();
        all.all(|(_, readiness)| readiness.is_ready())
    }

    /// Whether the target has been deployed before and no rollout is under way: drift is repaired,
    /// and no order is needed.
    pub(in crate::kubevirt) fn is_repairing(&self) -> bool {
        let kubevirt = self.observed.kubevirt;
        let is_target = |id: &Option<String>| id.as_deref() == Some(&*self.target.id);
        let is_deployed = kubevirt.status.as_ref().is_some_and(|status| {
            is_target(&status.observed_deployment_id)
                && is_target(&status.target_deployment_id)
                && status.observed_generation == kubevirt.metadata.generation
        });
        is_deployed && status::is_created(kubevirt)
    }

    /// Writes an object unless it matches the desired state.
    pub(in crate::kubevirt) fn ensure(
        &self,
        wanted: &Object,
        comparisons: &mut ComparisonCache,
        outcome: &mut StageOutcome,
    ) {
        let Some(live) = self.live(&wanted.id) else {
            self.apply(wanted, None, "it does not exist".to_owned(), outcome);
            return;
        };
        if live.deleting {
            outcome.wait_for_deletion(live);
            return;
        }
        if self.is_applied(live, wanted) {
            return;
        }
        let differences = comparisons.differences(live, wanted);
        let Some(first) = differences.first() else {
            return;
        };
        let paths = differences.iter().map(|change| change.path.as_str());
        if let Some(path) = paths.clone().find(|path| is_immutable(&wanted.id, path)) {
            let reason = format!("{path} is immutable: the operator recreates the object");
            self.delete(live, reason, outcome);
            return;
        }
        let mut reason = format!("{} differs", first.path);
        let more = paths.count().saturating_sub(1);
        if more > 0 {
            let _ = write!(reason, ", and {more} more");
        }
        self.apply(wanted, Some(live), reason, outcome);
    }

    /// Whether it was applied and has not changed since. The API server's defaults of that apply
    /// count as desired.
    pub(in crate::kubevirt) fn is_applied(&self, live: &Live, wanted: &Object) -> bool {
        let applied = self.observed.memory.applied.get(&wanted.id);
        applied == Some(&(wanted.fingerprint, live.fingerprint))
    }

    fn apply(
        &self,
        wanted: &Object,
        live: Option<&Live>,
        reason: String,
        outcome: &mut StageOutcome,
    ) {
        let refusal = self.observed.memory.refusals.get(&wanted.id);
        let refusal = refusal.filter(|refusal| {
            let fingerprint = refusal.reason.fingerprint;
            fingerprint.is_none_or(|of| of == wanted.fingerprint)
        });
        if let Some(Retry {
            reason, retry_at, ..
        }) = refusal
            && report_refusal(
                &wanted.id,
                reason,
                retry_at,
                "is refused",
                self.now,
                outcome,
            )
        {
            return;
        }
        let existing = live.map(|live| Existing {
            uid: live.uid.to_string(),
            resource_version: live.resource_version.to_string(),
            upstream_entries: live.upstream_entries_for(wanted),
        });
        let action = Action::Apply {
            object: wanted.clone(),
            existing,
        };
        outcome.step(action, reason);
    }

    pub(in crate::kubevirt) fn delete(
        &self,
        live: &Live,
        reason: impl Into<String>,
        outcome: &mut StageOutcome,
    ) {
        delete(self.observed, self.now, live, reason, outcome);
    }
}

/// Deletes an object, or waits for its deletion.
pub(in crate::kubevirt) fn delete(
    observed: &Observed<'_>,
    now: &Time,
    live: &Live,
    reason: impl Into<String>,
    outcome: &mut StageOutcome,
) {
    if live.deleting {
        outcome.wait_for_deletion(live);
        return;
    }
    let refusal = observed.memory.refusals.get(&live.id);
    if let Some(refusal) = refusal.filter(|refusal| refusal.reason.fingerprint.is_none()) {
        let message = format!("{} cannot be deleted: {}", live.id, refusal.reason.message);
        outcome.refusals.push(message);
        if refusal.retry_at.0 > now.0 {
            outcome.requeue_at(refusal.retry_at.clone());
            return;
        }
    }
    let action = Action::Delete {
        id: live.id.clone(),
        version: live.version.to_string(),
        uid: live.uid.to_string(),
    };
    outcome.step(action, reason);
}

/// Whether a field can only change by recreating the object.
fn is_immutable(id: &Id, path: &str) -> bool {
    match &*id.kind {
        "Service" => matches!(path, "spec.clusterIP" | "spec.type"),
        "RoleBinding" | "ClusterRoleBinding" => path.starts_with("roleRef"),
        "Deployment" | "DaemonSet" => path.starts_with("spec.selector"),
        _ => false,
    }
}
