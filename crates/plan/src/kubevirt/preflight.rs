//! Preflight checks: problems of a rollout that are known before the first write.

mod images;
mod privileges;
mod rules;
mod versions;

use std::{collections::BTreeMap, fmt};

use api::kubevirt::install::KubeVirt;
use apimachinery::taints::DAEMON_TAINTS;
use serde_json::{Value, json};

use super::{
    desired::Desired,
    object::{Id, Object},
    observed::Node,
    placement::{self, Obstacle},
    strategy::Strategy,
    target::Target,
};

pub use privileges::Permissions;
pub use rules::Rule;

/// Facts about the cluster. Checks that need an unknown fact are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cluster<'a> {
    /// Version of Kubernetes: `v1.34.1`.
    pub kubernetes: Option<&'a str>,
    /// Permissions of the operator.
    pub permissions: Option<&'a Permissions>,
    /// Labels of KubeVirt's namespace; None if it does not exist.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
    pub nodes: Option<&'a [Node]>,
    /// `status.storedVersions` by the name of the definition.
    pub stored_versions: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// A problem with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub subject: String,
    pub message: String,
    pub remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The rollout would not complete.
    Error,
    /// The installation may not work correctly.
    Warning,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            severity: _,
            subject,
            message,
            remedy,
        } = self;
        write!(f, "{subject}: {message}. {remedy}")
    }
}

/// Runs all checks. Errors come first.
pub fn preflight(
    kubevirt: &KubeVirt,
    target: &Target,
    strategy: &Strategy,
    desired: &Desired,
    cluster: &Cluster<'_>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(version) = cluster.kubernetes {
        findings.extend(versions::kubernetes(version, &target.version));
    }
    if let Some(stored) = cluster.stored_versions {
        findings.extend(versions::stored(strategy, stored));
    }
    if let Some(labels) = cluster.namespace_labels {
        findings.extend(privileged(kubevirt, desired, labels));
    }
    if let Some(nodes) = cluster.nodes {
        findings.extend(unschedulable(kubevirt, desired, nodes));
    }
    findings.extend(images::findings(target, desired));
    if let Some(permissions) = cluster.permissions {
        let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
        findings.extend(privileges::findings(desired, permissions, namespace));
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Pods that the namespace's pod security level forbids.
fn privileged(
    kubevirt: &KubeVirt,
    desired: &Desired,
    labels: &BTreeMap<String, String>,
) -> Option<Finding> {
    let level = labels.get(ENFORCE).filter(|level| *level != "privileged")?;
    let is_privileged = |object: &&Object| {
        let value = object.value();
        let host = ["/hostPID", "/hostNetwork", "/hostIPC"];
        let pod = value.pointer("/spec/template/spec");
        let containers = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| {
                let list = pod.and_then(|pod| pod.get(list)).and_then(Value::as_array);
                list.into_iter().flatten()
            });
        let mut privileged =
            containers.filter_map(|container| container.pointer("/securityContext/privileged"));
        privileged.any(|is| is == true)
            || host
                .iter()
                .any(|field| pod.and_then(|pod| pod.pointer(field)) == Some(&Value::Bool(true)))
    };
    let object = desired
        .objects
        .iter()
        .filter(|object| is_workload(&object.id))
        .find(is_privileged)?;
    let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
    Some(Finding {
        severity: Severity::Error,
        subject: format!("Namespace {namespace}"),
        message: format!(
            "its label {ENFORCE}={level} forbids the pods of {}, which are privileged",
            object.id
        ),
        remedy: format!("kubectl label --overwrite namespace {namespace} {ENFORCE}=privileged"),
    })
}

fn is_workload(id: &Id) -> bool {
    id.is("apps", "Deployment") || id.is("apps", "DaemonSet")
}

/// Components that no node can run, one finding for all with the same reasons.
fn unschedulable(kubevirt: &KubeVirt, desired: &Desired, nodes: &[Node]) -> Vec<Finding> {
    let mut alike: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for object in desired
        .objects
        .iter()
        .filter(|object| is_workload(&object.id))
    {
        let is_daemon = &*object.id.kind == "DaemonSet";
        let mut value = object.value();
        let Some(pod) = value.pointer_mut("/spec/template/spec") else {
            continue;
        };
        if is_daemon {
            tolerate_as_daemon(pod);
        }
        if placement::schedulable(pod, nodes).is_empty() {
            let reasons = reasons(pod, nodes);
            alike
                .entry((is_daemon, reasons))
                .or_default()
                .push(object.id.to_string());
        }
    }
    let finding = |((is_daemon, reasons), objects): ((bool, String), Vec<String>)| Finding {
        severity: Severity::Error,
        subject: objects.join(", "),
        message: format!("no node can run its pods: {reasons}"),
        remedy: remedy(kubevirt, is_daemon),
    };
    alike.into_iter().map(finding).collect()
}

/// Adds the tolerations that the DaemonSet controller adds to its pods.
pub(super) fn tolerate_as_daemon(pod: &mut Value) {
    let tolerations = pod
        .as_object_mut()
        .and_then(|pod| super::tree::list(pod, "tolerations"));
    let added = DAEMON_TAINTS
        .iter()
        .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
    if let Some(tolerations) = tolerations {
        tolerations.extend(added);
    }
}

fn reasons(pod: &Value, nodes: &[Node]) -> String {
    if nodes.is_empty() {
        return "there are no nodes".to_owned();
    }
    let mut counts: BTreeMap<Obstacle, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(obstacle) = placement::obstacle(pod, node) {
            counts.entry(obstacle).or_default().push(&node.name);
        }
    }
    let reason = |(obstacle, nodes): (&Obstacle, &Vec<&str>)| match nodes.as_slice() {
        [node] => format!("{node} {obstacle}"),
        [first, others @ ..] => format!("{first} {obstacle}, as do {} more", others.len()),
        [] => String::new(),
    };
    counts.iter().map(reason).collect::<Vec<_>>().join("; ")
}

fn remedy(kubevirt: &KubeVirt, is_daemon: bool) -> String {
    let spec = &kubevirt.spec;
    if is_daemon {
        return "Correct spec.workloads.nodePlacement, or the labels and taints of nodes"
            .to_owned();
    }
    let placement = spec
        .infra
        .as_ref()
        .and_then(|infra| infra.node_placement.as_ref());
    if placement.is_none() {
        "Without spec.infra.nodePlacement these run only on the control plane: set it, for example \
         to {} for any node"
            .to_owned()
    } else {
        "Correct spec.infra.nodePlacement, or the labels and taints of nodes".to_owned()
    }
}

#[cfg(test)]
mod tests;
