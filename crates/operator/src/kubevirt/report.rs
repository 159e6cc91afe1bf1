//! What the loop tells the world: lines in the log, figures, Events.

use std::collections::{BTreeMap, BTreeSet};

use api::kubevirt::install::{InstallPhase, KubeVirt};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt as _;
use plan::{
    Severity,
    kubevirt::{Action, Id, Plan, Step},
};
use runtime::{
    events::{Event, EventType, Recorder},
    metrics::Validity,
};

use super::watches::{Told, Watched};
use crate::metrics::{Installation, InstallationMetrics};

/// What the loop tells the world.
pub(super) struct Report {
    metrics: InstallationMetrics,
    recorder: Recorder,
    /// What was last told of how far it has come.
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

    /// Whether everything is known of the cluster.
    pub(super) fn ready(&self, ready: bool) {
        self.metrics.set_ready(ready);
    }

    /// Nothing is asked for.
    pub(super) fn nothing(&mut self) {
        self.metrics.set_step(None);
        self.metrics.set_stalled(None);
        self.step = None;
        self.waits.clear();
        self.stalled = false;
    }

    /// How long certificates are valid, by their Secrets.
    pub(super) fn certificates(&self, certificates: &BTreeMap<String, Validity>) {
        self.metrics.set_certificates(certificates);
    }

    /// What the KubeVirt resource says, if there is one.
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

    /// How far it has come, and what it waits for: once for as long as it lasts.
    pub(super) fn of_plan(&mut self, plan: &Plan, now: f64) {
        let step = plan.stage.reason();
        if self.step != Some(step) {
            tracing::info!(step, "the installation has come to this step");
            self.metrics.set_step(Some(step));
        }
        if plan.stalled != self.stalled {
            self.stalled = plan.stalled;
            self.metrics.set_stalled(plan.stalled.then_some(now));
            if plan.stalled {
                tracing::warn!(step, "the step takes longer than it should");
            } else {
                tracing::info!(step, "goes on");
            }
        }
        let mut waits = BTreeSet::new();
        for wait in &plan.waits {
            let line = format!("{}: {}", wait.id, wait.message);
            if !self.waits.contains(&line) {
                let (kind, namespace, name) = (&*wait.id.kind, &*wait.id.namespace, &*wait.id.name);
                tracing::info!(step, kind, namespace, name, "waits: {}", wait.message);
            }
            waits.insert(line);
        }
        self.waits = waits;
        self.step = Some(step);
    }

    /// A write that is about to be made.
    pub(super) fn of_step(subject: &Id, step: &Step) {
        let (kind, namespace, name) = (&*subject.kind, &*subject.namespace, &*subject.name);
        let what = describe(&step.action);
        tracing::info!(kind, namespace, name, "{what}: {}", step.reason);
    }

    /// A write that was refused. That somebody was faster is in the nature of things.
    pub(super) fn of_refusal(subject: &Id, code: u16, message: &str) {
        let (kind, namespace, name) = (&*subject.kind, &*subject.namespace, &*subject.name);
        if code == 409 {
            tracing::debug!(kind, namespace, name, code, "refused: {message}");
        } else {
            tracing::warn!(kind, namespace, name, code, "refused: {message}");
        }
    }

    /// Events of what was done; the log has them too.
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
            match event.severity {
                Severity::Normal => tracing::info!(reason, "{message}"),
                Severity::Warning => tracing::warn!(reason, "{message}"),
            }
            self.recorder.record(Event {
                object: object.clone(),
                event_type: match event.severity {
                    Severity::Normal => EventType::Normal,
                    Severity::Warning => EventType::Warning,
                },
                reason: event.reason.to_owned(),
                message: event.message,
            });
        }
    }

    /// What is wrong with a watch.
    pub(super) fn of_watch(watched: &Watched, told: &Told) {
        let kind = watched.name();
        match told {
            Told::KubeVirt(change) => change.log(kind),
            Told::Definition(change) => change.log(kind),
            Told::Pod(change) => change.log(kind),
            Told::Node(change) => change.log(kind),
            Told::Account(change) => change.log(kind),
            Told::Object(change) => change.log(kind),
            Told::Secret(change) => change.log(kind),
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

/// What a write does, in a word.
fn describe(action: &Action) -> &'static str {
    match action {
        Action::Finalizers(_) => "set finalizers",
        Action::Annotate(_) => "annotate",
        Action::Create(_) | Action::Apply { existing: None, .. } => "create",
        Action::Apply {
            existing: Some(_), ..
        } => "apply",
        Action::Issue { .. } => "write a certificate",
        Action::Patch { .. } => "patch",
        Action::Delete { .. } => "delete",
        Action::DeleteAll { .. } => "delete all objects",
        Action::Count { .. } => "count objects",
    }
}
