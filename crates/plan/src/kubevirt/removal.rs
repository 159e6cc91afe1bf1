//! Removal of an installation: virtual machines first, while the components still run, then the
//! definitions, the components, all other objects, and the finalizer of the resource last.
//!
//! The removal needs no install strategy: labels identify the objects. Webhooks and APIServices
//! without a server are removed first, because they would block the other deletions and that of the
//! namespace. If the resource protects virtual machines, nothing is removed while there are any. The
//! status names what is not removed and the finalizers that keep it.

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    action::{Action, Plan},
    admission,
    caches::PlanCaches,
    events::{self, Details},
    object::{Id, Live},
    observed::{Observed, Pod, PodPhase},
    progress,
    ready::number,
    rollout,
    stages::{
        self, COUNT_MAX_AGE, Stage, StageOutcome, add_definition_finalizer, describe_remaining,
        has_definition_finalizer, is_component, is_definition, is_owned, is_strategy, later,
        remove_definition_finalizer, stage_of,
    },
    status::{self, REMOVAL, StatusDraft},
};

/// Definitions of owners of virtual machines. They are emptied first: they would recreate their
/// virtual machines.
const OWNERS: [&str; 3] = [
    "virtualmachinepools.pool.kubevirt.io",
    "virtualmachineinstancereplicasets.kubevirt.io",
    "virtualmachines.kubevirt.io",
];

/// Definitions of running workloads.
const INSTANCES: [&str; 2] = [
    "virtualmachineinstancemigrations.kubevirt.io",
    "virtualmachineinstances.kubevirt.io",
];

/// Interval at which the remaining objects of a definition are counted.
const RECOUNT_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// Webhooks without a server block the deletion of virtual machines.
const REMOVING: [Stage; 2] = [Stage::UnansweredEndpoints, Stage::Workloads];

/// Nothing that virtual machines may need is removed while there are any.
const BLOCKING: [Stage; 2] = [Stage::Workloads, Stage::UnansweredEndpoints];

const AFTER: [Stage; 4] = [
    Stage::RemoveDefinitions,
    Stage::Components,
    Stage::Remains,
    Stage::Leftovers,
];

/// The plan for a resource that is being deleted.
pub(super) fn plan(observed: &Observed<'_>, now: &Time, caches: &mut PlanCaches) -> Plan {
    let kubevirt = observed.kubevirt;
    let removal = Removal { observed, now };
    let mut stage = Stage::Deleted;
    let mut outcome = StageOutcome::default();
    let first = if admission::blocks(kubevirt) {
        BLOCKING
    } else {
        REMOVING
    };
    for next in first.into_iter().chain(AFTER) {
        outcome = removal.evaluate(next);
        // Objects of a kind that cannot be read may still exist.
        let is_last = next == Stage::Leftovers;
        if let Some(failure) = observed.served.unreadable_kind(!is_last) {
            outcome = StageOutcome {
                failure: Some(failure),
                ..StageOutcome::default()
            };
        }
        if outcome.is_under_way() {
            stage = next;
            break;
        }
    }
    let is_reported = kubevirt.status.as_ref().and_then(|status| status.phase)
        == Some(install::InstallPhase::Deleted);
    // The status must report the phase Deleted before the resource goes away.
    if stage == Stage::Deleted && is_reported {
        rollout::remove_finalizer(kubevirt, "the installation has been removed", &mut outcome);
        stages::drop_refused(observed, now, &mut outcome);
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
    // The components run until all virtual machines are deleted, which may take days.
    if matches!(stage, Stage::Workloads | Stage::RemoveDefinitions) {
        rollout::renew_certificates(observed, now, caches, &mut outcome);
    }
    let problem = removal.problem(stage, &mut outcome);
    let mut draft = StatusDraft::of(kubevirt, now);
    let progress = progress::progress(observed, stage, now, REMOVAL, true, &mut outcome);
    let details = Details {
        is_blocked: progress
            .as_ref()
            .is_some_and(|progress| progress.is_blocked),
        ..Details::default()
    };
    let message = progress.map(|progress| progress.message);
    draft.report_removal(stage, message.as_deref(), problem.as_deref());
    let status = draft.into_change();
    Plan {
        stage,
        stalled: problem.is_some(),
        events: events::of_status_change(kubevirt.status.as_ref(), status.as_ref(), details),
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
    fn evaluate(&self, stage: Stage) -> StageOutcome {
        let mut outcome = StageOutcome::default();
        match stage {
            Stage::UnansweredEndpoints => self.endpoints(&mut outcome),
            Stage::Workloads => self.workloads(&mut outcome),
            Stage::RemoveDefinitions => self.definitions(&mut outcome),
            Stage::Components => self.components(&mut outcome),
            Stage::Remains => self.remains(&mut outcome),
            _ => self.leftovers(&mut outcome),
        }
        stages::drop_refused(self.observed, self.now, &mut outcome);
        outcome
    }

    fn problem(&self, stage: Stage, outcome: &mut StageOutcome) -> Option<String> {
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
            progress::causes(&outcome.waits, MAX_NAMED)
        ))
    }

    /// All objects of the installation but strategies.
    fn owned(&self) -> impl Iterator<Item = &'a Live> {
        let all = self.observed.objects.values();
        all.filter(|live| is_owned(live) && !is_strategy(live))
    }

    fn endpoints(&self, outcome: &mut StageOutcome) {
        if self.is_api_ready() {
            return;
        }
        let endpoints = self
            .owned()
            .filter(|live| stage_of(&live.id, &[]) == Stage::Endpoints && !live.deleting);
        for live in endpoints {
            self.delete(
                live,
                "it has no server, and would block the removal",
                outcome,
            );
        }
    }

    /// Whether a virt-api is ready.
    fn is_api_ready(&self) -> bool {
        let namespace = &self.observed.operator.namespace;
        let id = Id::new("apps", "Deployment", namespace, "virt-api");
        let live = self.observed.objects.get(&id).filter(|live| !live.deleting);
        live.is_some_and(|live| number(&live.value(), "/status/readyReplicas") > 0)
    }

    fn workloads(&self, outcome: &mut StageOutcome) {
        if admission::blocks(self.observed.kubevirt) {
            for (_, plural) in admission::BLOCKERS {
                self.empty(&format!("{plural}.kubevirt.io"), true, outcome);
            }
            return;
        }
        for name in OWNERS {
            self.empty(name, false, outcome);
        }
        let mut instances = StageOutcome::default();
        for name in INSTANCES {
            self.empty(name, false, &mut instances);
        }
        if outcome.is_under_way() {
            // Their owners would recreate them: only report them.
            outcome.waits.append(&mut instances.waits);
        } else {
            outcome.join(instances);
        }
    }

    /// Deletes the objects of a definition and waits until there are none.
    fn empty(&self, name: &str, blocks: bool, outcome: &mut StageOutcome) {
        let id = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let Some(live) = self.observed.objects.get(&id).filter(|live| is_owned(live)) else {
            return;
        };
        let count = self.observed.counts.get(name);
        let is_fresh = count.is_some_and(|count| {
            let is_final = count.objects == 0 && live.deleting;
            let lasts = if count.objects == 0 {
                COUNT_MAX_AGE
            } else {
                RECOUNT_INTERVAL
            };
            is_final || later(&count.at, lasts).0 > self.now.0
        });
        if !is_fresh {
            let action = Action::Count {
                definition: name.to_owned(),
            };
            outcome.step(
                action,
                "the components run until no virtual machine is left",
            );
        }
        // The last count is reported until the next one.
        let Some(count) = count.filter(|count| count.objects > 0) else {
            return;
        };
        let names = count.names.join(", ");
        if blocks {
            outcome.failure = Some(format!(
                "{name} has objects: {names}. Delete them, or set spec.uninstallStrategy to \
                 RemoveWorkloads"
            ));
        } else if !count.deleting && !live.deleting {
            if is_fresh {
                let action = Action::DeleteAll {
                    definition: name.to_owned(),
                };
                outcome.step(
                    action,
                    "virtual machines are deleted while the components run",
                );
            }
        } else {
            let message = format!("has objects that are being deleted: {names}");
            let finalizers: Vec<&str> = count.finalizers.iter().map(String::as_str).collect();
            if finalizers.is_empty() {
                outcome.wait(&id, message);
            } else {
                let finalizers = finalizers.join(", ");
                outcome.wait_blocked(
                    &id,
                    format!("{message}, blocked by finalizers {finalizers}"),
                );
            }
        }
        if is_fresh {
            outcome.requeue_at(later(&count.at, RECOUNT_INTERVAL));
        }
    }

    /// Deletes the definitions. A finalizer keeps all of them until none has objects, because the
    /// components need all of them to remove the last objects.
    fn definitions(&self, outcome: &mut StageOutcome) {
        let all: Vec<&Live> = self
            .owned()
            .filter(|live| is_definition(&live.id))
            .collect();
        for live in all
            .iter()
            .filter(|live| !has_definition_finalizer(live) && !live.deleting)
        {
            outcome.step(
                add_definition_finalizer(live),
                "the definition is kept until no definition has objects",
            );
        }
        if outcome.is_under_way() {
            return;
        }
        for live in all.iter().filter(|live| !live.deleting) {
            self.delete(live, "KubeVirt is being removed", outcome);
        }
        if outcome.is_under_way() {
            return;
        }
        for (live, message) in all
            .iter()
            .filter_map(|live| Some((live, describe_remaining(live)?)))
        {
            outcome.wait(&live.id, message);
        }
        if outcome.is_under_way() {
            return;
        }
        for live in &all {
            if has_definition_finalizer(live) {
                outcome.step(
                    remove_definition_finalizer(live),
                    "no definition has objects",
                );
            } else {
                outcome.wait_for_deletion(live);
            }
        }
    }

    fn components(&self, outcome: &mut StageOutcome) {
        let is_part = |id: &Id| is_component(id) || id.is("policy", "PodDisruptionBudget");
        let mut parts: Vec<&Live> = self.owned().filter(|live| is_part(&live.id)).collect();
        parts.sort_by_key(|live| (rank(&live.id), &live.id));
        for live in parts {
            self.delete(live, "KubeVirt is being removed", outcome);
        }
    }

    fn remains(&self, outcome: &mut StageOutcome) {
        let mut remains: Vec<&Live> = self.owned().collect();
        remains.sort_by_key(|live| (rank(&live.id), &live.id));
        for live in remains {
            self.delete(live, "KubeVirt is being removed", outcome);
        }
    }

    /// Component pods that are still being deleted. Others may belong to a component that the
    /// operator does not own any more. Pods on nodes that are down do not run.
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
            let has_ended = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
            is_component && pod.deleting && !has_ended && !is_down(pod)
        })
    }

    fn leftovers(&self, outcome: &mut StageOutcome) {
        // A running virt-handler would set its labels again.
        for pod in self.pods() {
            let id = Id::new("", "Pod", &self.observed.operator.namespace, &pod.name);
            outcome.wait(&id, "still runs");
        }
        if outcome.is_under_way() {
            return;
        }
        for node in self.observed.nodes {
            let labels = node.labels.keys();
            let removed: serde_json::Map<String, Value> = labels
                .filter(|label| is_node_label(label))
                .map(|label| (label.clone(), Value::Null))
                .collect();
            if removed.is_empty() {
                continue;
            }
            let action = Action::Patch {
                id: Id::new("", "Node", "", &node.name),
                version: "v1".to_owned(),
                patch: json!({"metadata": {"labels": removed}}),
            };
            outcome.step(action, "virt-handler set these labels");
        }
        if let Some(action) = stages::remove_privileged_users(self.observed) {
            outcome.step(action, "the components have been removed");
        }
        let all = self.observed.objects.values();
        for live in all.filter(|live| is_strategy(live) && live.is_managed()) {
            self.delete(live, "KubeVirt is being removed", outcome);
        }
    }

    fn delete(&self, live: &Live, reason: &str, outcome: &mut StageOutcome) {
        stages::delete(self.observed, self.now, live, reason, outcome);
    }
}

/// Whether virt-handler sets this label on nodes.
fn is_node_label(label: &str) -> bool {
    let prefix = label.split_once('/').map(|(prefix, _)| prefix);
    prefix.is_some_and(|prefix| prefix == "kubevirt.io" || prefix.ends_with(".node.kubevirt.io"))
}

/// Number of objects that a message names.
const MAX_NAMED: usize = 5;

/// Order in which kinds are deleted.
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
