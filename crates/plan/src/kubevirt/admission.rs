//! Which changes to the KubeVirt resource are let in.
//!
//! The rules are those of KubeVirt's own operator, read for the release that is wanted, and some
//! that spare a person an installation that cannot succeed. They apply to what a change brings: an
//! update that leaves `spec` as it is always passes, so that no rule that came later holds up a
//! status or a finalizer. Of a release that is not known, nothing is refused because of a feature
//! gate.
//!
//! A refusal names the field and what to do.

use api::kubevirt::install::{InstallPhase, KubeVirt, NodePlacement};
use serde_json::{Value, json};

use super::{
    gates::Gates,
    object::{Id, Object},
    observed::Served,
    target::{Operator, target},
};
use crate::admission::Verdict;

mod configuration;
mod spec;
mod tls;

/// The most blockers that are listed.
const LISTED: usize = 10;

/// What is said to a new resource, where there are `existing` ones, as namespace and name.
pub fn create(kubevirt: &KubeVirt, existing: &[(String, String)], operator: &Operator) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some((namespace, name)) = existing.first() {
        verdict.refuse(
            "metadata.name",
            format!(
                "KubeVirt is already created: {namespace}/{name}, and there can be one in a \
                 cluster: change that one, or delete it first"
            ),
        );
        return verdict;
    }
    let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
    if namespace != operator.namespace {
        verdict.refuse(
            "metadata.namespace",
            format!(
                "metadata.namespace {namespace} is not served: create it in {}, where the operator \
                 runs",
                operator.namespace
            ),
        );
    }
    check(None, kubevirt, operator, &mut verdict);
    verdict
}

/// What is said to an update.
pub fn update(old: &KubeVirt, new: &KubeVirt, operator: &Operator) -> Verdict {
    let mut verdict = Verdict::default();
    if old.spec != new.spec {
        check(Some(old), new, operator, &mut verdict);
    }
    verdict
}

fn check(old: Option<&KubeVirt>, new: &KubeVirt, operator: &Operator, verdict: &mut Verdict) {
    let version = match target(new, operator, &Served::default()) {
        Ok(target) => target.version,
        Err(error) => {
            verdict.refuse(error.field(), error.to_string());
            // What is wrong besides is told for the release that is most likely meant.
            new.spec.image_tag.clone().unwrap_or_default()
        }
    };
    let gates = Gates::of(new, &version);
    spec::check(&new.spec, verdict);
    configuration::check(old, new, &gates, verdict);
    configuration::check_gates(old, &gates, &version, verdict);
    configuration::warn(new, verdict);
}

/// An object that would be lost with KubeVirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What holds a deletion up, by kind and plural, all of them in group `kubevirt.io`.
pub const BLOCKERS: [(&str, &str); 3] = [
    ("VirtualMachine", "virtualmachines"),
    ("VirtualMachineInstance", "virtualmachineinstances"),
    (
        "VirtualMachineInstanceReplicaSet",
        "virtualmachineinstancereplicasets",
    ),
];

/// Whether virtual machines hold the removal of a resource up rather than being deleted.
pub(super) fn blocks(kubevirt: &KubeVirt) -> bool {
    let strategy = kubevirt.spec.uninstall_strategy.as_deref();
    !matches!(strategy, None | Some("" | spec::REMOVE))
}

/// Whether the deletion of a resource depends on what is in the cluster: only then the blockers need
/// to be looked for.
pub fn blocks_deletion(kubevirt: &KubeVirt) -> bool {
    let phase = kubevirt.status.as_ref().and_then(|status| status.phase);
    blocks(kubevirt) && phase == Some(InstallPhase::Deployed)
}

/// What is said to the deletion of a resource, where there are such VirtualMachines,
/// VirtualMachineInstances and VirtualMachineInstanceReplicaSets.
pub fn delete(kubevirt: &KubeVirt, blockers: &[Blocker]) -> Verdict {
    let mut verdict = Verdict::default();
    if blockers.is_empty() || !blocks_deletion(kubevirt) {
        return verdict;
    }
    let listed: Vec<String> = blockers
        .iter()
        .take(LISTED)
        .map(|blocker| format!("{} {}/{}", blocker.kind, blocker.namespace, blocker.name))
        .collect();
    let more = match blockers.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    verdict.refuse(
        "spec.uninstallStrategy",
        format!(
            "spec.uninstallStrategy is {}, and there are {}{more}: delete them first, or set it to \
             {} to have them deleted",
            spec::BLOCK,
            listed.join(", "),
            spec::REMOVE
        ),
    );
    verdict
}

/// An object whose creation, as a dry run, tells whether the API server takes a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The field that it is about.
    pub field: &'static str,
    /// The object.
    pub object: Object,
}

impl Probe {
    /// Adds to a verdict that the API server refused it, in its words.
    pub fn refused(&self, words: &str, verdict: &mut Verdict) {
        verdict.refuse(self.field, format!("{}: {words}", self.field));
    }
}

/// The placements that a change brings, each as an object for a dry run.
pub fn probes(old: Option<&KubeVirt>, new: &KubeVirt) -> Vec<Probe> {
    let namespace = new.metadata.namespace.as_deref().unwrap_or_default();
    let infra = |kubevirt: &KubeVirt| kubevirt.spec.infra.clone()?.node_placement;
    let workloads = |kubevirt: &KubeVirt| kubevirt.spec.workloads.clone()?.node_placement;
    let brought = |of: &dyn Fn(&KubeVirt) -> Option<NodePlacement>| {
        of(new).filter(|placement| old.and_then(of).as_ref() != Some(placement))
    };
    let infra = brought(&infra).map(|placement| Probe {
        field: "spec.infra.nodePlacement",
        object: probe("Deployment", namespace, &placement),
    });
    let workloads = brought(&workloads).map(|placement| Probe {
        field: "spec.workloads.nodePlacement",
        object: probe("DaemonSet", namespace, &placement),
    });
    infra.into_iter().chain(workloads).collect()
}

fn probe(kind: &str, namespace: &str, placement: &NodePlacement) -> Object {
    let id = Id::new("apps", kind, namespace, "placement-validation-webhook");
    let labels = json!({"kubevirt.io/choose-me": ""});
    let mut pod = json!({"containers": [{"name": "placement", "image": "placement.invalid/none"}]});
    if let (Some(pod), Ok(Value::Object(placement))) =
        (pod.as_object_mut(), serde_json::to_value(placement))
    {
        pod.extend(placement);
    }
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": &*id.name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    Object::written(id, "v1".into(), &object.to_string())
}

#[cfg(test)]
mod tests;
