//! Whether a component runs as wanted, and what is known of why it does not.
//!
//! Its status counts once it tells of the generation that is there. Pods are told by who owns them.
//! A node that is down is not waited for: nothing can be done there before it is back. A DaemonSet
//! that no node is eligible for is ready.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::{
    object::{Id, Live},
    observed::{Observed, Pod},
    rollback::Aim,
    stages::Scene,
};

/// How the part of a message begins that names a pod and its cause (see [`describe_problem`]).
pub(super) const TROUBLE: &str = "; pod ";

/// How often a container may end before that is no accident.
const RESTARTS: i64 = 3;

/// How a component is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It runs as wanted.
    Ready,
    /// It runs as wanted, and there is something that people should know.
    Noted(String),
    /// It does not, and why.
    NotReady(String),
}

impl Readiness {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Noted(_))
    }
}

/// How a component is.
pub(super) fn component(scene: &Scene<'_>, id: &Id) -> Readiness {
    readiness(scene.observed, scene.aim, id)
}

fn readiness(observed: &Observed<'_>, aim: &Aim, id: &Id) -> Readiness {
    let Some(live) = observed.objects.get(id) else {
        return Readiness::NotReady("is not there yet".to_owned());
    };
    if !aim.is_of(&live.annotations) {
        return Readiness::NotReady("is of another version".to_owned());
    }
    let value = live.value();
    if figure(&value, "/status/observedGeneration") < live.generation.unwrap_or_default() {
        return Readiness::NotReady("was changed and nobody has looked at it yet".to_owned());
    }
    if id.is("apps", "DaemonSet") {
        daemon_set(observed, aim, live, &value)
    } else {
        deployment(observed, aim, live, &value)
    }
}

fn deployment(observed: &Observed<'_>, aim: &Aim, live: &Live, value: &Value) -> Readiness {
    let wanted = value.pointer("/spec/replicas").and_then(Value::as_i64);
    let wanted = wanted.unwrap_or(1);
    if wanted == 0 {
        return Readiness::Noted(format!("{} has no replicas", live.id));
    }
    let replicas = figure(value, "/status/replicas");
    let updated = figure(value, "/status/updatedReplicas");
    let ready = figure(value, "/status/readyReplicas");
    let pods = || pods(observed, &live.id);
    let outdated = pods().find(|pod| is_there(pod) && !aim.is_of(&pod.annotations));
    if updated >= wanted && ready >= wanted && replicas <= updated && outdated.is_none() {
        return Readiness::Ready;
    }
    let mut message = if updated >= wanted && replicas > updated {
        format!("{} old pods are not gone yet", replicas - updated)
    } else if let Some(pod) = outdated.filter(|_| updated >= wanted && ready >= wanted) {
        format!("pod {} is of another version", pod.name)
    } else {
        format!("{} of {wanted} pods are ready", ready.min(updated))
    };
    let current = pods().filter(|pod| aim.is_of(&pod.annotations));
    if let Some(problem) = describe_problems(current) {
        message.push_str("; ");
        message.push_str(&problem);
    }
    Readiness::NotReady(message)
}

fn daemon_set(observed: &Observed<'_>, aim: &Aim, live: &Live, value: &Value) -> Readiness {
    let roll = Roll::of(observed, aim, live, value);
    if figure(value, "/status/desiredNumberScheduled") == 0 {
        return Readiness::Noted(format!("no node is eligible for {}", live.id));
    }
    if roll.outdated.is_empty() && roll.ready.len() >= roll.eligible {
        return match roll.down.as_slice() {
            [] => Readiness::Ready,
            down => Readiness::Noted(format!(
                "{} is not ready on nodes that are down: {}",
                live.id,
                down.join(", ")
            )),
        };
    }
    let mut message = format!(
        "{} of {} pods are updated and ready",
        roll.ready.len(),
        roll.eligible
    );
    if let Some(problem) = describe_problems(roll.updated.iter().copied()) {
        message.push_str("; ");
        message.push_str(&problem);
    }
    Readiness::NotReady(message)
}

/// How far a DaemonSet's pods have come.
pub(super) struct Roll<'a> {
    /// How many nodes that are up should have a pod.
    pub(super) eligible: usize,
    /// Pods of what is wanted now.
    pub(super) updated: Vec<&'a Pod>,
    /// Those that are ready.
    pub(super) ready: Vec<&'a Pod>,
    /// Pods of what was wanted before, on nodes that are up.
    pub(super) outdated: Vec<&'a Pod>,
    /// Nodes that are down and whose pods are not counted.
    pub(super) down: Vec<&'a str>,
}

impl<'a> Roll<'a> {
    pub(super) fn of(observed: &Observed<'a>, aim: &Aim, live: &Live, value: &Value) -> Self {
        let pods: Vec<&Pod> = pods(observed, &live.id).collect();
        let is_down = |pod: &Pod| {
            let node = observed
                .nodes
                .iter()
                .find(|node| pod.node.as_deref() == Some(&*node.name));
            node.is_some_and(|node| !node.ready)
        };
        let scheduled = figure(value, "/status/updatedNumberScheduled");
        let any_updated = scheduled > 0;
        let newest = newest_revision(&pods, |pod| aim.is_of(&pod.annotations), scheduled);
        let is_updated = |pod: &'a Pod| {
            aim.is_of(&pod.annotations)
                && any_updated
                && (newest.is_none() || revision(pod) == newest)
        };
        let is_lost = |pod: &'a Pod| is_down(pod) && !(is_updated(pod) && pod.ready);
        let (lost, counted): (Vec<&'a Pod>, Vec<&'a Pod>) =
            pods.into_iter().partition(|pod| is_lost(pod));
        let desired = figure(value, "/status/desiredNumberScheduled");
        let desired = usize::try_from(desired).unwrap_or_default();
        let (updated, outdated): (Vec<&Pod>, Vec<&Pod>) =
            counted.into_iter().partition(|pod| is_updated(pod));
        let ready = updated.iter().filter(|pod| pod.ready && !pod.deleting);
        Self {
            eligible: desired.saturating_sub(lost.len()),
            ready: ready.copied().collect(),
            updated,
            outdated,
            down: lost.iter().filter_map(|pod| pod.node.as_deref()).collect(),
        }
    }
}

/// The newest revision of a DaemonSet's pods: that of the newest pod of the wanted version.
/// Creation times are whole seconds: among pods of the same second, the revision with as many pods
/// as the DaemonSet reports is the newest.
fn newest_revision<'a>(
    pods: &[&'a Pod],
    is_wanted: impl Fn(&Pod) -> bool,
    scheduled: i64,
) -> Option<&'a String> {
    let mut counts: BTreeMap<_, i64> = BTreeMap::new();
    for pod in pods {
        *counts.entry(revision(pod)).or_default() += 1;
    }
    let wanted = pods.iter().filter(|pod| is_wanted(pod));
    let newest = wanted.max_by_key(|pod| {
        let is_as_reported = counts.get(&revision(pod)) == Some(&scheduled);
        (pod.created.as_ref().map(|at| at.0), is_as_reported)
    });
    newest.and_then(|pod| revision(pod))
}

fn revision(pod: &Pod) -> Option<&String> {
    pod.labels.get("controller-revision-hash")
}

/// The pods of a component. Those of a Deployment are a ReplicaSet's, which has its name and the
/// hash of a template.
pub(super) fn pods<'a>(
    observed: &Observed<'a>,
    id: &Id,
) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let id = id.clone();
    observed.pods.iter().filter(move |pod| {
        let Some((kind, owner)) = &pod.owner else {
            return false;
        };
        match (&*id.kind, kind.as_str()) {
            ("Deployment", "ReplicaSet") => owner
                .strip_prefix(&*id.name)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|hash| !hash.contains('-')),
            (kind, owner_kind) => kind == owner_kind && **owner == *id.name,
        }
    })
}

fn is_there(pod: &Pod) -> bool {
    pod.phase == "Running" && !pod.deleting
}

/// Whether a pod's containers end again and again. One that ended once and runs now does not.
pub(super) fn is_crash_looping(pod: &Pod) -> bool {
    let reason = pod.problem.as_ref().map(|problem| problem.reason.as_str());
    let backs_off = reason == Some("CrashLoopBackOff") && pod.restarts > 1;
    !pod.ready && !pod.deleting && (pod.restarts >= RESTARTS || backs_off)
}

/// What is known of why pods are not ready: of the first of them, and how many there are.
pub(super) fn describe_problems<'a>(pods: impl Iterator<Item = &'a Pod>) -> Option<String> {
    let unready: Vec<&Pod> = pods.filter(|pod| !pod.ready && !pod.deleting).collect();
    let with_problem = unready.iter().filter(|pod| pod.problem.is_some());
    let mut with_problem: Vec<&&Pod> = with_problem.collect();
    if with_problem.is_empty() {
        let not_ready = unready.iter().filter(|pod| pod.not_ready.is_some());
        with_problem.extend(not_ready);
    }
    with_problem.sort_by(|one, other| one.name.cmp(&other.name));
    let first = with_problem.first()?;
    let mut text = describe_problem(first);
    if with_problem.len() > 1 {
        let _ = write!(text, ", and {} more pods", with_problem.len() - 1);
    }
    Some(text)
}

/// What is known of a pod that is not ready, in the words of who knows.
pub(super) fn describe_problem(pod: &Pod) -> String {
    let mut text = format!("pod {}", pod.name);
    if let Some(node) = &pod.node {
        let _ = write!(text, " on node {node}");
    }
    if let Some(problem) = &pod.problem {
        if let Some(container) = &problem.container {
            let _ = write!(text, ", container {container}");
        }
        let _ = write!(text, ": {}", problem.reason);
        if !problem.message.is_empty() {
            let _ = write!(text, ": {}", problem.message);
        }
    } else if let Some(why) = &pod.not_ready {
        let _ = write!(text, ": {why}");
    } else {
        text.push_str(" is not ready");
    }
    if let Some(created) = &pod.created {
        let _ = write!(text, " (since {})", created.0);
    }
    text
}

pub(super) fn figure(value: &Value, pointer: &str) -> i64 {
    value
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_is_found_among_pods_of_one_second() {
        let pod = |name: &str, revision: &str, version: &str| Pod {
            name: name.to_owned(),
            labels: [("controller-revision-hash".to_owned(), revision.to_owned())].into(),
            annotations: [("version".to_owned(), version.to_owned())].into(),
            ..Pod::default()
        };
        let old = [pod("a", "1", "old"), pod("z", "1", "old")];
        let before = [pod("b", "2", "new"), pod("y", "2", "new")];
        let newest = pod("c", "3", "new");
        let is_wanted = |pod: &Pod| pod.annotations["version"] == "new";
        let [first, last] = &before;
        for pods in [
            vec![&old[0], &newest, &old[1]],
            vec![first, &newest, last],
            vec![first, last, &newest],
            vec![&newest, first, last],
        ] {
            let found = newest_revision(&pods, is_wanted, 1);
            assert_eq!(found.map(String::as_str), Some("3"));
        }
    }
}
