//! Pod evaluator of ResourceQuota: usage, required requests and limits, scopes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Amounts, add, amounts, items, units};
use crate::object;

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that each container must specify if a quota limits them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

pub(super) fn concerns(name: &str) -> bool {
    let bare = name
        .strip_prefix("requests.")
        .or_else(|| name.strip_prefix("limits."))
        .unwrap_or(name);
    name == "pods"
        || COMPUTE.contains(&bare)
        || bare.starts_with("hugepages-")
        // Extended resources.
        || (name.starts_with("requests.") && bare.contains('/'))
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if has_ended(pod, now) {
        return Amounts::new();
    }
    let total = |of: &str| {
        let mut sum = Amounts::new();
        for container in items(pod, "/spec/containers") {
            add(&mut sum, &amounts(container, &format!("/resources/{of}")));
        }
        // Sidecars count with the containers; other init containers count as the peak before the
        // containers run.
        let mut sidecars = Amounts::new();
        let mut most = Amounts::new();
        for container in items(pod, "/spec/initContainers") {
            let own = amounts(container, &format!("/resources/{of}"));
            let mut together = sidecars.clone();
            add(&mut together, &own);
            for (name, amount) in &together {
                let more = most.get(name).is_none_or(|before| amount > before);
                if more {
                    most.insert(name.clone(), *amount);
                }
            }
            if container.get("restartPolicy").is_some() {
                sidecars = together;
            }
        }
        add(&mut sum, &sidecars);
        for (name, amount) in most {
            if sum.get(&name).is_none_or(|before| amount > *before) {
                sum.insert(name, amount);
            }
        }
        let overhead = amounts(pod, "/spec/overhead");
        let applied = overhead
            .into_iter()
            .filter(|(name, _)| of == "requests" || sum.contains_key(name))
            .collect();
        add(&mut sum, &applied);
        sum
    };
    named(&total("requests"), &total("limits"))
}

/// Requests and limits by their quota resource names.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), units(1))]);
    for (name, amount) in requests {
        let compute = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if compute {
            usage.insert(name.clone(), *amount);
        }
        if compute || name.contains('/') {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if COMPUTE.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// Error text for requests or limits that the quota requires and containers lack.
pub(super) fn missing<'a>(pod: &Value, limited: impl Iterator<Item = &'a str>) -> Option<String> {
    let limited: BTreeSet<&str> = limited.filter(|name| REQUIRED.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers"));
    for container in containers {
        let specified = named(
            &amounts(container, "/resources/requests"),
            &amounts(container, "/resources/limits"),
        );
        let name = container.get("name").and_then(Value::as_str);
        for required in limited
            .iter()
            .filter(|name| !specified.contains_key(**name))
        {
            let containers = missing.entry(required).or_default();
            containers.insert(name.unwrap_or_default());
        }
    }
    if missing.is_empty() {
        return None;
    }
    let parts: Vec<String> = missing
        .iter()
        .map(|(what, containers)| {
            let containers: Vec<&str> = containers.iter().copied().collect();
            format!("{what} for: {}", containers.join(","))
        })
        .collect();
    Some(format!("must specify {}", parts.join("; ")))
}

pub(super) fn is_in_scope(pod: &Value, scope: &str, operator: &str, values: &Value) -> bool {
    let has_deadline = pod
        .pointer("/spec/activeDeadlineSeconds")
        .is_some_and(Value::is_number);
    let class = pod
        .pointer("/spec/priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_listed = || {
        let values = values.as_array().into_iter().flatten();
        !class.is_empty() && values.into_iter().any(|value| value == class)
    };
    match (scope, operator) {
        ("Terminating", _) => has_deadline,
        ("NotTerminating", _) => !has_deadline,
        ("BestEffort", _) => is_best_effort(pod),
        ("NotBestEffort", _) => !is_best_effort(pod),
        ("PriorityClass", "Exists") => !class.is_empty(),
        ("PriorityClass", "DoesNotExist") => class.is_empty(),
        ("PriorityClass", "In") => is_listed(),
        ("PriorityClass", "NotIn") => !is_listed(),
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let mut containers = items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers"));
    containers.all(|container| {
        ["/resources/requests", "/resources/limits"]
            .iter()
            .all(|pointer| {
                amounts(container, pointer).iter().all(|(name, amount)| {
                    !COMPUTE.contains(&name.as_str()) || !amount.is_positive()
                })
            })
    })
}

/// Whether a pod has finished, or should have by its deletion deadline.
fn has_ended(pod: &Value, now: Timestamp) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return true;
    }
    let deleted: Option<Timestamp> = object::meta(pod, "deletionTimestamp").parse().ok();
    let grace = pod
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => deleted
            .checked_add(SignedDuration::from_secs(grace))
            .is_ok_and(|end| now > end),
        _ => false,
    }
}
