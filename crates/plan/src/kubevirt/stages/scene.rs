//! What the stages look at, and how they write.

use std::{cell::OnceCell, collections::BTreeSet, fmt::Write as _};

use api::Time;

use super::{Outcome, Stage, going, is_component, refusals, stage_of};
use crate::kubevirt::{
    action::{Action, Existing, Step},
    object::{Id, Live, Object},
    observed::Observed,
    ready::{self, Readiness},
    rollback::Aim,
    status,
};

/// What the stages of an installation look at.
pub(in crate::kubevirt) struct Scene<'a> {
    pub(in crate::kubevirt) observed: &'a Observed<'a>,
    pub(in crate::kubevirt) now: &'a Time,
    pub(in crate::kubevirt) aim: &'a Aim,
    /// Everything that is wanted.
    pub(in crate::kubevirt) wanted: &'a [Object],
    /// Objects that belong to the wanted version though it does not say what is in them.
    pub(in crate::kubevirt) kept: &'a BTreeSet<Id>,
    /// What is to be done about CAs.
    pub(in crate::kubevirt) authorities: &'a [Step],
    /// What is to be done about the certificates that they sign.
    pub(in crate::kubevirt) leaves: &'a [Step],
    /// The components, as they are.
    pub(in crate::kubevirt) readiness: OnceCell<Vec<(&'a Object, Readiness)>>,
}

impl<'a> Scene<'a> {
    pub(in crate::kubevirt) fn live(&self, id: &Id) -> Option<&'a Live> {
        self.observed.objects.get(id)
    }

    /// What a stage wants.
    pub(in crate::kubevirt) fn of(
        &self,
        stage: Stage,
    ) -> impl Iterator<Item = &'a Object> + use<'_, 'a> {
        let wanted = self.wanted;
        let objects = wanted.iter();
        objects.filter(move |object| stage_of(&object.id, wanted) == stage)
    }

    /// The components and how they are.
    pub(in crate::kubevirt) fn components(&self) -> &[(&'a Object, Readiness)] {
        self.readiness.get_or_init(|| {
            let components = self.wanted.iter().filter(|object| is_component(&object.id));
            components
                .map(|object| (object, ready::component(self, &object.id)))
                .collect()
        })
    }

    /// Whether every component of a stage runs as wanted.
    pub(in crate::kubevirt) fn has_rolled_over(&self, stage: Stage) -> bool {
        let mut of_stage = self
            .components()
            .iter()
            .filter(|(object, _)| stage_of(&object.id, &[]) == stage);
        of_stage.all(|(_, readiness)| readiness.is_ready())
    }

    /// Whether every component runs as wanted.
    pub(in crate::kubevirt) fn is_rolled_over(&self) -> bool {
        let mut all = self.components().iter();
        all.all(|(_, readiness)| readiness.is_ready())
    }

    /// Whether everything was as wanted once, so that only what has changed since is put back and no
    /// roll-out is under way that would have to go in order.
    pub(in crate::kubevirt) fn is_repairing(&self) -> bool {
        let kubevirt = self.observed.kubevirt;
        let is_aim = |id: &Option<String>| id.as_deref() == Some(&*self.aim.id);
        let is_told = kubevirt.status.as_ref().is_some_and(|status| {
            is_aim(&status.observed_deployment_id)
                && is_aim(&status.target_deployment_id)
                && status.observed_generation == kubevirt.metadata.generation
        });
        is_told && status::is_created(kubevirt)
    }

    /// Writes an object unless it is as wanted.
    pub(in crate::kubevirt) fn put(&self, wanted: &Object, outcome: &mut Outcome) {
        let Some(live) = self.live(&wanted.id) else {
            self.apply(wanted, None, "it is not there".to_owned(), outcome);
            return;
        };
        if live.deleting {
            outcome.wait(&wanted.id, going(live));
            return;
        }
        if self.is_settled(live, wanted) {
            return;
        }
        let differences = self.observed.memory.alike.differences(live, wanted);
        let Some(first) = differences.first() else {
            return;
        };
        let paths = differences.iter().map(|change| change.path.as_str());
        if let Some(path) = paths.clone().find(|path| is_immutable(&wanted.id, path)) {
            let reason = format!("{path} cannot be changed: it is made anew");
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

    /// Whether it was applied, and has not been changed since. What the API server made of it then
    /// is what it makes of it again.
    pub(in crate::kubevirt) fn is_settled(&self, live: &Live, wanted: &Object) -> bool {
        let settled = self.observed.memory.applied.get(&wanted.id);
        settled == Some(&(wanted.fingerprint, live.fingerprint))
    }

    fn apply(&self, wanted: &Object, live: Option<&Live>, reason: String, outcome: &mut Outcome) {
        let refused = self.observed.memory.refusals.get(&wanted.id);
        let refused = refused.filter(|refused| {
            refused
                .fingerprint
                .is_none_or(|of| of == wanted.fingerprint)
        });
        if let Some(refused) = refused
            && refusals::told(&wanted.id, refused, "is refused", self.now, outcome)
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
        outcome: &mut Outcome,
    ) {
        delete(self.observed, self.now, live, reason, outcome);
    }
}

/// Deletes an object, or waits until it is gone.
pub(in crate::kubevirt) fn delete(
    observed: &Observed<'_>,
    now: &Time,
    live: &Live,
    reason: impl Into<String>,
    outcome: &mut Outcome,
) {
    if live.deleting {
        outcome.wait(&live.id, going(live));
        return;
    }
    let refused = observed.memory.refusals.get(&live.id);
    if let Some(refused) = refused.filter(|refused| refused.fingerprint.is_none()) {
        let refusal = format!("{} cannot be deleted: {}", live.id, refused.message);
        outcome.refusals.push(refusal);
        if refused.retry_at.0 > now.0 {
            outcome.requeue_at(refused.retry_at.clone());
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

/// Fields that no API server lets change; those of Services are let go of together with their
/// addresses.
fn is_immutable(id: &Id, path: &str) -> bool {
    match &*id.kind {
        "Service" => matches!(path, "spec.clusterIP" | "spec.type"),
        "RoleBinding" | "ClusterRoleBinding" => path.starts_with("roleRef"),
        "Deployment" | "DaemonSet" => path.starts_with("spec.selector"),
        _ => false,
    }
}
