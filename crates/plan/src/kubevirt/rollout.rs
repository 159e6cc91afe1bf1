//! Reconcile planner of a KubeVirt resource: finds the first stage that is not done and returns its
//! writes, the status and the requeue time.
//!
//! An update goes from the nodes to the API, so that no one can ask for what a node does not support
//! yet. A first installation and a rollback go from the API to the nodes, so that requests are
//! validated before a component acts on them. Once everything has been deployed no order is needed:
//! drift is repaired at once, even while another component is not ready.

mod claim;
mod finish;
mod render;
mod upkeep;

use std::{cell::OnceCell, cmp::Ordering, collections::BTreeSet};

use api::Time;
use semver::Version;

use super::{
    action::{Plan, Step},
    caches::PlanCaches,
    events,
    object::{Id, Object, Unnamed},
    observed::Observed,
    removal,
    rollback::{self, RolloutTarget},
    stages::{self, Stage, StageContext, StageOutcome},
    target::target,
};
use claim::{add_finalizer, not_served};
use finish::finish;
use upkeep::keep_running;

pub(super) use claim::remove_finalizer;
pub(super) use upkeep::renew_certificates;

/// Stages before the components.
const BEFORE: [Stage; 13] = [
    Stage::TemporaryWebhook,
    Stage::Definitions,
    Stage::Monitoring,
    Stage::Rbac,
    Stage::SecurityContexts,
    Stage::Services,
    Stage::Policies,
    Stage::Certificates,
    Stage::Endpoints,
    Stage::LeafCertificates,
    Stage::Others,
    Stage::Namespace,
    Stage::Established,
];

const UPDATE: [Stage; 4] = [
    Stage::Handler,
    Stage::Controller,
    Stage::Proxies,
    Stage::Api,
];

const CREATE: [Stage; 4] = [
    Stage::Api,
    Stage::Controller,
    Stage::Proxies,
    Stage::Handler,
];

/// Stages after all components.
const AFTER: [Stage; 5] = [
    Stage::AllComponents,
    Stage::ObsoleteEndpoints,
    Stage::Obsolete,
    Stage::Resources,
    Stage::StrategyCleanup,
];

/// The desired state of one deployment.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) objects: Vec<Object>,
    /// Objects that belong to the deployment though it does not define their content.
    pub(super) kept: BTreeSet<Id>,
    /// Writes to the Secrets of CAs, before bundles.
    pub(super) authorities: Vec<Step>,
    /// Writes to the Secrets of leaf certificates, after all objects that carry a bundle.
    pub(super) leaves: Vec<Step>,
    pub(super) notes: Vec<String>,
    /// When certificates are due.
    pub(super) requeue_at: Option<Time>,
}

pub(super) enum RenderResult {
    /// The install strategy has not been read.
    NoStrategy,
    /// The objects cannot be built, and why.
    Failed(String),
    Rendered(Box<Rendered>),
}

/// Whether a rollout to a version, from one that is deployed, is an update.
pub fn is_update(to: &str, from: Option<&str>) -> bool {
    let version = |text: &str| Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    let Some(from) = from else {
        return false;
    };
    match (version(to), version(from)) {
        (Some(to), Some(from)) => to.cmp_precedence(&from) == Ordering::Greater,
        // A name that is not a version may be newer, so the nodes come first.
        _ => true,
    }
}

/// The next writes for an installation, its status and the requeue time.
///
/// The writes of a plan do not depend on each other, but start in their order. The caller executes
/// them, adds the answers to the observed state and plans again. A plan without writes and without a
/// status means that nothing is to be done until something changes or the requeue time has come. A
/// caller that stops in between loses nothing.
pub fn plan(observed: &Observed<'_>, now: &Time, caches: &mut PlanCaches) -> Plan {
    if let Some(plan) = not_served(observed, now) {
        return plan;
    }
    if observed.kubevirt.metadata.deletion_timestamp.is_some() || is_namespace_deleting(observed) {
        return removal::plan(observed, now, caches);
    }
    if let Some(refusal) = observed.served.unreadable_kind(true) {
        let outcome = StageOutcome {
            refusals: vec![refusal],
            ..StageOutcome::default()
        };
        let target = rollback::last_deployed(observed.kubevirt).unwrap_or_default();
        let current = CurrentStage::new(Stage::Rendering, outcome);
        return finish(observed, now, &target, current);
    }
    match target(observed.kubevirt, observed.operator, observed.served) {
        Ok(requested) => install(
            observed,
            now,
            RolloutTarget::from(&requested),
            caches,
            |target, caches| render::render(observed, &target.resolve(&requested), now, caches),
            |target, attempt| render::job(observed, &target.resolve(&requested), attempt),
        ),
        Err(error) => {
            let mut outcome = StageOutcome {
                refusals: vec![error.to_string()],
                ..StageOutcome::default()
            };
            let target = rollback::last_deployed(observed.kubevirt).unwrap_or_default();
            renew_certificates(observed, now, caches, &mut outcome);
            let current = CurrentStage::new(Stage::Rendering, outcome);
            finish(observed, now, &target, current)
        }
    }
}

/// Whether the namespace is being deleted. Nothing can be created in it any more, and webhooks
/// without a server would block the deletion of the resource.
fn is_namespace_deleting(observed: &Observed<'_>) -> bool {
    let id = Id::new("", "Namespace", "", &observed.operator.namespace);
    let live = observed.objects.get(&id);
    live.is_some_and(|live| live.deleting)
}

fn install(
    observed: &Observed<'_>,
    now: &Time,
    requested: RolloutTarget,
    caches: &mut PlanCaches,
    render: impl Fn(&RolloutTarget, &mut PlanCaches) -> RenderResult,
    job: impl Fn(&RolloutTarget, u32) -> Result<Object, Unnamed>,
) -> Plan {
    let kubevirt = observed.kubevirt;
    let mut resource = StageOutcome::default();
    add_finalizer(kubevirt, &mut resource);
    rollback::annotate(kubevirt, &requested, &mut resource);
    stages::drop_refused(observed, now, &mut resource);
    let target = rollback::choose_target(kubevirt, requested);
    if resource.is_under_way() {
        let current = CurrentStage::new(Stage::Resource, resource);
        return finish(observed, now, &target, current);
    }
    let current = match render(&target, caches) {
        RenderResult::NoStrategy => {
            let job = |attempt| job(&target, attempt);
            let mut outcome = stages::evaluate_strategy_job(observed, &target, job, now);
            stages::drop_refused(observed, now, &mut outcome);
            keep_running(observed, now, &target, &render, caches, &mut outcome);
            CurrentStage::new(Stage::Strategy, outcome)
        }
        RenderResult::Failed(error) => {
            let mut outcome = StageOutcome {
                refusals: vec![error],
                ..StageOutcome::default()
            };
            keep_running(observed, now, &target, &render, caches, &mut outcome);
            CurrentStage::new(Stage::Rendering, outcome)
        }
        RenderResult::Rendered(rendered) => {
            let from = kubevirt
                .status
                .as_ref()
                .and_then(|status| status.observed_kube_virt_version.as_deref())
                .filter(|version| !version.is_empty());
            let components = if is_update(&target.version, from) {
                UPDATE
            } else {
                CREATE
            };
            let order = BEFORE.into_iter().chain(components).chain(AFTER);
            let context = stage_context(observed, now, &target, &rendered);
            evaluate_stages(&context, order, &rendered, caches)
        }
    };
    finish(observed, now, &target, current)
}

fn stage_context<'a>(
    observed: &'a Observed<'a>,
    now: &'a Time,
    target: &'a RolloutTarget,
    rendered: &'a Rendered,
) -> StageContext<'a> {
    StageContext {
        observed,
        now,
        target,
        wanted: &rendered.objects,
        kept: &rendered.kept,
        authorities: &rendered.authorities,
        leaves: &rendered.leaves,
        readiness: OnceCell::new(),
    }
}

/// The first stage that is not done, with its outcome.
struct CurrentStage {
    stage: Stage,
    outcome: StageOutcome,
}

impl CurrentStage {
    fn new(stage: Stage, outcome: StageOutcome) -> Self {
        Self { stage, outcome }
    }
}

/// Evaluates stages up to the first that is not done. In a repair, a stage that only waits does not
/// stop the following ones.
fn evaluate_stages(
    context: &StageContext<'_>,
    order: impl Iterator<Item = Stage>,
    rendered: &Rendered,
    caches: &mut PlanCaches,
) -> CurrentStage {
    let mut current = CurrentStage::new(Stage::Deployed, StageOutcome::default());
    current.outcome.notes.clone_from(&rendered.notes);
    current.outcome.requeue_at.clone_from(&rendered.requeue_at);
    let mut evaluated_leaves = false;
    for stage in order {
        evaluated_leaves |= stage == Stage::LeafCertificates;
        let mut outcome = stages::evaluate(context, stage, caches);
        let is_under_way = outcome.is_under_way();
        let has_steps = !outcome.steps.is_empty();
        if context.is_repairing() {
            events::add_repairs(&mut outcome.steps);
        }
        current.outcome.join(outcome);
        if is_under_way && current.stage == Stage::Deployed {
            current.stage = stage;
        }
        if has_steps || (is_under_way && !context.is_repairing()) {
            break;
        }
    }
    if current.outcome.steps.is_empty() && !evaluated_leaves {
        upkeep::renew_while_stuck(context, rendered, caches, &mut current.outcome);
    }
    // Several stages may wait for one component; the first reports it.
    let mut reported: BTreeSet<Id> = BTreeSet::new();
    current
        .outcome
        .waits
        .retain(|wait| reported.insert(wait.id.clone()));
    current
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_update;

    #[rstest]
    #[case("v0.15.0", Some("v0.14.0"), true)]
    #[case("v0.14.0", Some("v0.15.0"), false)]
    #[case("v0.15.0", Some("v0.15.0"), false)]
    #[case("devel", Some("v0.14.0"), true)]
    #[case("0.15.0", Some("0.14.0"), true)]
    #[case("0.14.0", Some("0.15.0"), false)]
    #[case("0.15.0", Some("0.15.0"), false)]
    #[case("devel", Some("0.14.0"), true)]
    #[case("devel", None, false)]
    fn a_higher_version_is_an_update(
        #[case] to: &str,
        #[case] from: Option<&str>,
        #[case] expected: bool,
    ) {
        assert_eq!(is_update(to, from), expected);
    }
}
