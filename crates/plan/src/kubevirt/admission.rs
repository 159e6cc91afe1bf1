//! Validation of changes to the KubeVirt resource.
//!
//! The rules are those of KubeVirt's virt-operator for the requested release, and some that prevent
//! installations that cannot succeed. They apply to changes only: an update that does not change `spec`
//! is always allowed, so that a newer rule does not block status or finalizers. For unknown releases,
//! feature gates are not validated.
//!
//! A refusal names the field and the remedy.

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

/// Number of blockers that a refusal lists.
const LISTED: usize = 10;

/// Validates a new resource. `existing` has namespace and name of the other resources.
pub fn create(kubevirt: &KubeVirt, existing: &[(String, String)], operator: &Operator) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some((namespace, name)) = existing.first() {
        verdict.refuse_sentence(
            "metadata.name",
            format!(
                "KubeVirt is already created: {namespace}/{name}, and a cluster can have only one: \
                 change that one, or delete it first"
            ),
        );
        return verdict;
    }
    let namespace = kubevirt.metadata.namespace.as_deref().unwrap_or_default();
    if namespace != operator.namespace {
        verdict.refuse_sentence(
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

/// Validates an update.
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
            verdict.refuse_sentence(error.field(), error.to_string());
            // Further errors are those of the release that is most likely meant.
            new.spec.image_tag.clone().unwrap_or_default()
        }
    };
    let gates = Gates::of(new, &version);
    spec::check(&new.spec, verdict);
    configuration::check(old, new, &gates, verdict);
    configuration::check_gates(old, &gates, &version, verdict);
    configuration::warn(new, verdict);
}

/// An object that prevents the deletion of KubeVirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// Kinds that prevent a deletion, with their plural, in group `kubevirt.io`.
pub const BLOCKERS: [(&str, &str); 3] = [
    ("VirtualMachine", "virtualmachines"),
    ("VirtualMachineInstance", "virtualmachineinstances"),
    (
        "VirtualMachineInstanceReplicaSet",
        "virtualmachineinstancereplicasets",
    ),
];

/// Whether virtual machines prevent the removal instead of being deleted.
pub(super) fn blocks(kubevirt: &KubeVirt) -> bool {
    let strategy = kubevirt.spec.uninstall_strategy.as_deref();
    !matches!(strategy, None | Some("" | spec::REMOVE))
}

/// Whether the validation of a deletion needs the list of blockers.
pub fn blocks_deletion(kubevirt: &KubeVirt) -> bool {
    let phase = kubevirt.status.as_ref().and_then(|status| status.phase);
    blocks(kubevirt) && phase == Some(InstallPhase::Deployed)
}

/// Validates a deletion, given the [`BLOCKERS`] in the cluster.
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
    verdict.refuse_sentence(
        "spec.uninstallStrategy",
        format!(
            "spec.uninstallStrategy is {}, and there are {}{more}: delete them first, or set it to \
             {} to delete them with KubeVirt",
            spec::BLOCK,
            listed.join(", "),
            spec::REMOVE
        ),
    );
    verdict
}

/// An object whose dry-run creation validates a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The validated field.
    pub field: &'static str,
    pub object: Object,
}

impl Probe {
    /// Adds the API server's refusal to a verdict.
    pub fn refused(&self, message: &str, verdict: &mut Verdict) {
        verdict.refuse(self.field, message);
    }
}

/// Probes of the placements that a change sets.
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
    Object::from_text(id, "v1".into(), &object.to_string())
}

#[cfg(test)]
mod tests;
