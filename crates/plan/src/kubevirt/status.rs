//! Status of a KubeVirt resource.
//!
//! Phases, reasons and messages are those of KubeVirt's virt-operator, so that programs that read
//! them keep working. Two things are added: the reason of `Progressing` is the stage, and its
//! `lastProbeTime` is the time at which that stage began, which survives a restart of the operator.
//! `Degraded` names the cause when a stage takes too long or fails.

use api::{
    Time,
    kubevirt::install::{InstallPhase, KubeVirt, KubeVirtCondition, KubeVirtStatus},
};
use k8s_openapi::jiff::SignedDuration;

use serde_json::{Value, json};

use super::{
    object::{Id, Live},
    rollback::RolloutTarget,
    stages::Stage,
};
use crate::conditions::bounded;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const DEGRADED: &str = "Degraded";
const CREATED: &str = "Created";
const SYNCHRONIZED: &str = "Synchronized";

const DEPLOYING: &str = "DeploymentInProgress";
const UPDATING: &str = "UpdateInProgress";
const FAILED: &str = "DeploymentFailed";
const READY: &str = "AllComponentsReady";
const DELETING: &str = "DeletionInProgress";
const STALLED: &str = "Stalled";
const ROLLOUT_FAILED: &str = "RolloutFailed";
const ROLLED_BACK: &str = "RolledBack";

/// Minimum time between two writes of a condition whose message quotes others.
const QUOTE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// State of an installation.
#[derive(Debug)]
pub(super) enum InstallState<'a> {
    UnderWay {
        stage: Stage,
        /// Message of `Progressing`; None while writes are under way.
        progress: Option<String>,
        problem: Option<StageProblem>,
    },
    /// The API server refuses a write, or the spec is invalid.
    Refused(String),
    Deployed {
        notes: &'a [String],
    },
}

/// Problem of a stage, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StageProblem {
    /// The stage takes too long.
    Stalled(String),
    Failed(String),
}

impl StageProblem {
    pub(super) fn message(&self) -> &str {
        let (Self::Stalled(message) | Self::Failed(message)) = self;
        message
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Stalled(_) => STALLED,
            Self::Failed(_) => ROLLOUT_FAILED,
        }
    }
}

/// Whether the status reports a failed rollout.
pub(super) fn has_failed(kubevirt: &KubeVirt) -> bool {
    condition(kubevirt, DEGRADED)
        .is_some_and(|condition| condition.reason.as_deref() == Some(ROLLOUT_FAILED))
}

/// Whether the last rollout or rollback is complete. A new rollout removes the condition `Created`.
pub(super) fn is_created(kubevirt: &KubeVirt) -> bool {
    condition(kubevirt, CREATED).is_some_and(|condition| condition.status == "True")
}

/// When a stage began: now, unless the status already reports this stage.
pub(super) fn since(kubevirt: &KubeVirt, stage: Stage, now: &Time) -> Time {
    condition(kubevirt, PROGRESSING)
        .filter(|condition| condition.reason.as_deref() == Some(stage.reason()))
        .and_then(|condition| condition.last_probe_time.clone())
        .unwrap_or_else(|| now.clone())
}

/// The message of `Progressing`, if the status reports this stage.
pub(super) fn progress(kubevirt: &KubeVirt, stage: Stage) -> Option<&str> {
    condition(kubevirt, PROGRESSING)
        .filter(|condition| condition.reason.as_deref() == Some(stage.reason()))
        .and_then(|condition| condition.message.as_deref())
}

/// The message of a condition; empty without one.
pub(super) fn message<'a>(status: Option<&'a KubeVirtStatus>, type_: &str) -> &'a str {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition.type_ == type_);
    let message = condition.and_then(|condition| condition.message.as_deref());
    message.unwrap_or_default()
}

fn condition<'a>(kubevirt: &'a KubeVirt, type_: &str) -> Option<&'a KubeVirtCondition> {
    let conditions = kubevirt.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Message of conditions while an installation is removed.
pub(super) const REMOVAL: &str = "Deletion was triggered";

/// Notes as sentences.
pub(super) fn join_notes(notes: &[String]) -> String {
    let notes = notes.iter().map(|note| format!("Note that {note}."));
    notes.collect::<Vec<_>>().join(" ")
}

/// Reason and message of a rollout.
pub(super) struct RolloutReport {
    is_update: bool,
    reason: &'static str,
    pub(super) message: String,
}

impl RolloutReport {
    pub(super) fn new(status: Option<&KubeVirtStatus>, target: &RolloutTarget) -> Self {
        let observed = |field: fn(&KubeVirtStatus) -> &Option<String>| {
            status.and_then(|status| field(status).as_deref())
        };
        let id = observed(|status| &status.observed_deployment_id);
        if id.is_none_or(|id| id == target.id) {
            return Self {
                is_update: false,
                reason: DEPLOYING,
                message: format!(
                    "Deploying version {} with registry {}",
                    target.version, target.registry
                ),
            };
        }
        Self {
            is_update: true,
            reason: UPDATING,
            message: format!(
                "Transitioning from previous version {} with registry {} to target version {} \
                 using registry {}",
                observed(|status| &status.observed_kube_virt_version).unwrap_or_default(),
                observed(|status| &status.observed_kube_virt_registry).unwrap_or_default(),
                target.version,
                target.registry
            ),
        }
    }
}

/// A status under construction.
pub(super) struct StatusDraft<'a> {
    kubevirt: &'a KubeVirt,
    now: &'a Time,
    status: KubeVirtStatus,
}

impl<'a> StatusDraft<'a> {
    pub(super) fn of(kubevirt: &'a KubeVirt, now: &'a Time) -> Self {
        Self {
            kubevirt,
            now,
            status: kubevirt.status.clone().unwrap_or_default(),
        }
    }

    /// The status, if it has changed.
    pub(super) fn into_change(self) -> Option<KubeVirtStatus> {
        let before = self.kubevirt.status.clone().unwrap_or_default();
        (before != self.status).then_some(self.status)
    }

    /// Reports that the operator does not install this resource.
    pub(super) fn report_not_served(&mut self, message: &str) {
        self.set(SYNCHRONIZED, false, Stage::Refused.reason(), message);
    }

    /// Records the target and the operator's version.
    pub(super) fn set_target(
        &mut self,
        target: &RolloutTarget,
        operator: &str,
        architecture: Option<&str>,
    ) {
        let status = &mut self.status;
        status.operator_version = Some(operator.to_owned());
        status.target_kube_virt_version = Some(target.version.clone());
        status.target_kube_virt_registry = Some(target.registry.clone());
        status.target_deployment_id = Some(target.id.clone());
        status.target_deployment_config = Some(target.config.clone());
        let configured = self.kubevirt.spec.configuration.as_ref().and_then(|all| {
            all.pointer("/architectureConfiguration/defaultArchitecture")?
                .as_str()
        });
        let configured = configured.filter(|text| !text.is_empty());
        if let Some(configured) = configured {
            status.default_architecture = Some(configured.to_owned());
        } else if status.default_architecture.is_none() {
            status.default_architecture = architecture.map(str::to_owned);
        }
        status.phase.get_or_insert(InstallPhase::Deploying);
    }

    pub(super) fn report(&mut self, state: &InstallState<'_>, target: &RolloutTarget) {
        match state {
            InstallState::UnderWay {
                stage,
                progress,
                problem,
            } => self.report_rollout(target, *stage, progress.as_deref(), problem.as_ref()),
            InstallState::Refused(refusal) => {
                let message = format!("An error occurred during deployment: {refusal}");
                self.set(SYNCHRONIZED, false, FAILED, &message);
                self.set(AVAILABLE, false, FAILED, &message);
                self.set(PROGRESSING, false, FAILED, &message);
                self.set(DEGRADED, true, FAILED, &message);
            }
            InstallState::Deployed { notes } => self.report_deployed(target, notes),
        }
    }

    fn report_rollout(
        &mut self,
        target: &RolloutTarget,
        stage: Stage,
        progress: Option<&str>,
        problem: Option<&StageProblem>,
    ) {
        self.remove(SYNCHRONIZED);
        let RolloutReport {
            is_update,
            reason,
            message,
        } = RolloutReport::new(Some(&self.status), target);
        if is_update {
            self.remove(CREATED);
        }
        self.set(AVAILABLE, is_update, reason, &message);
        // Writes are soon done and do not merit a status write: the message of the last wait stays.
        let progressing = condition(self.kubevirt, PROGRESSING);
        let is_reported = progressing.is_some_and(|condition| condition.status == "True")
            && self::message(self.kubevirt.status.as_ref(), AVAILABLE) == bounded(message.clone());
        if progress.is_none() && problem.is_none() && is_reported {
            return;
        }
        match progress {
            Some(progress) => {
                let since = since(self.kubevirt, stage, self.now);
                self.set_since(PROGRESSING, true, stage.reason(), progress, since);
            }
            None => self.set(PROGRESSING, true, reason, &message),
        }
        match problem {
            Some(problem) => self.set_quote(DEGRADED, true, problem.reason(), problem.message()),
            None => self.set(DEGRADED, is_update, reason, &message),
        }
    }

    fn report_deployed(&mut self, target: &RolloutTarget, notes: &[String]) {
        self.remove(SYNCHRONIZED);
        let ready = "All components are ready.";
        let available = if notes.is_empty() {
            ready.to_owned()
        } else {
            format!("{ready} {}", join_notes(notes))
        };
        self.set(
            CREATED,
            true,
            "AllResourcesCreated",
            "All resources were created.",
        );
        self.set(AVAILABLE, true, READY, &available);
        self.set(PROGRESSING, false, READY, ready);
        match &target.given_up_version {
            Some(version) => {
                let message = format!(
                    "The operator rolled back from version {version} to version {}. It tries \
                     another spec.imageTag or setting; to try the same again, remove the annotation \
                     {}.",
                    target.version,
                    api::kubevirt::install::GIVEN_UP,
                );
                self.set(DEGRADED, true, ROLLED_BACK, &message);
            }
            None => self.set(DEGRADED, false, READY, ready),
        }
        let status = &mut self.status;
        status.phase = Some(InstallPhase::Deployed);
        status.observed_kube_virt_version = Some(target.version.clone());
        status.observed_kube_virt_registry = Some(target.registry.clone());
        status.observed_deployment_id = Some(target.id.clone());
        status.observed_deployment_config = Some(target.config.clone());
        status.observed_generation = self.kubevirt.metadata.generation;
    }

    /// Records the generations of deployed objects as KubeVirt's virt-operator does: it leaves alone
    /// an object that still has the recorded generation.
    pub(super) fn set_generations<'o>(&mut self, objects: impl Iterator<Item = &'o Live>) {
        let generations = objects.filter_map(generation).collect::<Vec<_>>();
        self.status.generations = Some(generations).filter(|all| !all.is_empty());
    }

    /// Records where virt-synchronization-controller listens.
    pub(super) fn set_synchronization_addresses(&mut self, addresses: Option<Vec<String>>) {
        self.status.synchronization_addresses = addresses;
    }

    /// Reports the stage of a removal.
    pub(super) fn report_removal(
        &mut self,
        stage: Stage,
        progress: Option<&str>,
        problem: Option<&str>,
    ) {
        let message = REMOVAL;
        let progress = progress.unwrap_or(message);
        let is_over = stage == Stage::Deleted;
        self.status.phase = Some(if is_over {
            InstallPhase::Deleted
        } else {
            InstallPhase::Deleting
        });
        self.remove(CREATED);
        self.set(AVAILABLE, false, DELETING, message);
        let since = since(self.kubevirt, stage, self.now);
        self.set_since(PROGRESSING, false, stage.reason(), progress, since);
        self.set(DEGRADED, true, DELETING, message);
        match problem {
            Some(problem) => {
                let message = format!("An error occurred during deletion: {problem}");
                self.set_quote(SYNCHRONIZED, false, "DeletionFailed", &message);
            }
            None => self.remove(SYNCHRONIZED),
        }
    }

    fn remove(&mut self, type_: &str) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| condition.type_ != type_);
        }
    }

    fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        self.set_since(type_, is_true, reason, message, self.now.clone());
    }

    /// Like [`StatusDraft::set`] for a message that quotes others: a change of the message alone is
    /// written at most every [`QUOTE_INTERVAL`].
    fn set_quote(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        let old = condition(self.kubevirt, type_);
        let is_recent = old.is_some_and(|old| {
            old.status == status_of(is_true)
                && old.reason.as_deref() == Some(reason)
                && old
                    .last_probe_time
                    .as_ref()
                    .is_some_and(|at| self.now.0.duration_since(at.0) < QUOTE_INTERVAL)
        });
        if !is_recent {
            self.set(type_, is_true, reason, message);
        }
    }

    /// Sets a condition unless it has not changed. The transition time moves with the status alone.
    fn set_since(&mut self, type_: &str, is_true: bool, reason: &str, message: &str, since: Time) {
        let conditions = self.status.conditions.get_or_insert_default();
        let message = bounded(message.to_owned());
        let status = status_of(is_true);
        let old = conditions.iter_mut().find(|old| old.type_ == type_);
        let transition = old
            .as_ref()
            .filter(|old| old.status == status)
            .and_then(|old| old.last_transition_time.clone())
            .unwrap_or_else(|| self.now.clone());
        let new = KubeVirtCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_probe_time: Some(since),
            last_transition_time: Some(transition),
        };
        match old {
            Some(old)
                if old.status == new.status
                    && old.reason == new.reason
                    && old.message == new.message => {}
            Some(old) => *old = new,
            None => conditions.push(new),
        }
    }
}

/// The record of an object's generation; None for kinds that are not recorded. Some groups are
/// wrong: they are those that KubeVirt's virt-operator writes.
fn generation(live: &Live) -> Option<Value> {
    let Id {
        kind,
        namespace,
        name,
        ..
    } = &live.id;
    let (group, resource) = match &**kind {
        "CustomResourceDefinition" => ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
        "MutatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
        ),
        "ValidatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
        ),
        "PodDisruptionBudget" => ("apps", "poddisruptionbudgets"),
        "Deployment" => ("apps", "deployments"),
        "DaemonSet" => ("apps", "daemonsets"),
        _ => return None,
    };
    let mut record = json!({
        "group": group, "resource": resource, "name": &**name,
        "lastGeneration": live.generation.unwrap_or_default(),
    });
    if !namespace.is_empty() {
        record["namespace"] = json!(&**namespace);
    }
    Some(record)
}

fn status_of(is_true: bool) -> &'static str {
    if is_true { "True" } else { "False" }
}
