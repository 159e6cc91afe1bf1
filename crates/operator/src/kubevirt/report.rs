//! Reports of the KubeVirt controller: log messages, metrics and Events.

use std::collections::{BTreeMap, BTreeSet};

use api::kubevirt::install::{InstallPhase, KubeVirt};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt as _;
use plan::{
    Severity,
    kubevirt::{Action, Id, Plan, Step},
};
use runtime::{events::Recorder, metrics::Validity};

use crate::{
    events,
    logs::log_either,
    metrics::{Installation, InstallationMetrics},
};

pub(super) struct Report {
    metrics: InstallationMetrics,
    recorder: Recorder,
    /// Last reported state, so that changes are logged once.
    step: Option<&'static str>,
    waits: BTreeSet<String>,
    stalled: bool,
}

impl Report {
    pub(super) fn new(metrics: InstallationMetrics, recorder: Recorder) -> Self {
        Self {
            metrics,
            recorder,
            step: None,
            waits: BTreeSet::new(),
            stalled: false,
        }
    }

    pub(super) fn ready(&self, ready: bool) {
        self.metrics.set_ready(ready);
    }

    /// Resets the metrics when there is no KubeVirt resource.
    pub(super) fn reset(&mut self) {
        self.metrics.set_step(None);
        self.metrics.set_stalled(None);
        self.step = None;
        self.waits.clear();
        self.stalled = false;
    }

    pub(super) fn certificates(&self, certificates: &BTreeMap<String, Validity>) {
        self.metrics.set_certificates(certificates);
    }

    /// Exposes the status of the KubeVirt resource as metrics.
    pub(super) fn installation(&self, kubevirt: Option<&KubeVirt>) {
        let status = kubevirt.map(|kubevirt| kubevirt.status.clone().unwrap_or_default());
        let installation = status.map(|status| {
            let conditions = status.conditions.unwrap_or_default().into_iter();
            Installation {
                phase: status.phase.map_or("", phase_name).to_owned(),
                target_version: status.target_kube_virt_version.unwrap_or_default(),
                observed_version: status.observed_kube_virt_version.unwrap_or_default(),
                conditions: conditions
                    .map(|condition| (condition.type_, condition.status == "True"))
                    .collect(),
            }
        });
        self.metrics.set_installation(installation.as_ref());
    }

    /// Logs progress, stalls and waits of a plan, each once until it changes.
    pub(super) fn plan(&mut self, plan: &Plan, now: f64) {
        let step = plan.stage.reason();
        if self.step != Some(step) {
            tracing::info!(step, "the installation reached step {step}");
            self.metrics.set_step(Some(step));
        }
        if plan.stalled != self.stalled {
            self.stalled = plan.stalled;
            self.metrics.set_stalled(plan.stalled.then_some(now));
            if plan.stalled {
                tracing::warn!(step, "the installation is stalled in step {step}");
            } else {
                tracing::info!(
                    step,
                    "the installation is no longer stalled: it is in step {step}"
                );
            }
        }
        let mut waits = BTreeSet::new();
        for wait in &plan.waits {
            let line = format!("{}: {}", wait.id, wait.message);
            if !self.waits.contains(&line) {
                let (kind, namespace, name) = (&*wait.id.kind, &*wait.id.namespace, &*wait.id.name);
                tracing::info!(
                    step,
                    kind,
                    namespace,
                    name,
                    "waiting for {}: {}",
                    wait.id,
                    wait.message
                );
            }
            waits.insert(line);
        }
        self.waits = waits;
        self.step = Some(step);
    }

    /// Logs a write that is about to be sent.
    pub(super) fn step(subject: &Id, step: &Step) {
        let (kind, namespace, name) = (&*subject.kind, &*subject.namespace, &*subject.name);
        let action = describe(&step.action);
        tracing::info!(kind, namespace, name, "{action} {subject}: {}", step.reason);
    }

    /// Logs a refused write. A conflict is expected when someone else writes the object.
    pub(super) fn refusal(subject: &Id, code: Option<u16>, message: &str) {
        let (kind, namespace, name) = (&*subject.kind, &*subject.namespace, &*subject.name);
        log_either!(
            code == Some(409) => debug, else warn,
            kind,
            namespace,
            name,
            code,
            "write to {subject} refused: {message}"
        );
    }

    /// Publishes Events on the KubeVirt resource, and logs them.
    pub(super) fn events(
        &self,
        kubevirt: &KubeVirt,
        events: impl IntoIterator<Item = plan::Event>,
    ) {
        let object = ObjectReference {
            api_version: Some("kubevirt.io/v1".to_owned()),
            kind: Some("KubeVirt".to_owned()),
            namespace: kubevirt.namespace(),
            name: kubevirt.metadata.name.clone(),
            uid: kubevirt.uid(),
            ..ObjectReference::default()
        };
        for event in events {
            let (reason, message) = (event.reason, event.message.as_str());
            let is_warning = event.severity == Severity::Warning;
            log_either!(is_warning => warn, else info, reason, "{message}");
            self.recorder.record(events::on(object.clone(), event));
        }
    }
}

fn phase_name(phase: InstallPhase) -> &'static str {
    match phase {
        InstallPhase::Deploying => "Deploying",
        InstallPhase::Deployed => "Deployed",
        InstallPhase::Deleting => "Deleting",
        InstallPhase::Deleted => "Deleted",
    }
}

/// Verb of an action.
fn describe(action: &Action) -> &'static str {
    match action {
        Action::Finalizers(_) => "set finalizers of",
        Action::Annotate(_) => "annotate",
        Action::Create(_) | Action::Apply { existing: None, .. } => "create",
        Action::Apply {
            existing: Some(_), ..
        } => "apply",
        Action::Issue { .. } => "write certificate to",
        Action::Patch { .. } => "patch",
        Action::Delete { .. } => "delete",
        Action::DeleteAll { .. } => "delete all objects of",
        Action::Count { .. } => "count objects of",
    }
}
