//! Stages of an installation and of its removal, and the outcome of evaluating one.

mod context;
mod definition_finalizer;
mod definitions;
mod evaluate;
mod obsolete;
mod refusals;
mod strategy_job;
mod temporary_webhook;

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    action::{Action, Step, Wait},
    object::{Id, Live, Object},
    observed::Observed,
    target::Speed,
};

pub(super) use context::{StageContext, delete};
pub(super) use definition_finalizer::{
    add_definition_finalizer, describe_remaining, has_definition_finalizer,
    remove_definition_finalizer,
};
pub(super) use evaluate::evaluate;
pub(super) use refusals::drop_refused;
pub(super) use strategy_job::evaluate as evaluate_strategy_job;

/// A group of objects that are written together, or a condition to wait for, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The operator does not serve the resource: another one is installed, or it is in another
    /// namespace.
    #[default]
    Refused,
    /// Finalizer and annotations of the KubeVirt resource.
    Resource,
    /// The install strategy of the target version is read, or a Job writes it.
    Strategy,
    /// The objects are built from the strategy and the resource.
    Rendering,
    /// A webhook refuses objects of new kinds until the new virt-api validates them.
    TemporaryWebhook,
    Definitions,
    Monitoring,
    Rbac,
    /// OpenShift's SecurityContextConstraints.
    SecurityContexts,
    Services,
    /// ValidatingAdmissionPolicies.
    Policies,
    /// CAs and their bundles.
    Certificates,
    /// Webhooks, APIServices and Routes.
    Endpoints,
    LeafCertificates,
    /// Objects of other kinds.
    Others,
    /// Label of the namespace.
    Namespace,
    /// The API server serves the definitions.
    Established,
    /// virt-handler, node by node.
    Handler,
    /// virt-controller.
    Controller,
    /// Other Deployments.
    Proxies,
    /// virt-api.
    Api,
    /// All components are ready.
    AllComponents,
    /// Removes webhooks and policies that the target version does not have.
    ObsoleteEndpoints,
    /// Removes all other objects that the target version does not have.
    Obsolete,
    /// Instance types and preferences.
    Resources,
    /// Removes strategies and Jobs that are not needed any more.
    StrategyCleanup,
    Deployed,
    /// Removes webhooks without a server before anything else.
    UnansweredEndpoints,
    /// Removes virtual machines while the components still run.
    Workloads,
    /// Removes definitions with all their objects.
    RemoveDefinitions,
    /// Removes the components.
    Components,
    /// Removes all other objects.
    Remains,
    /// Removes node labels, strategies and Jobs.
    Leftovers,
    Deleted,
}

impl Stage {
    /// The stage as a reason in conditions, metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Refused => "ExistingDeployment",
            Self::Resource => "ClaimingResource",
            Self::Strategy => "WaitingForStrategy",
            Self::Rendering => "RenderingObjects",
            Self::TemporaryWebhook => "HoldingBackNewKinds",
            Self::Definitions => "ApplyingDefinitions",
            Self::Monitoring => "ApplyingMonitoring",
            Self::Rbac => "ApplyingRbac",
            Self::SecurityContexts => "ApplyingSecurityContextConstraints",
            Self::Services => "ApplyingServices",
            Self::Policies => "ApplyingAdmissionPolicies",
            Self::Certificates => "IssuingCertificates",
            Self::Endpoints => "ApplyingWebhooks",
            Self::LeafCertificates => "SigningCertificates",
            Self::Others => "ApplyingOtherObjects",
            Self::Namespace => "LabellingNamespace",
            Self::Established => "WaitingForDefinitions",
            Self::Handler => "RollingOutVirtHandler",
            Self::Controller => "RollingOutVirtController",
            Self::Proxies => "RollingOutOtherDeployments",
            Self::Api => "RollingOutVirtApi",
            Self::AllComponents => "WaitingForComponents",
            Self::ObsoleteEndpoints | Self::Obsolete => "RemovingObsoleteObjects",
            Self::Resources => "ApplyingInstancetypes",
            Self::StrategyCleanup => "RemovingStrategies",
            Self::Deployed => "AllComponentsReady",
            Self::UnansweredEndpoints => "RemovingWebhooks",
            Self::Workloads => "RemovingWorkloads",
            Self::RemoveDefinitions => "RemovingDefinitions",
            Self::Components => "RemovingComponents",
            Self::Remains => "RemovingObjects",
            Self::Leftovers => "RemovingLeftovers",
            Self::Deleted => "Deleted",
        }
    }

    /// Duration after which the stage counts as stalled.
    pub fn deadline(self, speed: Speed) -> SignedDuration {
        let deadline = SignedDuration::from_mins(match self {
            Self::Strategy => 5,
            _ => 10,
        });
        speed.scale(deadline)
    }
}

/// The stage that writes an object.
pub(super) fn stage_of(id: &Id, wanted: &[Object]) -> Stage {
    match (&*id.group, &*id.kind) {
        ("apiextensions.k8s.io", _) => Stage::Definitions,
        ("monitoring.coreos.com", _) => Stage::Monitoring,
        ("" | "rbac.authorization.k8s.io", kind)
            if kind.ends_with("Role")
                || kind.ends_with("RoleBinding")
                || kind == "ServiceAccount" =>
        {
            Stage::Rbac
        }
        ("security.openshift.io", _) => Stage::SecurityContexts,
        ("", "Service") => Stage::Services,
        ("", "Secret" | "ConfigMap") => Stage::Certificates,
        ("admissionregistration.k8s.io", kind) if kind.contains("AdmissionPolicy") => {
            Stage::Policies
        }
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io" | "route.openshift.io", _) => {
            Stage::Endpoints
        }
        ("apps", "DaemonSet") => Stage::Handler,
        ("apps", "Deployment") => deployment_stage(&id.name),
        ("policy", "PodDisruptionBudget") => {
            deployment_stage(id.name.strip_suffix("-pdb").unwrap_or(&id.name))
        }
        (group, _) if is_defined(group, wanted) => Stage::Resources,
        _ => Stage::Others,
    }
}

fn deployment_stage(name: &str) -> Stage {
    match name {
        "virt-api" => Stage::Api,
        "virt-controller" => Stage::Controller,
        _ => Stage::Proxies,
    }
}

/// Whether one of the definitions among these objects defines the API group.
fn is_defined(group: &str, wanted: &[Object]) -> bool {
    let definitions = wanted.iter().filter(|object| is_definition(&object.id));
    let mut groups = definitions.filter_map(|object| object.id.name.split_once('.'));
    groups.any(|(_, defined)| defined == group)
}

pub(super) fn is_definition(id: &Id) -> bool {
    id.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Maximum age of the count on which an empty definition is deleted.
pub(super) const COUNT_MAX_AGE: SignedDuration = SignedDuration::from_secs(30);

/// Result of evaluating a stage; empty if it is done.
#[derive(Debug, Default)]
pub(super) struct StageOutcome {
    pub(super) steps: Vec<Step>,
    pub(super) waits: Vec<Wait>,
    /// Writes that the API server refuses.
    pub(super) refusals: Vec<String>,
    /// A failure that waiting does not end.
    pub(super) failure: Option<String>,
    /// Warnings that do not stop the rollout.
    pub(super) notes: Vec<String>,
    pub(super) requeue_at: Option<Time>,
    /// Time of the last progress: a stage that progresses is not stalled.
    pub(super) progress: Option<Time>,
}

impl StageOutcome {
    pub(super) fn step(&mut self, action: Action, reason: impl Into<String>) {
        self.steps.push(Step {
            action,
            reason: reason.into(),
            event: None,
        });
    }

    pub(super) fn wait(&mut self, id: &Id, message: impl Into<String>) {
        self.waits.push(Wait {
            id: id.clone(),
            message: message.into(),
            is_blocked: false,
        });
    }

    /// Like [`StageOutcome::wait`], with a message that names a pod's problem or finalizers.
    pub(super) fn wait_blocked(&mut self, id: &Id, message: impl Into<String>) {
        self.waits.push(Wait {
            id: id.clone(),
            message: message.into(),
            is_blocked: true,
        });
    }

    pub(super) fn wait_for_deletion(&mut self, live: &Live) {
        if live.finalizers.is_empty() {
            self.wait(&live.id, "is being deleted");
        } else {
            let finalizers = live.finalizers.join(", ");
            let message = format!("is being deleted, blocked by finalizers {finalizers}");
            self.wait_blocked(&live.id, message);
        }
    }

    pub(super) fn requeue_at(&mut self, at: Time) {
        self.requeue_at = earlier(self.requeue_at.take(), Some(at));
    }

    /// Whether the next stage must not begin.
    pub(super) fn is_under_way(&self) -> bool {
        !self.steps.is_empty()
            || !self.waits.is_empty()
            || !self.refusals.is_empty()
            || self.failure.is_some()
    }

    /// Adds the outcome of another stage.
    pub(super) fn join(&mut self, other: Self) {
        let Self {
            steps,
            waits,
            refusals,
            failure,
            notes,
            requeue_at,
            progress,
        } = other;
        self.steps.extend(steps);
        self.waits.extend(waits);
        self.refusals.extend(refusals);
        self.failure = self.failure.take().or(failure);
        self.notes.extend(notes);
        self.requeue_at = earlier(self.requeue_at.take(), requeue_at);
        self.progressed(progress);
    }

    /// Records progress at that time.
    pub(super) fn progressed(&mut self, at: Option<Time>) {
        let moments = self.progress.take().into_iter().chain(at);
        self.progress = moments.max_by_key(|at| at.0);
    }
}

pub(super) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
        (one, other) => one.or(other),
    }
}

pub(super) fn later(time: &Time, by: SignedDuration) -> Time {
    Time(time.0.saturating_add(by).unwrap_or(time.0))
}

pub(super) fn is_component(id: &Id) -> bool {
    id.is("apps", "Deployment") || id.is("apps", "DaemonSet")
}

/// Whether an object belongs to an installation and is removed with it.
pub(super) fn is_owned(live: &Live) -> bool {
    let is_old =
        live.labels.get(install::MANAGED_BY).map(String::as_str) == Some(install::OLD_MANAGER);
    // Other software uses the old label value too.
    let is_annotated = live.annotations.contains_key(install::STRATEGY_VERSION);
    live.is_managed() && (!is_old || is_annotated) && !is_permanent(&live.id)
}

/// Objects that exist before and after an installation.
fn is_permanent(id: &Id) -> bool {
    id.is("", "Namespace") || (is_definition(id) && &*id.name == "kubevirts.kubevirt.io")
}

/// Whether an object is an install strategy or a Job that writes one.
pub(super) fn is_strategy(live: &Live) -> bool {
    live.labels.contains_key(install::STRATEGY)
        && (live.id.is("", "ConfigMap") || live.id.is("batch", "Job"))
}

/// Removes KubeVirt's service accounts from OpenShift's privileged SecurityContextConstraints, where
/// old releases added them.
pub(super) fn remove_privileged_users(observed: &Observed<'_>) -> Option<Action> {
    let id = Id::new(
        "security.openshift.io",
        "SecurityContextConstraints",
        "",
        "privileged",
    );
    let live = observed.objects.get(&id)?;
    let value = live.value();
    let users = value.get("users").and_then(Value::as_array)?;
    let prefix = format!(
        "system:serviceaccount:{}:kubevirt-",
        observed.operator.namespace
    );
    let is_component = |user: &Value| user.as_str().is_some_and(|user| user.starts_with(&prefix));
    let others: Vec<&Value> = users.iter().filter(|user| !is_component(user)).collect();
    (others.len() < users.len()).then(|| Action::Patch {
        id,
        version: live.version.to_string(),
        patch: json!({
            "metadata": {"resourceVersion": &*live.resource_version}, "users": others,
        }),
    })
}
