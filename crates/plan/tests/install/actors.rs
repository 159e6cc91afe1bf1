//! Simulated controllers of workloads, definitions, Jobs and virtual machines.

use std::collections::BTreeMap;

use api::kubevirt::install;
use plan::kubevirt::{
    Fingerprint, Id,
    observed::{Pod, PodPhase, PodProblem},
};
use serde_json::{Value, json};

use crate::{
    release::{NAMESPACE, strategy},
    world::{World, time},
};

impl World {
    /// Runs each controller once. Returns whether anything changed.
    pub(crate) fn run_controllers(&mut self) -> bool {
        let mut moved = self.start_pods();
        let ids: Vec<Id> = self.objects().keys().cloned().collect();
        for id in ids {
            moved |= match &*id.kind {
                "Deployment" => self.deployment(&id),
                "DaemonSet" => self.daemon_set(&id),
                "CustomResourceDefinition" => self.definition(&id),
                "Job" => self.job(&id),
                _ => false,
            };
        }
        let owners = self.objects().keys();
        let owners = owners.filter(|id| matches!(&*id.kind, "Deployment" | "DaemonSet" | "Job"));
        let owners: Vec<String> = owners.map(|id| id.name.to_string()).collect();
        let before = self.pods.len();
        self.pods.retain(|pod| {
            let (_, owner) = pod.owner.as_ref().unwrap();
            let is = |name: &String| owner == name || owner.starts_with(&format!("{name}-"));
            owners.iter().any(is)
        });
        moved | (before != self.pods.len()) | self.remove_customs()
    }

    /// New pods become ready, or fail.
    fn start_pods(&mut self) -> bool {
        let mut moved = false;
        let (broken, nodes) = (self.broken.clone(), self.nodes.clone());
        for pod in &mut self.pods {
            let version = pod.annotations.get(install::STRATEGY_VERSION);
            let is_broken = version.is_some_and(|version| broken.contains(version));
            let is_down = nodes
                .iter()
                .any(|node| pod.node.as_ref() == Some(&node.name) && !node.ready);
            if is_down {
                moved |= pod.ready;
                pod.ready = false;
            } else if is_broken && pod.restarts < 5 {
                pod.restarts += 1;
                pod.ready = false;
                pod.problem = Some(PodProblem {
                    container: Some("virt-handler".to_owned()),
                    reason: "CrashLoopBackOff".to_owned(),
                    message: "back-off restarting failed container".to_owned(),
                });
                moved = true;
            } else if !is_broken && !pod.ready {
                pod.ready = true;
                pod.problem = None;
                moved = true;
            }
        }
        moved
    }

    fn pod(&mut self, owner: (&str, String), template: &Value, node: Option<String>) -> Pod {
        self.created_pods += 1;
        let map = |field: &str| -> BTreeMap<String, String> {
            serde_json::from_value(template["metadata"][field].clone()).unwrap_or_default()
        };
        let mut labels = map("labels");
        let hash = hash(template);
        labels.insert("controller-revision-hash".to_owned(), hash);
        Pod {
            name: format!("{}-{}", owner.1, self.created_pods),
            owner: Some((owner.0.to_owned(), owner.1)),
            labels,
            annotations: map("annotations"),
            node,
            phase: PodPhase::Running,
            created: Some(time(self.now)),
            ..Pod::default()
        }
    }

    fn deployment(&mut self, id: &Id) -> bool {
        let value = self.value(id);
        let template = &value["spec"]["template"];
        let set = format!("{}-{}", id.name, hash(template));
        let wanted = usize::try_from(value["spec"]["replicas"].as_u64().unwrap_or(1)).unwrap();
        let is_own = |pod: &Pod| {
            let (kind, owner) = pod.owner.as_ref().unwrap();
            kind == "ReplicaSet"
                && owner
                    .rsplit_once('-')
                    .is_some_and(|(of, _)| of == &*id.name)
        };
        let is_new = |pod: &Pod| pod.owner.as_ref().unwrap().1 == set;
        let mut moved = false;
        while self.pods.iter().filter(|pod| is_new(pod)).count() < wanted {
            let pod = self.pod(("ReplicaSet", set.clone()), template, None);
            self.pods.push(pod);
            moved = true;
        }
        let ready = self
            .pods
            .iter()
            .filter(|pod| is_new(pod) && pod.ready)
            .count();
        if ready >= wanted {
            let mut room = wanted;
            let before = self.pods.len();
            self.pods.retain(|pod| {
                let keeps = !is_own(pod) || (is_new(pod) && room > 0);
                room -= usize::from(keeps && is_own(pod));
                keeps
            });
            moved |= before != self.pods.len();
        }
        let own = || self.pods.iter().filter(|pod| is_own(pod));
        let status = json!({
            "observedGeneration": value["metadata"]["generation"],
            "replicas": own().count(),
            "updatedReplicas": own().filter(|pod| is_new(pod)).count(),
            "readyReplicas": own().filter(|pod| pod.ready).count(),
        });
        moved | self.report(id, &status)
    }

    fn daemon_set(&mut self, id: &Id) -> bool {
        let value = self.value(id);
        let template = &value["spec"]["template"];
        let hash = hash(template);
        let is_own = |pod: &Pod| {
            let (kind, owner) = pod.owner.as_ref().unwrap();
            kind == "DaemonSet" && *owner == *id.name
        };
        let is_new = |pod: &Pod| pod.labels["controller-revision-hash"] == hash;
        let limit = &value["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        let limit = match limit {
            Value::String(share) => {
                let share: usize = share.trim_end_matches('%').parse().unwrap();
                (self.nodes.len() * share).div_ceil(100)
            }
            other => usize::try_from(other.as_u64().unwrap_or(1)).unwrap(),
        };
        let away = self
            .pods
            .iter()
            .filter(|pod| is_own(pod) && !pod.ready)
            .count();
        let mut room = limit.saturating_sub(away);
        let before = self.pods.len();
        let down: Vec<String> = self
            .nodes
            .iter()
            .filter(|node| !node.ready)
            .map(|node| node.name.clone())
            .collect();
        self.pods.retain(|pod| {
            let stays = pod.node.as_ref().is_some_and(|node| down.contains(node));
            if !is_own(pod) || is_new(pod) || stays {
                return true;
            }
            let goes = !pod.ready || room > 0;
            room -= usize::from(goes && pod.ready);
            !goes
        });
        let mut moved = before != self.pods.len();
        let nodes: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for node in nodes {
            let on_node = |pod: &Pod| is_own(pod) && pod.node.as_ref() == Some(&node);
            if !self.pods.iter().any(on_node) {
                let owner = ("DaemonSet", id.name.to_string());
                let pod = self.pod(owner, template, Some(node));
                self.pods.push(pod);
                moved = true;
            }
        }
        let own = || self.pods.iter().filter(|pod| is_own(pod));
        let status = json!({
            "observedGeneration": value["metadata"]["generation"],
            "desiredNumberScheduled": self.nodes.len(),
            "updatedNumberScheduled": own().filter(|pod| is_new(pod)).count(),
            "numberReady": own().filter(|pod| pod.ready).count(),
        });
        moved | self.report(id, &status)
    }

    fn definition(&mut self, id: &Id) -> bool {
        let value = self.value(id);
        let mut conditions = vec![
            json!({"type": "NamesAccepted", "status": "True"}),
            json!({"type": "Established", "status": "True"}),
        ];
        if !value["metadata"]["deletionTimestamp"].is_null() {
            let customs = self.customs.get(&*id.name);
            let is_empty = customs.is_none_or(Vec::is_empty);
            conditions.push(json!({
                "type": "Terminating", "status": if is_empty { "False" } else { "True" },
                "reason":
                    if is_empty { "InstanceDeletionCompleted" } else { "InstanceDeletionInProgress" },
                "message": "objects are being deleted",
            }));
        }
        let moved = self.report(id, &json!({"conditions": conditions}));
        if self.customs.get(&*id.name).is_none_or(Vec::is_empty) {
            self.release(id);
        }
        moved || !self.objects().contains_key(id)
    }

    fn job(&mut self, id: &Id) -> bool {
        let value = self.value(id);
        if !value["status"]["conditions"].is_null() {
            return false;
        }
        let annotations = value["metadata"]["annotations"].clone();
        let version = annotations[install::STRATEGY_VERSION]
            .as_str()
            .unwrap()
            .to_owned();
        let deployment = annotations[install::STRATEGY_IDENTIFIER]
            .as_str()
            .unwrap()
            .to_owned();
        let now = self.now.to_string();
        if self.unwritable.contains(&version) {
            let condition = json!({
                "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit", "lastTransitionTime": now,
            });
            return self.report(id, &json!({"conditions": [condition]}));
        }
        let name = format!("kubevirt-install-strategy-{}", &deployment[..8]);
        if self.live_object("ConfigMap", &name).is_none() {
            self.store(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": name, "namespace": NAMESPACE, "annotations": annotations,
                    "labels": {install::MANAGED_BY: install::MANAGER, install::STRATEGY: ""},
                },
            }));
        }
        let strategy = strategy(&version, &self.extra);
        self.strategies.insert(deployment, strategy);
        let condition = json!({"type": "Complete", "status": "True", "lastTransitionTime": now});
        self.report(
            id,
            &json!({"conditions": [condition], "completionTime": now}),
        )
    }

    /// Removes deleted objects; virtual machines need a running virt-controller.
    fn remove_customs(&mut self) -> bool {
        let has_virt_controller = self.pods.iter().any(|pod| {
            let (_, owner) = pod.owner.as_ref().unwrap();
            owner.starts_with("virt-controller-") && pod.ready
        });
        let now = self.now;
        let mut changed = Vec::new();
        for (definition, customs) in &mut self.customs {
            let before = customs.len();
            let has_definition_finalizer =
                definition.starts_with("virtualmachines") && !has_virt_controller;
            customs.retain(|custom| !custom.deleting || custom.stuck || has_definition_finalizer);
            if before != customs.len() {
                changed.push(definition.clone());
            }
        }
        for definition in &changed {
            if let Some(count) = self.counts.get_mut(definition) {
                count.at = time(now - k8s_openapi::jiff::SignedDuration::from_hours(1));
            }
        }
        !changed.is_empty()
    }
}

fn hash(template: &Value) -> String {
    let text = format!("{:?}", Fingerprint::of(&template.to_string()));
    let digits = text.chars().filter(char::is_ascii_digit);
    digits.take(8).collect()
}
