//! What to do next: the first stage that is not done yet says it.
//!
//! An update goes from the nodes to the API, so that nobody can ask for what a node cannot do yet;
//! everything else, a first installation or the way back, goes from the API to the nodes, so that
//! what is asked for is checked before anybody acts on it. Where everything has been as wanted
//! before, there is no order to keep, and what was changed since is put back at once, whatever else
//! is not ready.

mod wanted;

use std::{cell::OnceCell, cmp::Ordering, collections::BTreeSet};

use api::{Time, kubevirt::install};
use semver::Version;

use super::{
    action::{Action, Plan, Step, Wait},
    object::{Id, Object, Unnamed},
    observed::Observed,
    removal,
    rollback::{self, Aim},
    stages::{self, Outcome, Scene, Stage, earlier, later},
    status::{self, Draft, Said, Trouble},
    target::target,
    tell,
};

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

/// What keeps a running version alive while another one cannot be had.
const UPKEEP: [Stage; 3] = [Stage::Certificates, Stage::Endpoints, Stage::Leaves];

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
    pub(super) look_again: Option<Time>,
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
    match target(observed.kubevirt, observed.operator, observed.served) {
        Ok(target) => install(
            observed,
            now,
            Aim::from(&target),
            |aim| wanted::wanted(observed, &aim.target(&target), now),
            |aim, number| wanted::job(observed, &aim.target(&target), number),
        ),
        Err(error) => {
            let outcome = Outcome {
                refusals: vec![error.to_string()],
                ..Outcome::default()
            };
            let aim = rollback::last_good(observed.kubevirt).unwrap_or_default();
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

/// The plan for a resource that nothing is done for; None if it is to be served.
pub(super) fn refused(observed: &Observed<'_>, now: &Time) -> Option<Plan> {
    let kubevirt = observed.kubevirt;
    let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
    let served = &observed.operator.namespace;
    let message = if namespace == served {
        let first = observed
            .others
            .iter()
            .find(|other| other.namespace == *served && comes_first(other, kubevirt))?;
        format!(
            "There is an active KubeVirt deployment: KubeVirt {}/{}",
            first.namespace, first.name
        )
    } else {
        format!(
            "The operator serves namespace {served} alone: there can be one KubeVirt deployment in \
             a cluster"
        )
    };
    let mut draft = Draft::of(kubevirt, now);
    draft.refused(&message);
    let status = draft.finished();
    let events = tell::events(kubevirt.status.as_ref(), status.as_ref());
    let mut outcome = Outcome::default();
    // One in another namespace may be another operator's.
    if kubevirt.metadata.deletion_timestamp.is_some() && namespace == served {
        release(kubevirt, "nothing was installed for it", &mut outcome);
    }
    Some(Plan {
        stage: Stage::Refused,
        steps: outcome.steps,
        status,
        events,
        ..Plan::default()
    })
}

/// Whether another resource is served rather than this one: something was installed for it, or it
/// was there first.
fn comes_first(other: &super::observed::Other, kubevirt: &install::KubeVirt) -> bool {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let installed = finalizers.iter().any(|finalizer| is_ours(finalizer));
    let created = kubevirt.metadata.creation_timestamp.as_ref();
    let name = kubevirt.metadata.name.as_deref().unwrap_or_default();
    let this = (!installed, created.map(|at| at.0), name);
    let that = (
        !other.installed,
        other.created.as_ref().map(|at| at.0),
        other.name.as_str(),
    );
    that < this
}

fn is_ours(finalizer: &str) -> bool {
    matches!(finalizer, install::FINALIZER | install::OLD_FINALIZER)
}

/// Lets the resource go.
pub(super) fn release(kubevirt: &install::KubeVirt, reason: &str, outcome: &mut Outcome) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let others: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_ours(finalizer))
        .cloned()
        .collect();
    if others.len() < finalizers.len() {
        outcome.step(Action::Finalizers(others), reason);
    }
}

/// Holds the resource until everything is removed.
fn claim(kubevirt: &install::KubeVirt, outcome: &mut Outcome) {
    let finalizers = kubevirt.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has(install::FINALIZER) && !has(install::OLD_FINALIZER) {
        return;
    }
    let mut wanted: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !is_ours(finalizer))
        .cloned()
        .collect();
    wanted.push(install::FINALIZER.to_owned());
    let reason = "what is made is removed before the resource goes";
    outcome.step(Action::Finalizers(wanted), reason);
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
    let aim = rollback::aim(kubevirt, asked);
    if resource.is_under_way() {
        return finish(observed, now, &aim, Walk::at(Stage::Resource, resource));
    }
    let walk = match wanted(&aim) {
        Wanted::Unknown => {
            let outcome = stages::strategy(observed, &aim, |number| job(&aim, number), now);
            let mut walk = Walk::at(Stage::Strategy, outcome);
            keep_up(observed, now, &aim, &wanted, &mut walk);
            walk
        }
        Wanted::Impossible(why) => {
            let refusals = vec![why];
            let outcome = Outcome {
                refusals,
                ..Outcome::default()
            };
            Walk::at(Stage::Rendering, outcome)
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
    walk.outcome.look_again.clone_from(&rendered.look_again);
    for stage in order {
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
    // Components are told of once, by the stage that waits for them.
    let mut seen: BTreeSet<Id> = BTreeSet::new();
    walk.outcome
        .waits
        .retain(|wait| seen.insert(wait.id.clone()));
    walk
}

/// The version that runs goes on running while the one that is wanted cannot be had: its
/// certificates do not wait for it.
fn keep_up(
    observed: &Observed<'_>,
    now: &Time,
    aim: &Aim,
    wanted: &impl Fn(&Aim) -> Wanted,
    walk: &mut Walk,
) {
    let good = rollback::last_good(observed.kubevirt).filter(|good| good.id != aim.id);
    let Some(good) = good else { return };
    let Wanted::Known(rendered) = wanted(&good) else {
        return;
    };
    let scene = scene(observed, now, &good, &rendered);
    for stage in UPKEEP {
        let outcome = stages::look(&scene, stage);
        if !outcome.steps.is_empty() {
            walk.outcome.steps.extend(outcome.steps);
            break;
        }
    }
    walk.outcome.look_again = earlier(walk.outcome.look_again.take(), rendered.look_again.clone());
}

/// Makes a plan of how far an installation has come.
fn finish(observed: &Observed<'_>, now: &Time, aim: &Aim, walk: Walk) -> Plan {
    let kubevirt = observed.kubevirt;
    let Walk { stage, mut outcome } = walk;
    let trouble = trouble(observed, now, stage, &mut outcome);
    let given_up = trouble
        .as_ref()
        .and_then(|trouble| rollback::give_up(kubevirt, aim, trouble.message()));
    outcome.steps.extend(given_up);
    let mut draft = Draft::of(kubevirt, now);
    let architecture = architecture(observed);
    draft.aims(aim, &observed.operator.version, architecture);
    let old = kubevirt.status.as_ref();
    let is_observed =
        old.is_some_and(|status| status.observed_deployment_id.as_deref() == Some(&*aim.id));
    let writes_only = !outcome.steps.is_empty() && outcome.waits.is_empty();
    if let Some(refusal) = outcome.refusals.first() {
        draft.says(&Said::Refused(refusal.clone()), aim);
    } else if stage == Stage::Deployed {
        let notes = &outcome.notes;
        draft.says(&Said::Deployed { notes }, aim);
        draft.synchronizes_at(super::synchronization::addresses(observed));
    } else if !(is_observed && writes_only) {
        // A small repair is over before anybody could read of it.
        let waits_for = (!outcome.waits.is_empty()).then(|| waits_for(&outcome.waits));
        let said = Said::UnderWay {
            stage,
            waits_for,
            trouble: trouble.clone(),
        };
        draft.says(&said, aim);
    }
    let status = draft.finished();
    Plan {
        stage,
        stalled: trouble.is_some() || !outcome.refusals.is_empty(),
        events: tell::events(old, status.as_ref()),
        status,
        steps: outcome.steps,
        waits: outcome.waits,
        look_again: outcome.look_again,
    }
}

/// What is wrong with a stage, and when to look whether something is.
fn trouble(
    observed: &Observed<'_>,
    now: &Time,
    stage: Stage,
    outcome: &mut Outcome,
) -> Option<Trouble> {
    if let Some(failure) = &outcome.failure {
        return Some(Trouble::Failed(failure.clone()));
    }
    if outcome.waits.is_empty() {
        return None;
    }
    let since = status::since(observed.kubevirt, stage, now);
    let deadline = later(&since, stage.deadline());
    if now.0 < deadline.0 {
        outcome.look_again(deadline);
        return None;
    }
    let causes = outcome.waits.iter().take(MOST);
    let causes = causes.map(|wait| format!("{} {}", wait.id, wait.message));
    let causes: Vec<String> = causes.collect();
    Some(Trouble::Stalled(format!(
        "{} since {}: {}",
        stage.reason(),
        since.0,
        causes.join("; ")
    )))
}

/// How many objects are named in a sentence.
const MOST: usize = 3;

/// What is waited for, in words that do not change while it is.
fn waits_for(waits: &[Wait]) -> String {
    let names = waits.iter().take(MOST).map(|wait| wait.id.to_string());
    let names: Vec<String> = names.collect();
    let mut text = format!("waiting for {}", names.join(", "));
    if waits.len() > MOST {
        text.push_str(&format!(" and {} more", waits.len() - MOST));
    }
    text
}

/// The architecture that most nodes have.
fn architecture<'a>(observed: &Observed<'a>) -> Option<&'a str> {
    let of_nodes = observed.nodes.iter().map(|node| node.architecture.as_str());
    let known: Vec<&str> = of_nodes.filter(|name| !name.is_empty()).collect();
    let count = |name: &str| known.iter().filter(|other| **other == name).count();
    let mut names: Vec<&str> = known.clone();
    names.sort_unstable();
    names.dedup();
    names.into_iter().rev().max_by_key(|name| count(name))
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
