//! What the resource says of how far its installation has come.
//!
//! Reasons, messages and phases are KubeVirt's own, so that whoever reads them now can read them
//! then. Two things are added. The reason of Progressing is the stage, and its `lastProbeTime` is
//! when that stage began: whoever goes on with it later knows how long it has taken. And Degraded
//! says what is wrong, with the cause, when a stage takes too long or has failed.

use std::fmt::Write as _;

use api::{
    Time,
    kubevirt::install::{InstallPhase, KubeVirt, KubeVirtCondition, KubeVirtStatus},
};
use k8s_openapi::jiff::SignedDuration;

use serde_json::{Value, json};

use super::{
    object::{Id, Live},
    rollback::Aim,
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

/// The words of others change often; a condition that tells them is not written for each change.
const STEADY: SignedDuration = SignedDuration::from_mins(1);

/// How an installation is, for its status to say.
#[derive(Debug)]
pub(super) enum Said<'a> {
    /// It is not done: the stage, and what that waits for.
    UnderWay {
        stage: Stage,
        /// What is waited for; None while writes are under way.
        waits_for: Option<String>,
        /// What is wrong.
        problem: Option<StageProblem>,
    },
    /// The API server refuses something, or what is asked for makes no sense.
    Refused(String),
    /// Everything is as wanted.
    Deployed { notes: &'a [String] },
}

/// What is wrong with a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StageProblem {
    /// It takes too long.
    Stalled(String),
    /// It has failed.
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

/// Whether a roll-out has been told as failed.
pub(super) fn has_failed(kubevirt: &KubeVirt) -> bool {
    condition(kubevirt, DEGRADED)
        .is_some_and(|condition| condition.reason.as_deref() == Some(ROLLOUT_FAILED))
}

/// Whether everything was as wanted, and no way to another deployment has been begun since: that
/// takes the condition Created away, and only its end or the end of the way back sets it again.
pub(super) fn is_created(kubevirt: &KubeVirt) -> bool {
    condition(kubevirt, CREATED).is_some_and(|condition| condition.status == "True")
}

/// When a stage began: now, unless it is the one that the status tells of.
pub(super) fn since(kubevirt: &KubeVirt, stage: Stage, now: &Time) -> Time {
    condition(kubevirt, PROGRESSING)
        .filter(|condition| condition.reason.as_deref() == Some(stage.reason()))
        .and_then(|condition| condition.last_probe_time.clone())
        .unwrap_or_else(|| now.clone())
}

/// The message of `Progressing`, if it tells of this stage.
pub(super) fn progress(kubevirt: &KubeVirt, stage: Stage) -> Option<&str> {
    condition(kubevirt, PROGRESSING)
        .filter(|condition| condition.reason.as_deref() == Some(stage.reason()))
        .and_then(|condition| condition.message.as_deref())
}

/// What the message of a condition is.
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

/// A status that is being written.
pub(super) struct Draft<'a> {
    kubevirt: &'a KubeVirt,
    now: &'a Time,
    status: KubeVirtStatus,
}

impl<'a> Draft<'a> {
    pub(super) fn of(kubevirt: &'a KubeVirt, now: &'a Time) -> Self {
        Self {
            kubevirt,
            now,
            status: kubevirt.status.clone().unwrap_or_default(),
        }
    }

    /// The status, if it is another than it was.
    pub(super) fn finished(self) -> Option<KubeVirtStatus> {
        let before = self.kubevirt.status.clone().unwrap_or_default();
        (before != self.status).then_some(self.status)
    }

    /// Nothing is done for this resource.
    pub(super) fn refused(&mut self, message: &str) {
        self.set(SYNCHRONIZED, false, Stage::Refused.reason(), message);
    }

    /// What is aimed at, and by whom.
    pub(super) fn aims(&mut self, aim: &Aim, operator: &str, architecture: Option<&str>) {
        let status = &mut self.status;
        status.operator_version = Some(operator.to_owned());
        status.target_kube_virt_version = Some(aim.version.clone());
        status.target_kube_virt_registry = Some(aim.registry.clone());
        status.target_deployment_id = Some(aim.id.clone());
        status.target_deployment_config = Some(aim.config.clone());
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

    /// How an installation is.
    pub(super) fn says(&mut self, said: &Said<'_>, aim: &Aim) {
        match said {
            Said::UnderWay {
                stage,
                waits_for,
                problem,
            } => self.under_way(aim, *stage, waits_for.as_deref(), problem.as_ref()),
            Said::Refused(refusal) => {
                let message = format!("An error occurred during deployment: {refusal}");
                self.set(SYNCHRONIZED, false, FAILED, &message);
                self.set(AVAILABLE, false, FAILED, &message);
                self.set(PROGRESSING, false, FAILED, &message);
                self.set(DEGRADED, true, FAILED, &message);
            }
            Said::Deployed { notes } => self.deployed(aim, notes),
        }
    }

    fn under_way(
        &mut self,
        aim: &Aim,
        stage: Stage,
        waits_for: Option<&str>,
        problem: Option<&StageProblem>,
    ) {
        self.remove(SYNCHRONIZED);
        let status = &self.status;
        let observed = status.observed_deployment_id.as_deref();
        let is_update = observed.is_some_and(|observed| observed != aim.id);
        let (reason, message) = if is_update {
            let observed = |field: &Option<String>| field.clone().unwrap_or_default();
            let message = format!(
                "Transitioning from previous version {} with registry {} to target version {} \
                 using registry {}",
                observed(&status.observed_kube_virt_version),
                observed(&status.observed_kube_virt_registry),
                aim.version,
                aim.registry
            );
            (UPDATING, message)
        } else {
            let message = format!(
                "Deploying version {} with registry {}",
                aim.version, aim.registry
            );
            (DEPLOYING, message)
        };
        if is_update {
            self.remove(CREATED);
        }
        self.set(AVAILABLE, is_update, reason, &message);
        // Writes are over soon, and only a wait is worth a write of its own: what was told of the
        // last wait stays until there is something new to tell.
        let told = condition(self.kubevirt, PROGRESSING);
        let is_told = told.is_some_and(|told| {
            told.status == "True"
                && told
                    .message
                    .as_deref()
                    .is_some_and(|told| told.starts_with(&message))
        });
        if waits_for.is_none() && problem.is_none() && is_told {
            return;
        }
        match waits_for {
            Some(waits_for) => {
                let since = since(self.kubevirt, stage, self.now);
                let progress = format!("{message}: {waits_for}");
                self.set_since(PROGRESSING, true, stage.reason(), &progress, since);
            }
            None => self.set(PROGRESSING, true, reason, &message),
        }
        match problem {
            Some(problem) => self.set_steady(DEGRADED, problem.reason(), problem.message()),
            None => self.set(DEGRADED, is_update, reason, &message),
        }
    }

    fn deployed(&mut self, aim: &Aim, notes: &[String]) {
        self.remove(SYNCHRONIZED);
        let ready = "All components are ready.";
        let mut available = ready.to_owned();
        for note in notes {
            let _ = write!(available, " Note that {note}.");
        }
        self.set(
            CREATED,
            true,
            "AllResourcesCreated",
            "All resources were created.",
        );
        self.set(AVAILABLE, true, READY, &available);
        self.set(PROGRESSING, false, READY, ready);
        match &aim.instead_of {
            Some(version) => {
                let message = format!(
                    "Version {version} was given up, and version {} runs again. Another \
                     spec.imageTag or another setting is tried; to try the same again, remove the \
                     annotation {}.",
                    aim.version,
                    api::kubevirt::install::GIVEN_UP,
                );
                self.set(DEGRADED, true, ROLLED_BACK, &message);
            }
            None => self.set(DEGRADED, false, READY, ready),
        }
        let status = &mut self.status;
        status.phase = Some(InstallPhase::Deployed);
        status.observed_kube_virt_version = Some(aim.version.clone());
        status.observed_kube_virt_registry = Some(aim.registry.clone());
        status.observed_deployment_id = Some(aim.id.clone());
        status.observed_deployment_config = Some(aim.config.clone());
        status.observed_generation = self.kubevirt.metadata.generation;
    }

    /// The generations of the objects that are deployed, as KubeVirt's own operator records them: it
    /// leaves alone what still has the recorded one.
    pub(super) fn generations<'o>(&mut self, objects: impl Iterator<Item = &'o Live>) {
        let generations = objects.filter_map(generation).collect::<Vec<_>>();
        self.status.generations = Some(generations).filter(|all| !all.is_empty());
    }

    /// Where virt-synchronization-controller listens.
    pub(super) fn synchronizes_at(&mut self, addresses: Option<Vec<String>>) {
        self.status.synchronization_addresses = addresses;
    }

    /// How far the removal has come.
    pub(super) fn deletes(&mut self, stage: Stage, waits_for: Option<&str>, problem: Option<&str>) {
        let message = "Deletion was triggered";
        let progress = match waits_for {
            Some(waits_for) => format!("{message}: {waits_for}"),
            None => message.to_owned(),
        };
        let is_over = stage == Stage::Deleted;
        self.status.phase = Some(if is_over {
            InstallPhase::Deleted
        } else {
            InstallPhase::Deleting
        });
        self.remove(CREATED);
        self.set(AVAILABLE, false, DELETING, message);
        let since = since(self.kubevirt, stage, self.now);
        self.set_since(PROGRESSING, false, stage.reason(), &progress, since);
        self.set(DEGRADED, true, DELETING, message);
        match problem {
            Some(problem) => {
                let message = format!("An error occurred during deletion: {problem}");
                self.set_steady_as(SYNCHRONIZED, false, "DeletionFailed", &message);
            }
            None => self.remove(SYNCHRONIZED),
        }
    }

    fn remove(&mut self, type_: &str) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| condition.type_ != type_);
        }
    }

    fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        self.set_since(type_, holds, reason, message, self.now.clone());
    }

    fn set_steady(&mut self, type_: &str, reason: &str, message: &str) {
        self.set_steady_as(type_, true, reason, message);
    }

    /// As [`Draft::set`], save that a condition that says the same in other words stays for a while.
    fn set_steady_as(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let told = condition(self.kubevirt, type_);
        let is_told = told.is_some_and(|told| {
            told.status == status_of(holds)
                && told.reason.as_deref() == Some(reason)
                && told
                    .last_probe_time
                    .as_ref()
                    .is_some_and(|at| self.now.0.duration_since(at.0) < STEADY)
        });
        if !is_told {
            self.set(type_, holds, reason, message);
        }
    }

    /// Sets a condition. One that says what it said stays as it is; the transition time moves with
    /// the status alone.
    fn set_since(&mut self, type_: &str, holds: bool, reason: &str, message: &str, since: Time) {
        let conditions = self.status.conditions.get_or_insert_default();
        let message = bounded(message.to_owned());
        let status = status_of(holds);
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

/// The record of an object's generation; None of kinds that are not recorded. The groups are
/// upstream's, and so are those that are not quite right.
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

fn status_of(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}
