//! Scheduling filters: whether a pod fits a node, and kube-scheduler's message if not.

use serde_json::Value;

use super::{
    affinity::{admits, selects},
    requests::{Amounts, Tally, amounts},
    taints::untolerated,
};
use crate::object::{is_true, list, map, truth};

/// Properties of a pod that the filters use.
pub(super) struct Wanted<'a> {
    pub pod: &'a Value,
    pub requests: &'a Amounts,
    /// Node selectors of its volumes.
    pub volumes: Vec<&'a Value>,
}

/// Reasons why a pod does not fit a node; empty if it fits.
pub(super) fn misfits(wanted: &Wanted<'_>, node: &Value, used: &Tally) -> Vec<String> {
    let one = |reason: &str| vec![reason.to_owned()];
    let tolerations = list(wanted.pod, "/spec/tolerations");
    if truth(node, "/spec/unschedulable") && !tolerates_cordon(tolerations) {
        return one("node(s) were unschedulable");
    }
    if untolerated(node, tolerations, &["NoSchedule", "NoExecute"]).is_some() {
        return one("node(s) had untolerated taint(s)");
    }
    if !is_true(node, "Ready") {
        return one("node(s) were not ready");
    }
    if wanted
        .pod
        .get("spec")
        .is_some_and(|spec| !admits(spec, node))
    {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    if !wanted
        .volumes
        .iter()
        .all(|selector| selects(selector, node))
    {
        return one("node(s) didn't match PersistentVolume's node affinity");
    }
    let allocatable = amounts(map(node, "/status/allocatable"));
    let mut reasons = Vec::new();
    let pods = allocatable.get("pods").copied().unwrap_or_default() / 1_000_000_000;
    if i128::try_from(used.pods).unwrap_or(i128::MAX) >= pods {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in wanted.requests {
        let free = allocatable.get(name).copied().unwrap_or_default()
            - used.amounts.get(name).copied().unwrap_or_default();
        if *amount > 0 && *amount > free {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    reasons
}

fn tolerates_cordon(tolerations: &[Value]) -> bool {
    let cordoned = serde_json::json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ]}});
    untolerated(&cordoned, tolerations, &["NoSchedule"]).is_none()
}

/// Utilisation of a node with the pod, in thousandths; the lowest wins.
pub(super) fn fullness(wanted: &Wanted<'_>, node: &Value, used: &Tally) -> i128 {
    let allocatable = amounts(map(node, "/status/allocatable"));
    let share = |name: &str| {
        let of = |amounts: &Amounts| amounts.get(name).copied().unwrap_or_default();
        let requested = of(&used.amounts) + of(wanted.requests);
        requested
            .saturating_mul(1000)
            .checked_div(of(&allocatable))
            .unwrap_or(1000)
    };
    let pods = i128::try_from(used.pods).unwrap_or(i128::MAX);
    share("cpu")
        .max(share("memory"))
        .saturating_mul(1000)
        .saturating_add(pods)
}

/// Message for a pod that fits no node.
pub(super) fn no_node(nodes: usize, misfits: &[Vec<String>]) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for reason in misfits.iter().flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    reasons.sort();
    let because = if reasons.is_empty() {
        String::new()
    } else {
        format!(" {}.", reasons.join(", "))
    };
    format!(
        "0/{nodes} nodes are available:{because} {}",
        no_preemption(nodes, misfits)
    )
}

/// Part of the message about preemption, which is not simulated.
fn no_preemption(nodes: usize, misfits: &[Vec<String>]) -> String {
    let resources = misfits
        .iter()
        .filter(|reasons| {
            reasons
                .iter()
                .any(|one| one.starts_with("Insufficient") || one.starts_with("Too many"))
        })
        .count();
    let mut parts = Vec::new();
    if resources > 0 {
        parts.push(format!(
            "{resources} No preemption victims found for incoming pod"
        ));
    }
    if nodes > resources {
        parts.push(format!(
            "{} Preemption is not helpful for scheduling",
            nodes - resources
        ));
    }
    parts.sort();
    format!(
        "preemption: 0/{nodes} nodes are available: {}.",
        parts.join(", ")
    )
}
