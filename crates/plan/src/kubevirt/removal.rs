//! How KubeVirt goes: virtual machines first, while those that look after them still run, then the
//! definitions, the components, everything else that was made, and the resource's finalizer last.
//!
//! It needs no strategy: what was made is told by its labels. Webhooks that nobody answers go before
//! anything else, since they would stand in the way of it, and so would API services that nobody
//! answers, for a namespace that is being deleted as well. What does not go is named, with what holds
//! it.

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    action::{Action, Plan},
    object::{Id, Live},
    observed::Observed,
    order,
    ready::figure,
    stages::{
        self, Outcome, Stage, going, is_component, is_definition, is_ours, is_strategy, later,
        stage_of,
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

/// Labels on nodes that virt-handler makes.
const NODE_LABELS: &str = "kubevirt.io/";

const ORDER: [Stage; 6] = [
    Stage::UnansweredEndpoints,
    Stage::Workloads,
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
    for next in ORDER {
        outcome = removal.look(next);
        // Nothing may be taken for gone that is only not seen.
        let is_last = next == Stage::Leftovers;
        if let Some(why) = observed.served.blind(!is_last) {
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
        return Plan {
            stage,
            steps: outcome.steps,
            ..Plan::default()
        };
    }
    let trouble = removal.trouble(stage, &mut outcome);
    let mut draft = Draft::of(kubevirt, now);
    draft.deletes(stage, trouble.as_deref());
    let status = draft.finished();
    Plan {
        stage,
        stalled: trouble.is_some(),
        events: tell::events(kubevirt.status.as_ref(), status.as_ref()),
        status,
        steps: outcome.steps,
        waits: outcome.waits,
        look_again: outcome.look_again,
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
        outcome
    }

    fn trouble(&self, stage: Stage, outcome: &mut Outcome) -> Option<String> {
        if let Some(refusal) = outcome.refusals.first().or(outcome.failure.as_ref()) {
            return Some(refusal.clone());
        }
        if outcome.waits.is_empty() {
            return None;
        }
        let since = status::since(self.observed.kubevirt, stage, self.now);
        let deadline = later(&since, stage.deadline());
        if self.now.0 < deadline.0 {
            outcome.look_again(deadline);
            return None;
        }
        let stuck = outcome.waits.iter().take(MOST);
        let stuck = stuck.map(|wait| format!("{} {}", wait.id, wait.message));
        let stuck: Vec<String> = stuck.collect();
        Some(format!(
            "{} since {}: {}",
            stage.reason(),
            since.0,
            stuck.join("; ")
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
        let strategy = self.observed.kubevirt.spec.uninstall_strategy.as_deref();
        let blocks = strategy == Some("BlockUninstallIfWorkloadsExist");
        for definitions in [OWNERS.as_slice(), INSTANCES.as_slice()] {
            for name in definitions {
                self.empty(name, blocks, outcome);
            }
            if outcome.is_under_way() && !blocks {
                return;
            }
        }
    }

    /// Sees to it that a definition has no objects.
    fn empty(&self, name: &str, blocks: bool, outcome: &mut Outcome) {
        let id = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let Some(live) = self.observed.objects.get(&id).filter(|live| is_ours(live)) else {
            return;
        };
        let counted = self.observed.counts.get(name);
        let Some(count) =
            counted.filter(|count| count.objects == 0 || later(&count.at, AGAIN).0 > self.now.0)
        else {
            let action = Action::Count {
                definition: name.to_owned(),
            };
            outcome.step(action, "components stay until no virtual machine is left");
            return;
        };
        if count.objects == 0 {
            return;
        }
        let names = count.names.join(", ");
        if blocks {
            outcome.failure = Some(format!(
                "there are objects of {name}: {names}. Delete them, or set spec.uninstallStrategy \
                 to RemoveWorkloads"
            ));
        } else if !count.deleting && !live.deleting {
            let action = Action::DeleteAll {
                definition: name.to_owned(),
            };
            outcome.step(
                action,
                "virtual machines go while components look after them",
            );
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
        outcome.look_again(later(&count.at, AGAIN));
    }

    /// Definitions are held together until none of them has objects, so that components which look
    /// after the last objects still find all of them.
    fn definitions(&self, outcome: &mut Outcome) {
        let all: Vec<&Live> = self.made().filter(|live| is_definition(&live.id)).collect();
        let is_held = |live: &Live| {
            let mut finalizers = live.finalizers.iter();
            finalizers.any(|finalizer| finalizer == install::DEFINITION_FINALIZER)
        };
        for live in all.iter().filter(|live| !is_held(live) && !live.deleting) {
            let mut finalizers = live.finalizers.clone();
            finalizers.push(install::DEFINITION_FINALIZER.to_owned());
            let reason = "it stays until no definition has objects";
            outcome.step(finalizers_of(live, &finalizers), reason);
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
                let others = live.finalizers.iter();
                let others = others.filter(|name| *name != install::DEFINITION_FINALIZER);
                let others: Vec<String> = others.cloned().collect();
                outcome.step(finalizers_of(live, &others), "no definition has objects");
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

    fn leftovers(&self, outcome: &mut Outcome) {
        for node in self.observed.nodes {
            let labels = node.labels.keys();
            let ours: serde_json::Map<String, Value> = labels
                .filter(|label| label.starts_with(NODE_LABELS))
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

fn finalizers_of(live: &Live, finalizers: &[String]) -> Action {
    Action::Patch {
        id: live.id.clone(),
        version: live.version.to_string(),
        patch: json!({"metadata": {
            "resourceVersion": &*live.resource_version, "finalizers": finalizers,
        }}),
    }
}

/// Why a definition that is being deleted is not said to be empty.
fn not_empty(live: &Live) -> Option<String> {
    let value = live.value();
    let conditions = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let terminating = conditions.find(|condition| condition["type"] == "Terminating");
    let Some(terminating) = terminating else {
        return Some("is being deleted, and nobody has looked at its objects yet".to_owned());
    };
    if terminating["reason"] == "InstanceDeletionCompleted" {
        return None;
    }
    let words = terminating["message"].as_str().unwrap_or_default();
    Some(format!("is being deleted: {words}"))
}
