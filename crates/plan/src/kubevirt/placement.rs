//! Node placement of KubeVirt's components.
//!
//! The placement of the KubeVirt resource is added to that of the release and never overrides it: a
//! node selector of both keeps the release's value, affinity terms and tolerations are appended.

mod nodes;

use api::kubevirt::install::{ComponentConfig, NodePlacement};
use serde_json::{Map, Value, json};

use super::tree;

pub use nodes::{Obstacle, obstacle, schedulable};

const OS: &str = "kubernetes.io/os";

/// Placement without one in the KubeVirt resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    AnyNode,
    /// Only nodes of the control plane, preferably without the worker role.
    ControlPlane,
}

/// A field of a pod or of its placement has the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub field: &'static str,
}

/// Adds a placement to the spec of a pod.
///
/// # Errors
/// When a field of either has the wrong type.
pub fn place(
    config: Option<&ComponentConfig>,
    fallback: Fallback,
    pod: &mut Value,
) -> Result<(), Malformed> {
    let given = config.and_then(|config| config.node_placement.as_ref());
    let assumed;
    let placement = if let Some(given) = given {
        given
    } else {
        assumed = fallback.placement();
        &assumed
    };
    add_node_selector(placement, pod)?;
    if let Some(affinity) = &placement.affinity {
        add_affinity(affinity, pod)?;
    }
    if let Some(tolerations) = placement
        .tolerations
        .as_ref()
        .filter(|list| !list.is_empty())
    {
        append(pod, &[], "tolerations", tolerations)?;
    }
    Ok(())
}

impl Fallback {
    fn placement(self) -> NodePlacement {
        match self {
            Self::AnyNode => NodePlacement::default(),
            Self::ControlPlane => control_plane(),
        }
    }
}

fn control_plane() -> NodePlacement {
    const ROLES: [&str; 2] = [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
    ];
    let has = |role: &str| json!({"matchExpressions": [{"key": role, "operator": "Exists"}]});
    let tolerated = |role: &str| json!({"key": role, "operator": "Exists", "effect": "NoSchedule"});
    let worker = json!({"key": "node-role.kubernetes.io/worker", "operator": "DoesNotExist"});
    NodePlacement {
        node_selector: None,
        affinity: Some(json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": ROLES.map(has),
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchExpressions": [worker]}},
            ],
        }})),
        tolerations: Some(ROLES.map(tolerated).to_vec()),
    }
}

fn add_node_selector(placement: &NodePlacement, pod: &mut Value) -> Result<(), Malformed> {
    let field = "nodeSelector";
    let selector = tree::map(pod, &[field]).ok_or(Malformed { field })?;
    for (label, value) in placement.node_selector.iter().flatten() {
        let kept = selector.entry(label.clone());
        kept.or_insert_with(|| value.clone().into());
    }
    selector.entry(OS).or_insert_with(|| "linux".into());
    Ok(())
}

fn add_affinity(affinity: &Value, pod: &mut Value) -> Result<(), Malformed> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    for kind in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        let Some(added) = affinity.get(kind).filter(|added| !added.is_null()) else {
            continue;
        };
        let path = ["affinity", kind];
        if let Some(terms) = terms(added, PREFERRED)? {
            append(pod, &path, PREFERRED, terms)?;
        }
        if kind == "nodeAffinity" {
            let Some(required) = added.get(REQUIRED).filter(|required| !required.is_null()) else {
                continue;
            };
            if let Some(terms) = terms(required, "nodeSelectorTerms")? {
                let path = ["affinity", kind, REQUIRED];
                append(pod, &path, "nodeSelectorTerms", terms)?;
            }
        } else if let Some(terms) = terms(added, REQUIRED)? {
            append(pod, &path, REQUIRED, terms)?;
        }
    }
    Ok(())
}

fn terms<'a>(of: &'a Value, field: &'static str) -> Result<Option<&'a Vec<Value>>, Malformed> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(terms)) => Ok(Some(terms).filter(|terms| !terms.is_empty())),
        Some(_) => Err(Malformed { field }),
    }
}

fn append(
    pod: &mut Value,
    path: &[&str],
    field: &'static str,
    added: &[Value],
) -> Result<(), Malformed> {
    let list = tree::map(pod, path).and_then(|fields: &mut Map<_, _>| tree::list(fields, field));
    list.ok_or(Malformed { field })?.extend_from_slice(added);
    Ok(())
}

#[cfg(test)]
mod tests;
