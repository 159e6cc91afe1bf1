//! The stages of an installation and of its removal, and what the look at one of them gives.

mod definitions;
mod dump;
mod held;
mod hold_back;
mod look;
mod obsolete;
mod refusals;
mod scene;

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    action::{Action, Step, Wait},
    object::{Id, Live, Object},
    observed::Observed,
};

pub(super) use dump::look as strategy;
pub(super) use held::{hold, is_held, let_go, not_empty};
pub(super) use look::look;
pub(super) use refusals::sift;
pub(super) use scene::{Scene, delete};

/// How far an installation or a removal has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing is done for the resource: another one has been served already, or it is in another
    /// namespace than the operator.
    #[default]
    Refused,
    /// The resource's own finalizer and annotations.
    Resource,
    /// The strategy of the wanted version is at hand.
    Strategy,
    /// What is wanted can be made of the strategy and the resource.
    Rendering,
    /// Nobody makes objects of new kinds before the new virt-api checks them.
    HoldingBack,
    /// Definitions.
    Definitions,
    /// What Prometheus reads.
    Monitoring,
    /// Service accounts, roles and who has them.
    Rbac,
    /// OpenShift's security context constraints.
    SecurityContexts,
    /// Services.
    Services,
    /// Validating admission policies.
    Policies,
    /// CAs, certificates and bundles.
    Certificates,
    /// Webhooks, API services and routes.
    Endpoints,
    /// Certificates that the CAs sign.
    Leaves,
    /// Whatever else a release brings.
    Others,
    /// The label of the namespace.
    Namespace,
    /// The API server serves the definitions.
    Established,
    /// virt-handler, node by node.
    Handler,
    /// virt-controller.
    Controller,
    /// The other Deployments.
    Proxies,
    /// virt-api.
    Api,
    /// Every component runs as wanted.
    RollOver,
    /// Webhooks and policies that the wanted version does not have go.
    ObsoleteEndpoints,
    /// All else that the wanted version does not have goes.
    Obsolete,
    /// Instance types and preferences.
    Resources,
    /// Strategies and Jobs that nobody needs any more go.
    Tidying,
    /// Everything is as wanted.
    Deployed,
    /// Webhooks that nobody answers go before anything else.
    UnansweredEndpoints,
    /// Virtual machines go while those that look after them still run.
    Workloads,
    /// Definitions go, with all their objects.
    Undefining,
    /// The components go.
    Components,
    /// All else that was made goes.
    Remains,
    /// Labels of nodes go, strategies and Jobs.
    Leftovers,
    /// Nothing is left.
    Deleted,
}

impl Stage {
    /// The stage in a word, as it stands in conditions, metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Refused => "ExistingDeployment",
            Self::Resource => "ClaimingResource",
            Self::Strategy => "WaitingForStrategy",
            Self::Rendering => "RenderingObjects",
            Self::HoldingBack => "HoldingBackNewKinds",
            Self::Definitions => "ApplyingDefinitions",
            Self::Monitoring => "ApplyingMonitoring",
            Self::Rbac => "ApplyingRbac",
            Self::SecurityContexts => "ApplyingSecurityContextConstraints",
            Self::Services => "ApplyingServices",
            Self::Policies => "ApplyingAdmissionPolicies",
            Self::Certificates => "IssuingCertificates",
            Self::Endpoints => "ApplyingWebhooks",
            Self::Leaves => "SigningCertificates",
            Self::Others => "ApplyingOtherObjects",
            Self::Namespace => "LabellingNamespace",
            Self::Established => "WaitingForDefinitions",
            Self::Handler => "RollingOutVirtHandler",
            Self::Controller => "RollingOutVirtController",
            Self::Proxies => "RollingOutOtherDeployments",
            Self::Api => "RollingOutVirtApi",
            Self::RollOver => "WaitingForComponents",
            Self::ObsoleteEndpoints | Self::Obsolete => "RemovingObsoleteObjects",
            Self::Resources => "ApplyingInstancetypes",
            Self::Tidying => "RemovingStrategies",
            Self::Deployed => "AllComponentsReady",
            Self::UnansweredEndpoints => "RemovingWebhooks",
            Self::Workloads => "RemovingWorkloads",
            Self::Undefining => "RemovingDefinitions",
            Self::Components => "RemovingComponents",
            Self::Remains => "RemovingObjects",
            Self::Leftovers => "RemovingLeftovers",
            Self::Deleted => "Deleted",
        }
    }

    /// How long it may take before that is told as something wrong. On a cluster whose time runs
    /// `speed` times as fast it takes that much less.
    pub fn deadline(self, speed: u32) -> SignedDuration {
        let deadline = SignedDuration::from_mins(match self {
            Self::Strategy => 5,
            _ => 10,
        });
        scaled(deadline, speed)
    }
}

/// A duration on a cluster whose time runs `speed` times as fast.
pub(super) fn scaled(duration: SignedDuration, speed: u32) -> SignedDuration {
    let speed = i32::try_from(speed.max(1)).unwrap_or(i32::MAX);
    duration / speed
}

/// Which stage writes objects of a kind.
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

/// Whether a group is one of those that the definitions among these objects bring.
fn is_defined(group: &str, wanted: &[Object]) -> bool {
    let definitions = wanted.iter().filter(|object| is_definition(&object.id));
    let mut groups = definitions.filter_map(|object| object.id.name.split_once('.'));
    groups.any(|(_, defined)| defined == group)
}

pub(super) fn is_definition(id: &Id) -> bool {
    id.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// How old a count may be when a definition goes because it has no objects.
pub(super) const FRESH: SignedDuration = SignedDuration::from_secs(30);

/// What the look at a stage gives: nothing, if it is done.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) steps: Vec<Step>,
    pub(super) waits: Vec<Wait>,
    /// Writes that the API server refuses.
    pub(super) refusals: Vec<String>,
    /// What went wrong so that waiting does not help.
    pub(super) failure: Option<String>,
    /// What people should know though it stops nothing.
    pub(super) notes: Vec<String>,
    pub(super) requeue_at: Option<Time>,
    /// When something was last seen to go on: what goes on is not stalled.
    pub(super) progress: Option<Time>,
}

impl Outcome {
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
        });
    }

    pub(super) fn requeue_at(&mut self, at: Time) {
        self.requeue_at = earlier(self.requeue_at.take(), Some(at));
    }

    /// Whether nothing after this stage may be begun.
    pub(super) fn is_under_way(&self) -> bool {
        !self.steps.is_empty()
            || !self.waits.is_empty()
            || !self.refusals.is_empty()
            || self.failure.is_some()
    }

    /// Takes in what the look at another stage gave.
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

    /// Something was seen to go on at that time.
    pub(super) fn progressed(&mut self, at: Option<Time>) {
        let moments = self.progress.take().into_iter().chain(at);
        self.progress = moments.max_by_key(|at| at.0);
    }
}

/// The earlier of two moments.
pub(super) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
        (one, other) => one.or(other),
    }
}

/// A moment that much later.
pub(super) fn later(time: &Time, by: SignedDuration) -> Time {
    Time(time.0.saturating_add(by).unwrap_or(time.0))
}

/// How a message names the finalizers that an object waits for.
pub(super) const HELD: &str = "held by ";

/// What is known of an object that is on its way out.
pub(super) fn going(live: &Live) -> String {
    if live.finalizers.is_empty() {
        return "is being deleted".to_owned();
    }
    format!("is being deleted and {HELD}{}", live.finalizers.join(", "))
}

pub(super) fn is_component(id: &Id) -> bool {
    id.is("apps", "Deployment") || id.is("apps", "DaemonSet")
}

/// Whether an object belongs to an installation, and is not one of those that are there before it
/// and after it.
pub(super) fn is_ours(live: &Live) -> bool {
    let is_old =
        live.labels.get(install::MANAGED_BY).map(String::as_str) == Some(install::OLD_MANAGER);
    // The old value is a common name: what else it is on is not told apart by it.
    let is_marked = live.annotations.contains_key(install::STRATEGY_VERSION);
    live.is_managed() && (!is_old || is_marked) && !is_beyond(&live.id)
}

/// What is there before an installation and after it.
fn is_beyond(id: &Id) -> bool {
    id.is("", "Namespace") || (is_definition(id) && &*id.name == "kubevirts.kubevirt.io")
}

/// Whether it is a strategy, or a Job that writes one.
pub(super) fn is_strategy(live: &Live) -> bool {
    live.labels.contains_key(install::STRATEGY)
        && (live.id.is("", "ConfigMap") || live.id.is("batch", "Job"))
}

/// Takes the service accounts of KubeVirt's components out of OpenShift's own privileged
/// constraints, where old releases put them.
pub(super) fn without_privileges(observed: &Observed<'_>) -> Option<Action> {
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
    let is_ours = |user: &Value| user.as_str().is_some_and(|user| user.starts_with(&prefix));
    let others: Vec<&Value> = users.iter().filter(|user| !is_ours(user)).collect();
    (others.len() < users.len()).then(|| Action::Patch {
        id,
        version: live.version.to_string(),
        patch: json!({
            "metadata": {"resourceVersion": &*live.resource_version}, "users": others,
        }),
    })
}
