//! Nodes on which a pod can run, by its node selector, required node affinity and tolerations. Resources,
//! volumes and other pods are ignored.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use crate::kubevirt::{observed::Node, tree};

/// Why a pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    Cordoned,
    /// A label of the node selector is missing.
    Selector {
        label: String,
        wanted: String,
    },
    /// No term of the required node affinity matches.
    Affinity,
    /// A taint is not tolerated.
    Taint {
        key: String,
        effect: String,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("is cordoned"),
            Self::Selector { label, wanted } => {
                write!(f, "does not have the label {label}={wanted}")
            }
            Self::Affinity => f.write_str("matches no term of the required node affinity"),
            Self::Taint { key, effect } => {
                write!(f, "has the taint {key}:{effect}, which is not tolerated")
            }
        }
    }
}

/// Names of the nodes on which a pod with that spec can run.
pub fn schedulable<'a>(pod: &Value, nodes: &'a [Node]) -> Vec<&'a str> {
    let fit = nodes.iter().filter(|node| obstacle(pod, node).is_none());
    fit.map(|node| node.name.as_str()).collect()
}

/// Why a pod with that spec cannot run on a node; None if it can.
pub fn obstacle(pod: &Value, node: &Node) -> Option<Obstacle> {
    let selector = pod.get("nodeSelector").and_then(Value::as_object);
    for (label, wanted) in selector.into_iter().flatten() {
        let wanted = wanted.as_str().unwrap_or_default();
        if node.labels.get(label).map(String::as_str) != Some(wanted) {
            return Some(Obstacle::Selector {
                label: label.clone(),
                wanted: wanted.to_owned(),
            });
        }
    }
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    if let Some(required) = pod.pointer(required) {
        let mut terms = tree::items(required, "/nodeSelectorTerms");
        if !terms.any(|term| term_matches(term, node)) {
            return Some(Obstacle::Affinity);
        }
    }
    let cordon = (CORDON.to_owned(), String::new(), "NoSchedule".to_owned());
    if node.unschedulable && !tolerates(pod, &cordon) {
        return Some(Obstacle::Cordoned);
    }
    let taints = node.taints.iter().filter(|(key, _, _)| key != CORDON);
    let mut repelling = taints.filter(|(_, _, effect)| effect != "PreferNoSchedule");
    let (key, _, effect) = repelling.find(|taint| !tolerates(pod, taint))?;
    Some(Obstacle::Taint {
        key: key.clone(),
        effect: effect.clone(),
    })
}

const CORDON: &str = "node.kubernetes.io/unschedulable";

/// A term without requirements matches no node.
fn term_matches(term: &Value, node: &Node) -> bool {
    let fields = BTreeMap::from([("metadata.name".to_owned(), node.name.clone())]);
    let [of_labels, of_fields] =
        ["/matchExpressions", "/matchFields"].map(|list| tree::items(term, list));
    let mut requirements = of_labels
        .map(|requirement| (requirement, &node.labels))
        .chain(of_fields.map(|requirement| (requirement, &fields)))
        .peekable();
    requirements.peek().is_some()
        && requirements.all(|(requirement, labels)| requirement_matches(requirement, labels))
}

fn requirement_matches(requirement: &Value, labels: &BTreeMap<String, String>) -> bool {
    let key = tree::text(requirement, "/key").unwrap_or_default();
    let actual = labels.get(key).map(String::as_str);
    let mut values = tree::items(requirement, "/values").filter_map(Value::as_str);
    let compared = |values: &mut dyn Iterator<Item = &str>| {
        let actual: i64 = actual?.parse().ok()?;
        let bound: i64 = values.next()?.parse().ok()?;
        Some(actual.cmp(&bound))
    };
    match tree::text(requirement, "/operator").unwrap_or_default() {
        "In" => actual.is_some_and(|actual| values.any(|value| value == actual)),
        "NotIn" => actual.is_none_or(|actual| values.all(|value| value != actual)),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => compared(&mut values).is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared(&mut values).is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

fn tolerates(pod: &Value, (key, value, effect): &(String, String, String)) -> bool {
    tree::items(pod, "/tolerations").any(|toleration| {
        let text = |field: &str| tree::text(toleration, field).unwrap_or_default();
        let of_effect = ["", effect.as_str()].contains(&text("/effect"));
        let of_key = text("/key") == key || text("/key").is_empty();
        let of_value = match text("/operator") {
            "Exists" => true,
            "" | "Equal" => !text("/key").is_empty() && text("/value") == value,
            _ => false,
        };
        of_effect && of_key && of_value
    })
}
