//! Topology spread constraints of pods.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{affinity::admits, is_finished};
use crate::{
    Caches, Object,
    kind::POD,
    object::{is_deleted, label, list, namespace, number, text},
    workloads,
};

/// Number of matching pods in each domain, for each constraint of a pod.
pub(super) struct Spread<'a>(Vec<Constraint<'a>>);

struct Constraint<'a> {
    key: &'a str,
    max_skew: i64,
    is_required: bool,
    pods: BTreeMap<&'a str, i64>,
}

impl<'a> Spread<'a> {
    /// Counts the pods of the namespace that match, on the nodes that the pod admits.
    pub(super) fn of(pod: &'a Value, nodes: &[&'a Object], caches: &Caches) -> Self {
        let constraints = list(pod, "/spec/topologySpreadConstraints").iter();
        let constraints = constraints.map(|constraint| {
            let key = text(constraint, "/topologyKey");
            let admitted = nodes.iter().filter(|node| {
                let spec = pod.get("spec");
                spec.is_none_or(|spec| admits(spec, node))
            });
            let domains: BTreeMap<&str, &str> = admitted
                .filter_map(|node| Some((text(node, "/metadata/name"), label(node, key)?)))
                .collect();
            let mut pods: BTreeMap<&str, i64> =
                domains.values().map(|domain| (*domain, 0)).collect();
            let selector = constraint.get("labelSelector").unwrap_or(&Value::Null);
            let others = caches.all(POD).filter(|other| {
                namespace(other) == namespace(pod)
                    && !is_finished(other)
                    && !is_deleted(other)
                    && workloads::selects(selector, other)
            });
            for other in others {
                let domain = domains.get(text(other, "/spec/nodeName"));
                if let Some(count) = domain.and_then(|domain| pods.get_mut(domain)) {
                    *count += 1;
                }
            }
            Constraint {
                key,
                max_skew: number(constraint, "/maxSkew").unwrap_or(1),
                is_required: text(constraint, "/whenUnsatisfiable") != "ScheduleAnyway",
                pods,
            }
        });
        Self(constraints.collect())
    }

    /// Why a required constraint does not admit a node.
    pub(super) fn misfit(&self, node: &Value) -> Option<&'static str> {
        let mut required = self.0.iter().filter(|constraint| constraint.is_required);
        required.find_map(|constraint| {
            let least = constraint.pods.values().min().copied().unwrap_or_default();
            match constraint.count(node) {
                None => Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ),
                Some(count) if count + 1 - least > constraint.max_skew => {
                    Some("node(s) didn't match pod topology spread constraints")
                }
                Some(_) => None,
            }
        })
    }

    /// Number of matching pods in the domains of a node; the lowest is preferred.
    pub(super) fn crowd(&self, node: &Value) -> i64 {
        let counts = self
            .0
            .iter()
            .map(|it| it.count(node).unwrap_or(i64::from(i32::MAX)));
        counts.sum()
    }
}

impl Constraint<'_> {
    /// Number of pods in the domain of a node; none if it has no such label.
    fn count(&self, node: &Value) -> Option<i64> {
        self.pods.get(label(node, self.key)?).copied()
    }
}
