//! Simulation of the cluster's controllers, which always succeed at once: pods become ready,
//! definitions are served.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Rollout, journal::Journal, simulated::Simulated};
use crate::kubevirt::{
    object::{Fingerprint, Id, Live},
    observed::{Pod, PodPhase},
    placement::schedulable,
    preflight::tolerate_as_daemon,
    ready,
    stages::{is_component, is_definition},
};

/// Label with the revision of a pod's template.
const REVISION: &str = "controller-revision-hash";

impl Simulated<'_> {
    /// Runs each controller once. Returns whether anything changed.
    pub(super) fn advance(&mut self, journal: &mut Journal) -> bool {
        let ids = self.objects.keys();
        let ids: Vec<Id> = ids
            .filter(|id| is_component(id) || is_definition(id))
            .cloned()
            .collect();
        let mut has_changed = false;
        for id in ids {
            let Some(live) = self.objects.get(&id).cloned() else {
                continue;
            };
            has_changed |= if is_definition(&id) {
                self.definition(&live)
            } else if id.is("apps", "DaemonSet") {
                self.daemon_set(&live, journal)
            } else {
                self.deployment(&live, journal)
            };
        }
        has_changed | self.delete_orphaned_pods()
    }

    /// Deletes pods whose component does not exist any more.
    fn delete_orphaned_pods(&mut self) -> bool {
        let components = self.objects.keys().filter(|id| is_component(id));
        let kept: BTreeSet<String> = components.flat_map(|id| self.names(id)).collect();
        let before = self.pods.len();
        self.pods.retain(|pod| {
            let owner = pod.owner.as_ref().map(|(kind, _)| kind.as_str());
            !matches!(owner, Some("ReplicaSet" | "DaemonSet")) || kept.contains(&pod.name)
        });
        before != self.pods.len()
    }

    /// Replaces all pods at once: the operator only waits for the last one.
    fn deployment(&mut self, live: &Live, journal: &mut Journal) -> bool {
        let value = live.value();
        let replicas = value.pointer("/spec/replicas").and_then(Value::as_u64);
        let replicas = replicas.unwrap_or(1);
        if self.changed.remove(&live.id) {
            let before = self.pods.len();
            let own: Vec<String> = self.names(&live.id);
            self.pods.retain(|pod| !own.contains(&pod.name));
            journal.record_rollout(Rollout {
                id: live.id.clone(),
                pods: usize::try_from(replicas).unwrap_or(usize::MAX),
                replaced: before.saturating_sub(self.pods.len()),
                canary: false,
            });
        }
        let status = json!({
            "observedGeneration": live.generation,
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
        });
        self.report(live, value, &status)
    }

    /// Replaces as many pods as maxUnavailable allows.
    fn daemon_set(&mut self, live: &Live, journal: &mut Journal) -> bool {
        let value = live.value();
        let template = value.pointer("/spec/template").cloned().unwrap_or_default();
        let mut pod = template.pointer("/spec").cloned().unwrap_or_default();
        tolerate_as_daemon(&mut pod);
        let nodes = schedulable(&pod, &self.nodes).into_iter();
        let nodes: Vec<String> = nodes.map(str::to_owned).collect();
        let revision = self.revision(live, &template);
        let is_new = |pod: &Pod| pod.labels.get(REVISION) == Some(&revision);
        let own = self.names(&live.id);
        let (mut own, mut others): (Vec<Pod>, Vec<Pod>) = std::mem::take(&mut self.pods)
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
        self.pods = others;
        self.report(live, value, &status) || created > 0
    }

    /// The revision of a DaemonSet's new pods: a hash of the template or, if the template has not
    /// changed, the revision of the newest pod, which the real controller created from it.
    fn revision(&self, live: &Live, template: &Value) -> String {
        let own = || Fingerprint::of(&template.to_string()).to_string();
        let wanted = texts(template, "/metadata/annotations");
        let pods = self.observed(|observed| {
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

    fn names(&self, id: &Id) -> Vec<String> {
        self.observed(|observed| {
            let pods = ready::pods(observed, id);
            pods.map(|pod| pod.name.clone()).collect()
        })
    }

    fn definition(&mut self, live: &Live) -> bool {
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
            let kinds = &mut self.served.kinds;
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
        self.report(live, value, &json!({"conditions": conditions}))
    }

    /// Merges a status into that of an object. Returns whether it changed.
    fn report(&mut self, live: &Live, mut value: Value, status: &Value) -> bool {
        let before = value.get("status").cloned().unwrap_or_default();
        let mut after = before.clone();
        merge::merge_patch::apply(&mut after, status);
        if after == before {
            return false;
        }
        if let Some(fields) = value.as_object_mut() {
            fields.insert("status".to_owned(), after);
        }
        self.store(&live.id, &live.version, &mut value);
        true
    }
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
