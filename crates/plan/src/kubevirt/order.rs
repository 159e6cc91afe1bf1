//! What to do next: the first stage that is not done yet says it.
//!
//! An update goes from the nodes to the API, so that nobody can ask for what a node cannot do yet;
//! everything else, a first installation or the way back, goes from the API to the nodes, so that
//! what is asked for is checked before anybody acts on it. Where everything has been as wanted
//! before, there is no order to keep, and what was changed since is put back at once, whatever else
//! is not ready.

mod claim;
mod finish;
mod upkeep;
mod wanted;

use std::{cell::OnceCell, cmp::Ordering, collections::BTreeSet};

use api::Time;
use semver::Version;

use super::{
    action::{Plan, Step},
    object::{Id, Object, Unnamed},
    observed::Observed,
    removal,
    rollback::{self, Aim},
    stages::{self, Outcome, Scene, Stage},
    target::target,
    tell,
};
use claim::{claim, refused};
use finish::finish;
use upkeep::keep_up;

pub(super) use claim::release;
pub(super) use upkeep::certificates;

/// What has to be there before components are.
const BEFORE: [Stage; 13] = [
    Stage::HoldingBack,
    Stage::Definitions,
    Stage::Monitoring,
    Stage::Rbac,
    Stage::SecurityContexts,
    Stage::Services,
    Stage::Policies,
    Stage::Certificates,
    Stage::Endpoints,
    Stage::Leaves,
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

/// What comes when every component runs.
const AFTER: [Stage; 5] = [
    Stage::RollOver,
    Stage::ObsoleteEndpoints,
    Stage::Obsolete,
    Stage::Resources,
    Stage::Tidying,
];

/// What a deployment wants to be in the cluster.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// The objects.
    pub(super) objects: Vec<Object>,
    /// Objects that belong to it though it does not say what is in them.
    pub(super) kept: BTreeSet<Id>,
    /// What is to be done about CAs, before bundles.
    pub(super) authorities: Vec<Step>,
    /// What is to be done about certificates, after bundles and what carries them.
    pub(super) leaves: Vec<Step>,
    /// What people should know.
    pub(super) notes: Vec<String>,
    /// When certificates are to be looked at.
    pub(super) requeue_at: Option<Time>,
}

/// What a deployment wants, as far as that is known.
pub(super) enum Wanted {
    /// Its strategy is not at hand.
    Unknown,
    /// It cannot be made.
    Impossible(String),
    /// Its strategy is at hand.
    Known(Box<Rendered>),
}

/// Whether to take the way of an update from one version to another.
pub fn is_update(to: &str, from: &str) -> bool {
    let version = |text: &str| Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    match (version(to), version(from)) {
        _ if from.is_empty() => false,
        (Some(to), Some(from)) => to.cmp_precedence(&from) == Ordering::Greater,
        // What is not a version may be anything, and then the nodes come first.
        _ => true,
    }
}

/// What to do next about an installation of KubeVirt, and what to tell people.
///
/// The writes of a plan do not depend on each other, save that they are begun in their order. The
/// caller carries them out, puts the answers among what is observed, and asks again; a plan without
/// writes and without a status says that there is nothing to do before something changes or the time
/// to look again has come. Nothing is lost when the caller dies in between.
pub fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    if let Some(plan) = refused(observed, now) {
        return plan;
    }
    if observed.kubevirt.metadata.deletion_timestamp.is_some() || is_namespace_going(observed) {
        return removal::plan(observed, now);
    }
    if let Some(why) = observed.served.unreadable_kind(true) {
        let outcome = Outcome {
            refusals: vec![why],
            ..Outcome::default()
        };
        let aim = rollback::last_good(observed.kubevirt).unwrap_or_default();
        return finish(observed, now, &aim, Walk::at(Stage::Rendering, outcome));
    }
    match target(observed.kubevirt, observed.operator, observed.served) {
        Ok(target) => install(
            observed,
            now,
            Aim::from(&target),
            |aim| wanted::wanted(observed, &aim.target(&target), now),
            |aim, number| wanted::job(observed, &aim.target(&target), number),
        ),
        Err(error) => {
            let mut outcome = Outcome {
                refusals: vec![error.to_string()],
                ..Outcome::default()
            };
            let aim = rollback::last_good(observed.kubevirt).unwrap_or_default();
            certificates(observed, now, &mut outcome);
            finish(observed, now, &aim, Walk::at(Stage::Rendering, outcome))
        }
    }
}

/// Whether the namespace is being deleted. Nothing can be made there any more, and the webhooks that
/// check the resource's own deletion stand in its way once nobody answers them.
fn is_namespace_going(observed: &Observed<'_>) -> bool {
    let id = Id::new("", "Namespace", "", &observed.operator.namespace);
    let live = observed.objects.get(&id);
    live.is_some_and(|live| live.deleting)
}

/// The plan of an installation. `asked` is what the resource asks for, and `wanted` what a
/// deployment wants.
pub(super) fn install(
    observed: &Observed<'_>,
    now: &Time,
    asked: Aim,
    wanted: impl Fn(&Aim) -> Wanted,
    job: impl Fn(&Aim, u32) -> Result<Object, Unnamed>,
) -> Plan {
    let kubevirt = observed.kubevirt;
    let mut resource = Outcome::default();
    claim(kubevirt, &mut resource);
    rollback::annotate(kubevirt, &asked, &mut resource);
    stages::sift(observed, now, &mut resource);
    let aim = rollback::aim(kubevirt, asked);
    if resource.is_under_way() {
        return finish(observed, now, &aim, Walk::at(Stage::Resource, resource));
    }
    let walk = match wanted(&aim) {
        Wanted::Unknown => {
            let mut outcome = stages::strategy(observed, &aim, |number| job(&aim, number), now);
            stages::sift(observed, now, &mut outcome);
            let mut walk = Walk::at(Stage::Strategy, outcome);
            keep_up(observed, now, &aim, &wanted, &mut walk.outcome);
            walk
        }
        Wanted::Impossible(why) => {
            let refusals = vec![why];
            let outcome = Outcome {
                refusals,
                ..Outcome::default()
            };
            let mut walk = Walk::at(Stage::Rendering, outcome);
            keep_up(observed, now, &aim, &wanted, &mut walk.outcome);
            walk
        }
        Wanted::Known(rendered) => {
            let from = kubevirt
                .status
                .as_ref()
                .and_then(|status| status.observed_kube_virt_version.as_deref())
                .unwrap_or_default();
            let components = if is_update(&aim.version, from) {
                UPDATE
            } else {
                CREATE
            };
            let order = BEFORE.into_iter().chain(components).chain(AFTER);
            walk(&scene(observed, now, &aim, &rendered), order, &rendered)
        }
    };
    finish(observed, now, &aim, walk)
}

fn scene<'a>(
    observed: &'a Observed<'a>,
    now: &'a Time,
    aim: &'a Aim,
    rendered: &'a Rendered,
) -> Scene<'a> {
    Scene {
        observed,
        now,
        aim,
        wanted: &rendered.objects,
        kept: &rendered.kept,
        authorities: &rendered.authorities,
        leaves: &rendered.leaves,
        readiness: OnceCell::new(),
    }
}

/// How far an installation has come.
struct Walk {
    stage: Stage,
    outcome: Outcome,
}

impl Walk {
    fn at(stage: Stage, outcome: Outcome) -> Self {
        Self { stage, outcome }
    }
}

/// Goes from stage to stage up to the first that is not done. What only waits does not stop what
/// follows where everything has been as wanted before.
fn walk(scene: &Scene<'_>, order: impl Iterator<Item = Stage>, rendered: &Rendered) -> Walk {
    let mut walk = Walk::at(Stage::Deployed, Outcome::default());
    walk.outcome.notes.clone_from(&rendered.notes);
    walk.outcome.requeue_at.clone_from(&rendered.requeue_at);
    let mut has_seen_leaves = false;
    for stage in order {
        has_seen_leaves |= stage == Stage::Leaves;
        let mut outcome = stages::look(scene, stage);
        let is_under_way = outcome.is_under_way();
        let has_steps = !outcome.steps.is_empty();
        if scene.is_repairing() {
            tell::repairs(&mut outcome.steps);
        }
        walk.outcome.join(outcome);
        if is_under_way && walk.stage == Stage::Deployed {
            walk.stage = stage;
        }
        if has_steps || (is_under_way && !scene.is_repairing()) {
            break;
        }
    }
    if walk.outcome.steps.is_empty() && !has_seen_leaves {
        upkeep::while_stuck(scene, rendered, &mut walk.outcome);
    }
    // Components are told of once, by the stage that waits for them.
    let mut seen: BTreeSet<Id> = BTreeSet::new();
    walk.outcome
        .waits
        .retain(|wait| seen.insert(wait.id.clone()));
    walk
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_update;

    #[rstest]
    #[case("v0.15.0", "v0.14.0", true)]
    #[case("v0.14.0", "v0.15.0", false)]
    #[case("v0.15.0", "v0.15.0", false)]
    #[case("devel", "v0.14.0", true)]
    #[case("0.15.0", "0.14.0", true)]
    #[case("0.14.0", "0.15.0", false)]
    #[case("0.15.0", "0.15.0", false)]
    #[case("devel", "0.14.0", true)]
    #[case("devel", "", false)]
    fn the_way_of_an_update_is_told_by_the_versions(
        #[case] to: &str,
        #[case] from: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_update(to, from), expected);
    }
}
