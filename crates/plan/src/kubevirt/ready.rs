//! Readiness of components, with the known cause if they are not ready.
//!
//! A component's status counts once it is about the current generation. Pods are matched by their
//! owner. Nodes that are down are not waited for. A DaemonSet without eligible nodes is ready.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::{
    object::{Id, Live},
    observed::{Observed, Pod, PodPhase},
    rollback::RolloutTarget,
    stages::{StageContext, StageOutcome},
};

/// Number of restarts that count as a crash loop.
const CRASH_LOOP_RESTARTS: i64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// Ready, with a warning.
    Noted(String),
    NotReady(NotReady),
}

/// Why a component is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotReady {
    message: String,
    /// Whether the message names a pod's problem.
    has_pod_problem: bool,
}

impl NotReady {
    /// Adds a wait for the component; `context` precedes the message.
    pub(super) fn add_to(&self, id: &Id, context: Option<&str>, outcome: &mut StageOutcome) {
        let message = match context {
            Some(context) => format!("{context}: {}", self.message),
            None => self.message.clone(),
        };
        if self.has_pod_problem {
            outcome.wait_blocked(id, message);
        } else {
            outcome.wait(id, message);
        }
    }
}

impl Readiness {
    fn not_ready(message: &str) -> Self {
        Self::not_ready_with(message.to_owned(), None)
    }

    /// With the problem of a pod, if there is one.
    fn not_ready_with(mut message: String, problem: Option<String>) -> Self {
        let has_pod_problem = problem.is_some();
        if let Some(problem) = problem {
            message.push_str("; ");
            message.push_str(&problem);
        }
        Self::NotReady(NotReady {
            message,
            has_pod_problem,
        })
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Noted(_))
    }
}

pub(super) fn component(context: &StageContext<'_>, id: &Id) -> Readiness {
    readiness(context.observed, context.target, id)
}

fn readiness(observed: &Observed<'_>, target: &RolloutTarget, id: &Id) -> Readiness {
    let Some(live) = observed.objects.get(id) else {
        return Readiness::not_ready("does not exist yet");
    };
    if !target.is_of(&live.annotations) {
        return Readiness::not_ready("is of another version");
    }
    let value = live.value();
    if number(&value, "/status/observedGeneration") < live.generation.unwrap_or_default() {
        return Readiness::not_ready(
            "was changed, and its controller has not observed the change yet",
        );
    }
    if id.is("apps", "DaemonSet") {
        daemon_set(observed, target, live, &value)
    } else {
        deployment(observed, target, live, &value)
    }
}

fn deployment(
    observed: &Observed<'_>,
    target: &RolloutTarget,
    live: &Live,
    value: &Value,
) -> Readiness {
    let wanted = value.pointer("/spec/replicas").and_then(Value::as_i64);
    let wanted = wanted.unwrap_or(1);
    if wanted == 0 {
        return Readiness::Noted(format!("{} has no replicas", live.id));
    }
    let replicas = number(value, "/status/replicas");
    let updated = number(value, "/status/updatedReplicas");
    let ready = number(value, "/status/readyReplicas");
    let pods = || pods(observed, &live.id);
    let outdated = pods().find(|pod| is_running(pod) && !target.is_of(&pod.annotations));
    if updated >= wanted && ready >= wanted && replicas <= updated && outdated.is_none() {
        return Readiness::Ready;
    }
    let message = if updated >= wanted && replicas > updated {
        format!("{} old pods are still running", replicas - updated)
    } else if let Some(pod) = outdated.filter(|_| updated >= wanted && ready >= wanted) {
        format!("pod {} is of another version", pod.name)
    } else {
        format!("{} of {wanted} pods are ready", ready.min(updated))
    };
    let current = pods().filter(|pod| target.is_of(&pod.annotations));
    Readiness::not_ready_with(message, describe_problems(current))
}

fn daemon_set(
    observed: &Observed<'_>,
    target: &RolloutTarget,
    live: &Live,
    value: &Value,
) -> Readiness {
    let rollout = DaemonSetRollout::of(observed, target, live, value);
    if number(value, "/status/desiredNumberScheduled") == 0 {
        return Readiness::Noted(format!("no node is eligible for {}", live.id));
    }
    if rollout.outdated.is_empty() && rollout.ready.len() >= rollout.eligible {
        return match rollout.down.as_slice() {
            [] => Readiness::Ready,
            down => Readiness::Noted(format!(
                "{} is not ready on nodes that are down: {}",
                live.id,
                down.join(", ")
            )),
        };
    }
    let message = format!(
        "{} of {} pods are updated and ready",
        rollout.ready.len(),
        rollout.eligible
    );
    Readiness::not_ready_with(message, describe_problems(rollout.updated.iter().copied()))
}

/// Pods of a DaemonSet by their state in a rollout.
pub(super) struct DaemonSetRollout<'a> {
    /// Number of nodes that are up and should have a pod.
    pub(super) eligible: usize,
    /// Pods of the current revision.
    pub(super) updated: Vec<&'a Pod>,
    /// Updated pods that are ready.
    pub(super) ready: Vec<&'a Pod>,
    /// Pods of older revisions, on nodes that are up.
    pub(super) outdated: Vec<&'a Pod>,
    /// Nodes that are down, whose pods do not count.
    pub(super) down: Vec<&'a str>,
}

impl<'a> DaemonSetRollout<'a> {
    pub(super) fn of(
        observed: &Observed<'a>,
        target: &RolloutTarget,
        live: &Live,
        value: &Value,
    ) -> Self {
        let pods: Vec<&Pod> = pods(observed, &live.id).collect();
        let is_down = |pod: &Pod| {
            let node = observed
                .nodes
                .iter()
                .find(|node| pod.node.as_deref() == Some(&*node.name));
            node.is_some_and(|node| !node.ready)
        };
        let scheduled = number(value, "/status/updatedNumberScheduled");
        let any_updated = scheduled > 0;
        let newest = newest_revision(&pods, |pod| target.is_of(&pod.annotations), scheduled);
        let is_updated = |pod: &'a Pod| {
            target.is_of(&pod.annotations)
                && any_updated
                && (newest.is_none() || revision(pod) == newest)
        };
        let is_lost = |pod: &'a Pod| is_down(pod) && !(is_updated(pod) && pod.ready);
        let (lost, counted): (Vec<&'a Pod>, Vec<&'a Pod>) =
            pods.into_iter().partition(|pod| is_lost(pod));
        let desired = number(value, "/status/desiredNumberScheduled");
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

/// The newest revision of a DaemonSet's pods: that of the newest pod of the target version. Creation
/// times are whole seconds: among pods of the same second, the revision with as many pods as the
/// DaemonSet reports is the newest.
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

/// The pods of a component. Those of a Deployment belong to a ReplicaSet, whose name is the
/// Deployment's with a template hash.
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

fn is_running(pod: &Pod) -> bool {
    pod.phase == PodPhase::Running && !pod.deleting
}

/// Whether a pod's containers crash repeatedly. A single restart does not count.
pub(super) fn is_crash_looping(pod: &Pod) -> bool {
    let reason = pod.problem.as_ref().map(|problem| problem.reason.as_str());
    let backs_off = reason == Some("CrashLoopBackOff") && pod.restarts > 1;
    !pod.ready && !pod.deleting && (pod.restarts >= CRASH_LOOP_RESTARTS || backs_off)
}

/// The problem of the first pod that is not ready, and the number of the others.
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

/// The problem of a pod that is not ready, as the scheduler or the kubelet reports it.
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
    } else if let Some(message) = &pod.not_ready {
        let _ = write!(text, ": {message}");
    } else {
        text.push_str(" is not ready");
    }
    if let Some(created) = &pod.created {
        let _ = write!(text, " (since {})", created.0);
    }
    text
}

pub(super) fn number(value: &Value, pointer: &str) -> i64 {
    value
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_newest_revision_among_pods_of_one_second() {
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
