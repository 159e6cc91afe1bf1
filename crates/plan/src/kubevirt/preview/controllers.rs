//! Simulation of the cluster's controllers, which always succeed at once: pods become ready,
//! definitions are served.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Rollout, journal::Journal};
use crate::{
    kubevirt::{
        object::{Fingerprint, Id, Live},
        observed::{Pod, PodPhase},
        placement::schedulable,
        preflight::tolerate_as_daemon,
        ready,
        simulation::{Executed, Simulation},
        stages::{is_component, is_definition, later},
    },
    simulation::Written,
};

/// Label with the revision of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// Controllers of workloads and definitions.
pub(super) struct Controllers<'a> {
    now: &'a Time,
    /// Number of created pods.
    pods: u32,
    /// Components whose pods do not match their template.
    changed: BTreeSet<Id>,
}

impl<'a> Controllers<'a> {
    pub(super) fn new(now: &'a Time) -> Self {
        Self {
            now,
            pods: 0,
            changed: BTreeSet::new(),
        }
    }

    /// Notes which components have another template.
    pub(super) fn on_write(&mut self, executed: &Executed) {
        let Executed::Object(written) = executed else {
            return;
        };
        let Written { id, before, after } = &**written;
        let Some(after) = after else {
            self.changed.remove(id);
            return;
        };
        let template = |live: &Live| live.value().pointer("/spec/template").cloned();
        if is_component(id) && before.as_ref().and_then(template) != template(after) {
            self.changed.insert(id.clone());
        }
    }

    /// Runs each controller once. Returns whether anything changed.
    pub(super) fn run(&mut self, simulation: &mut Simulation, journal: &mut Journal) -> bool {
        let ids = simulation.objects().keys();
        let ids: Vec<Id> = ids
            .filter(|id| is_component(id) || is_definition(id))
            .cloned()
            .collect();
        let mut has_changed = false;
        for id in ids {
            let Some(live) = simulation.objects().get(&id).cloned() else {
                continue;
            };
            has_changed |= if is_definition(&id) {
                definition(simulation, &live)
            } else if id.is("apps", "DaemonSet") {
                self.daemon_set(simulation, &live, journal)
            } else {
                self.deployment(simulation, &live, journal)
            };
        }
        has_changed | delete_orphaned_pods(simulation)
    }

    /// Replaces all pods at once: the operator only waits for the last one.
    fn deployment(
        &mut self,
        simulation: &mut Simulation,
        live: &Live,
        journal: &mut Journal,
    ) -> bool {
        let value = live.value();
        let replicas = value.pointer("/spec/replicas").and_then(Value::as_u64);
        let replicas = replicas.unwrap_or(1);
        if self.changed.remove(&live.id) {
            let before = simulation.pods.len();
            let own: Vec<String> = names(simulation, &live.id);
            simulation.pods.retain(|pod| !own.contains(&pod.name));
            journal.record_rollout(Rollout {
                id: live.id.clone(),
                pods: usize::try_from(replicas).unwrap_or(usize::MAX),
                replaced: before.saturating_sub(simulation.pods.len()),
                canary: false,
            });
        }
        let status = json!({
            "observedGeneration": live.generation,
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
        });
        simulation.report(&live.id, &status)
    }

    /// Replaces as many pods as maxUnavailable allows.
    fn daemon_set(
        &mut self,
        simulation: &mut Simulation,
        live: &Live,
        journal: &mut Journal,
    ) -> bool {
        let value = live.value();
        let template = value.pointer("/spec/template").cloned().unwrap_or_default();
        let mut pod = template.pointer("/spec").cloned().unwrap_or_default();
        tolerate_as_daemon(&mut pod);
        let nodes = schedulable(&pod, &simulation.nodes).into_iter();
        let nodes: Vec<String> = nodes.map(str::to_owned).collect();
        let revision = self.revision(simulation, live, &template);
        let is_new = |pod: &Pod| pod.labels.get(REVISION) == Some(&revision);
        let own = names(simulation, &live.id);
        let (mut own, mut others): (Vec<Pod>, Vec<Pod>) = std::mem::take(&mut simulation.pods)
            .into_iter()
            .partition(|pod| own.contains(&pod.name));
        own.retain(|pod| pod.node.as_ref().is_some_and(|node| nodes.contains(node)));
        let outdated = own.iter().filter(|pod| !is_new(pod)).count();
        let mut budget = max_unavailable(&value, nodes.len());
        let mut replaced = 0;
        own.retain(|pod| {
            let is_replaced = !is_new(pod) && budget > 0;
            budget = budget.saturating_sub(usize::from(is_replaced));
            replaced += usize::from(is_replaced);
            !is_replaced
        });
        let mut created = 0;
        for node in &nodes {
            if own.iter().any(|pod| pod.node.as_ref() == Some(node)) {
                continue;
            }
            created += 1;
            own.push(Pod {
                name: format!("{}-{node}", live.id.name),
                owner: Some(("DaemonSet".to_owned(), live.id.name.to_string())),
                labels: [
                    texts(&template, "/metadata/labels"),
                    BTreeMap::from([(REVISION.to_owned(), revision.clone())]),
                ]
                .into_iter()
                .flatten()
                .collect(),
                annotations: texts(&template, "/metadata/annotations"),
                node: Some(node.clone()),
                phase: PodPhase::Running,
                created: Some(self.tick()),
                ..Pod::default()
            });
        }
        for pod in &mut own {
            pod.ready = true;
            pod.deleting = false;
            pod.problem = None;
        }
        let updated = own.iter().filter(|pod| is_new(pod)).count();
        if self.changed.contains(&live.id) && created > 0 {
            journal.record_rollout(Rollout {
                id: live.id.clone(),
                pods: nodes.len(),
                replaced,
                canary: outdated > 0,
            });
        }
        if updated == own.len() {
            self.changed.remove(&live.id);
        }
        let status = json!({
            "observedGeneration": live.generation,
            "desiredNumberScheduled": nodes.len(), "updatedNumberScheduled": updated,
            "numberReady": own.len(),
        });
        others.append(&mut own);
        simulation.pods = others;
        simulation.report(&live.id, &status) || created > 0
    }

    /// The revision of a DaemonSet's new pods: a hash of the template or, if the template has not
    /// changed, the revision of the newest pod, which the real controller created from it.
    fn revision(&self, simulation: &Simulation, live: &Live, template: &Value) -> String {
        let own = || Fingerprint::of(&template.to_string()).to_string();
        let wanted = texts(template, "/metadata/annotations");
        let pods = simulation.observed(|observed| {
            let pods = ready::pods(observed, &live.id);
            let newest = pods.max_by_key(|pod| pod.created.as_ref().map(|at| at.0));
            newest.cloned()
        });
        let newest = pods.filter(|pod| {
            let has = |(name, value)| pod.annotations.get(name) == Some(value);
            wanted.iter().all(has)
        });
        match newest.and_then(|pod| pod.labels.get(REVISION).cloned()) {
            Some(revision) if !self.changed.contains(&live.id) => revision,
            _ => own(),
        }
    }

    /// A time later than all returned before.
    fn tick(&mut self) -> Time {
        self.pods = self.pods.saturating_add(1);
        later(self.now, SignedDuration::from_nanos(self.pods.into()))
    }
}

/// Deletes pods whose component does not exist any more.
fn delete_orphaned_pods(simulation: &mut Simulation) -> bool {
    let components = simulation.objects().keys().filter(|id| is_component(id));
    let kept: BTreeSet<String> = components.flat_map(|id| names(simulation, id)).collect();
    let before = simulation.pods.len();
    simulation.pods.retain(|pod| {
        let owner = pod.owner.as_ref().map(|(kind, _)| kind.as_str());
        !matches!(owner, Some("ReplicaSet" | "DaemonSet")) || kept.contains(&pod.name)
    });
    before != simulation.pods.len()
}

fn names(simulation: &Simulation, id: &Id) -> Vec<String> {
    simulation.observed(|observed| {
        let pods = ready::pods(observed, id);
        pods.map(|pod| pod.name.clone()).collect()
    })
}

fn definition(simulation: &mut Simulation, live: &Live) -> bool {
    let value = live.value();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let versions = value.pointer("/spec/versions").and_then(Value::as_array);
    let mut served = versions.into_iter().flatten();
    let served = served.find(|version| version.get("served") == Some(&Value::Bool(true)));
    let version = served.and_then(|version| version.get("name")?.as_str());
    if let (Some(group), Some(kind), Some(version)) =
        (text("/spec/group"), text("/spec/names/kind"), version)
        && !live.deleting
    {
        let kind = (group.to_owned(), kind.to_owned());
        let kinds = &mut simulation.served.kinds;
        kinds.entry(kind).or_insert_with(|| version.to_owned());
    }
    let found = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let is = |type_: &str, field: &str, value: &str| {
        let mut found = found.into_iter().flatten();
        found.any(|condition| condition["type"] == type_ && condition[field] == value)
    };
    let is_served = is("Established", "status", "True");
    let is_empty = is("Terminating", "reason", "InstanceDeletionCompleted");
    if is_served && (!live.deleting || is_empty) {
        return false;
    }
    let mut conditions = vec![json!({"type": "Established", "status": "True"})];
    if live.deleting {
        conditions.push(json!({
            "type": "Terminating", "status": "False", "reason": "InstanceDeletionCompleted",
        }));
    }
    simulation.report(&live.id, &json!({"conditions": conditions}))
}

/// How many pods of a DaemonSet may be unavailable.
fn max_unavailable(value: &Value, nodes: usize) -> usize {
    let most = value.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    let most = match most {
        Some(Value::String(share)) => {
            let share: usize = share.trim_end_matches('%').parse().unwrap_or_default();
            nodes.saturating_mul(share).div_ceil(100)
        }
        Some(Value::Number(number)) => {
            let number = number.as_u64().and_then(|number| number.try_into().ok());
            number.unwrap_or(1)
        }
        _ => 1,
    };
    most.max(1)
}

fn texts(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let fields = value.pointer(pointer).and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    fields
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}
