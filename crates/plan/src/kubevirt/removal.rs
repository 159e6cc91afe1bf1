//! How KubeVirt goes: virtual machines first, while those that look after them still run, then the
//! definitions, the components, everything else that was made, and the resource's finalizer last.
//!
//! It needs no strategy: what was made is told by its labels. Webhooks that nobody answers go before
//! anything else, since they would stand in the way of it, and so would API services that nobody
//! answers, for a namespace that is being deleted as well. Where virtual machines block the removal,
//! nothing is touched before there are none. What does not go is named, with what holds it.

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    action::{Action, Plan},
    admission,
    object::{Id, Live},
    observed::{Observed, Pod},
    order, progress,
    ready::figure,
    stages::{
        self, FRESH, Outcome, Stage, going, hold, is_component, is_definition, is_held, is_ours,
        is_strategy, later, let_go, not_empty, stage_of,
    },
    status::{self, Draft},
    tell,
};

/// Definitions of what virtual machines are made by. They go first, or they would make others.
const OWNERS: [&str; 3] = [
    "virtualmachinepools.pool.kubevirt.io",
    "virtualmachineinstancereplicasets.kubevirt.io",
    "virtualmachines.kubevirt.io",
];

/// Definitions of what runs.
const INSTANCES: [&str; 2] = [
    "virtualmachineinstancemigrations.kubevirt.io",
    "virtualmachineinstances.kubevirt.io",
];

/// How often what is left of a definition's objects is counted.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Webhooks that nobody answers stand in the way of deleting virtual machines.
const REMOVING: [Stage; 2] = [Stage::UnansweredEndpoints, Stage::Workloads];

/// What virtual machines may need is not touched before there are none.
const BLOCKING: [Stage; 2] = [Stage::Workloads, Stage::UnansweredEndpoints];

const AFTER: [Stage; 4] = [
    Stage::Undefining,
    Stage::Components,
    Stage::Remains,
    Stage::Leftovers,
];

/// The plan for a resource that is being deleted.
pub(super) fn plan(observed: &Observed<'_>, now: &Time) -> Plan {
    let kubevirt = observed.kubevirt;
    let removal = Removal { observed, now };
    let mut stage = Stage::Deleted;
    let mut outcome = Outcome::default();
    let first = if admission::blocks(kubevirt) {
        BLOCKING
    } else {
        REMOVING
    };
    for next in first.into_iter().chain(AFTER) {
        outcome = removal.look(next);
        // Nothing may be taken for gone that is only not seen.
        let is_last = next == Stage::Leftovers;
        if let Some(why) = observed.served.unreadable_kind(!is_last) {
            outcome = Outcome {
                failure: Some(why),
                ..Outcome::default()
            };
        }
        if outcome.is_under_way() {
            stage = next;
            break;
        }
    }
    let is_told = kubevirt.status.as_ref().and_then(|status| status.phase)
        == Some(install::InstallPhase::Deleted);
    // What the status says last is that nothing is left; nobody could read it afterwards.
    if stage == Stage::Deleted && is_told {
        order::release(kubevirt, "nothing is left", &mut outcome);
        stages::sift(observed, now, &mut outcome);
        if outcome.refusals.is_empty() {
            return Plan {
                stage,
                steps: outcome.steps,
                waits: outcome.waits,
                requeue_at: outcome.requeue_at,
                ..Plan::default()
            };
        }
    }
    // Components run until virtual machines are gone, and that may take days.
    if matches!(stage, Stage::Workloads | Stage::Undefining) {
        order::certificates(observed, now, &mut outcome);
    }
    let problem = removal.problem(stage, &mut outcome);
    let mut draft = Draft::of(kubevirt, now);
    let waits_for = progress::waits_for(observed, stage, now, &mut outcome);
    draft.deletes(stage, waits_for.as_deref(), problem.as_deref());
    let status = draft.finished();
    Plan {
        stage,
        stalled: problem.is_some(),
        events: tell::events(kubevirt.status.as_ref(), status.as_ref()),
        status,
        steps: outcome.steps,
        waits: outcome.waits,
        notes: outcome.notes,
        requeue_at: outcome.requeue_at,
    }
}

struct Removal<'a> {
    observed: &'a Observed<'a>,
    now: &'a Time,
}

impl<'a> Removal<'a> {
    fn look(&self, stage: Stage) -> Outcome {
        let mut outcome = Outcome::default();
        match stage {
            Stage::UnansweredEndpoints => self.endpoints(&mut outcome),
            Stage::Workloads => self.workloads(&mut outcome),
            Stage::Undefining => self.definitions(&mut outcome),
            Stage::Components => self.components(&mut outcome),
            Stage::Remains => self.remains(&mut outcome),
            _ => self.leftovers(&mut outcome),
        }
        stages::sift(self.observed, self.now, &mut outcome);
        outcome
    }

    fn problem(&self, stage: Stage, outcome: &mut Outcome) -> Option<String> {
        if let Some(refusal) = outcome.refusals.first().or(outcome.failure.as_ref()) {
            return Some(refusal.clone());
        }
        if outcome.waits.is_empty() {
            return None;
        }
        let since = status::since(self.observed.kubevirt, stage, self.now);
        let deadline = later(&since, stage.deadline(self.observed.operator.speed));
        if self.now.0 < deadline.0 {
            outcome.requeue_at(deadline);
            return None;
        }
        Some(format!(
            "{} since {}: {}",
            stage.reason(),
            since.0,
            progress::causes(&outcome.waits, MOST)
        ))
    }

    /// Everything that was made.
    fn made(&self) -> impl Iterator<Item = &'a Live> {
        let all = self.observed.objects.values();
        all.filter(|live| is_ours(live) && !is_strategy(live))
    }

    fn endpoints(&self, outcome: &mut Outcome) {
        if self.is_api_ready() {
            return;
        }
        let endpoints = self
            .made()
            .filter(|live| stage_of(&live.id, &[]) == Stage::Endpoints && !live.deleting);
        for live in endpoints {
            self.delete(
                live,
                "nobody answers it, and it would stand in the way",
                outcome,
            );
        }
    }

    /// Whether there is a virt-api that answers.
    fn is_api_ready(&self) -> bool {
        let namespace = &self.observed.operator.namespace;
        let id = Id::new("apps", "Deployment", namespace, "virt-api");
        let live = self.observed.objects.get(&id).filter(|live| !live.deleting);
        live.is_some_and(|live| figure(&live.value(), "/status/readyReplicas") > 0)
    }

    fn workloads(&self, outcome: &mut Outcome) {
        if admission::blocks(self.observed.kubevirt) {
            for (_, plural) in admission::BLOCKERS {
                self.empty(&format!("{plural}.kubevirt.io"), true, outcome);
            }
            return;
        }
        for name in OWNERS {
            self.empty(name, false, outcome);
        }
        let mut instances = Outcome::default();
        for name in INSTANCES {
            self.empty(name, false, &mut instances);
        }
        if outcome.is_under_way() {
            // They would be made anew, so that nothing is done about them but to say how they are.
            outcome.waits.append(&mut instances.waits);
        } else {
            outcome.join(instances);
        }
    }

    /// Sees to it that a definition has no objects.
    fn empty(&self, name: &str, blocks: bool, outcome: &mut Outcome) {
        let id = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let Some(live) = self.observed.objects.get(&id).filter(|live| is_ours(live)) else {
            return;
        };
        let count = self.observed.counts.get(name);
        let is_fresh = count.is_some_and(|count| {
            let is_final = count.objects == 0 && live.deleting;
            let lasts = if count.objects == 0 { FRESH } else { AGAIN };
            is_final || later(&count.at, lasts).0 > self.now.0
        });
        if !is_fresh {
            let action = Action::Count {
                definition: name.to_owned(),
            };
            outcome.step(action, "components stay until no virtual machine is left");
        }
        // What was counted last is told until it is counted anew.
        let Some(count) = count.filter(|count| count.objects > 0) else {
            return;
        };
        let names = count.names.join(", ");
        if blocks {
            outcome.failure = Some(format!(
                "there are objects of {name}: {names}. Delete them, or set spec.uninstallStrategy \
                 to RemoveWorkloads"
            ));
        } else if !count.deleting && !live.deleting {
            if is_fresh {
                let action = Action::DeleteAll {
                    definition: name.to_owned(),
                };
                outcome.step(
                    action,
                    "virtual machines go while components look after them",
                );
            }
        } else {
            let held: Vec<&str> = count.finalizers.iter().map(String::as_str).collect();
            let held = if held.is_empty() {
                String::new()
            } else {
                format!(", held by {}", held.join(", "))
            };
            outcome.wait(
                &id,
                format!("has objects that are being deleted: {names}{held}"),
            );
        }
        if is_fresh {
            outcome.requeue_at(later(&count.at, AGAIN));
        }
    }

    /// Definitions are held together until none of them has objects, so that components which look
    /// after the last objects still find all of them.
    fn definitions(&self, outcome: &mut Outcome) {
        let all: Vec<&Live> = self.made().filter(|live| is_definition(&live.id)).collect();
        for live in all.iter().filter(|live| !is_held(live) && !live.deleting) {
            outcome.step(hold(live), "it stays until no definition has objects");
        }
        if outcome.is_under_way() {
            return;
        }
        for live in all.iter().filter(|live| !live.deleting) {
            self.delete(live, "KubeVirt is removed", outcome);
        }
        if outcome.is_under_way() {
            return;
        }
        for (live, message) in all.iter().filter_map(|live| Some((live, not_empty(live)?))) {
            outcome.wait(&live.id, message);
        }
        if outcome.is_under_way() {
            return;
        }
        for live in &all {
            if is_held(live) {
                outcome.step(let_go(live), "no definition has objects");
            } else {
                outcome.wait(&live.id, going(live));
            }
        }
    }

    fn components(&self, outcome: &mut Outcome) {
        let is_part = |id: &Id| is_component(id) || id.is("policy", "PodDisruptionBudget");
        let mut parts: Vec<&Live> = self.made().filter(|live| is_part(&live.id)).collect();
        parts.sort_by_key(|live| (rank(&live.id), &live.id));
        for live in parts {
            self.delete(live, "KubeVirt is removed", outcome);
        }
    }

    fn remains(&self, outcome: &mut Outcome) {
        let mut remains: Vec<&Live> = self.made().collect();
        remains.sort_by_key(|live| (rank(&live.id), &live.id));
        for live in remains {
            self.delete(live, "KubeVirt is removed", outcome);
        }
    }

    /// Pods that still run after what they are of is gone: those that are being deleted, since others
    /// may be of a component that is not ours any more. Those on nodes that are down do nothing.
    fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        let is_down = |pod: &Pod| {
            let mut nodes = self.observed.nodes.iter();
            let node = nodes.find(|node| pod.node.as_deref() == Some(&*node.name));
            pod.node.is_some() && node.is_none_or(|node| !node.ready)
        };
        self.observed.pods.iter().filter(move |pod| {
            let owner = pod.owner.as_ref().map(|(kind, _)| kind.as_str());
            let is_component = matches!(owner, Some("ReplicaSet" | "DaemonSet"))
                && pod.annotations.contains_key(install::STRATEGY_VERSION);
            let has_ended = matches!(&*pod.phase, "Succeeded" | "Failed");
            is_component && pod.deleting && !has_ended && !is_down(pod)
        })
    }

    fn leftovers(&self, outcome: &mut Outcome) {
        // A virt-handler that still runs would make its labels anew.
        for pod in self.pods() {
            let id = Id::new("", "Pod", &self.observed.operator.namespace, &pod.name);
            outcome.wait(&id, "still runs");
        }
        if outcome.is_under_way() {
            return;
        }
        for node in self.observed.nodes {
            let labels = node.labels.keys();
            let ours: serde_json::Map<String, Value> = labels
                .filter(|label| is_node_label(label))
                .map(|label| (label.clone(), Value::Null))
                .collect();
            if ours.is_empty() {
                continue;
            }
            let action = Action::Patch {
                id: Id::new("", "Node", "", &node.name),
                version: "v1".to_owned(),
                patch: json!({"metadata": {"labels": ours}}),
            };
            outcome.step(action, "virt-handler made these labels");
        }
        if let Some(action) = stages::without_privileges(self.observed) {
            outcome.step(action, "there are no components any more");
        }
        let all = self.observed.objects.values();
        for live in all.filter(|live| is_strategy(live) && live.is_managed()) {
            self.delete(live, "KubeVirt is removed", outcome);
        }
    }

    fn delete(&self, live: &Live, reason: &str, outcome: &mut Outcome) {
        stages::delete(self.observed, self.now, live, reason, outcome);
    }
}

/// Whether virt-handler makes this label on nodes.
fn is_node_label(label: &str) -> bool {
    let prefix = label.split_once('/').map(|(prefix, _)| prefix);
    prefix.is_some_and(|prefix| prefix == "kubevirt.io" || prefix.ends_with(".node.kubevirt.io"))
}

/// How many objects are named in a sentence.
const MOST: usize = 5;

/// In which order kinds go.
fn rank(id: &Id) -> usize {
    const KINDS: [&str; 20] = [
        "DaemonSet",
        "PodDisruptionBudget",
        "Deployment",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "APIService",
        "Service",
        "ServiceMonitor",
        "PrometheusRule",
        "ClusterRoleBinding",
        "ClusterRole",
        "RoleBinding",
        "Role",
        "ServiceAccount",
        "Secret",
        "ConfigMap",
        "SecurityContextConstraints",
        "Route",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
    ];
    let found = KINDS.iter().position(|kind| *kind == &*id.kind);
    found.unwrap_or(KINDS.len())
}
