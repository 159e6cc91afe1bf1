//! Facts about the cluster on which the desired objects depend.

use std::collections::BTreeMap;

use api::kubevirt::install;

use crate::kubevirt::{
    observed::{Observed, Served},
    target::Target,
    tree,
};

use super::workload::{HANDLER, uses_migration_certificate};
use crate::kubevirt::object::{Id, Live};

#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Namespace of the KubeVirt resource.
    pub namespace: &'a str,
    pub served: &'a Served,
    /// Number of nodes that can run virtual machines.
    pub schedulable_nodes: usize,
    /// CA bundles as PEM, by the name of their ConfigMap. With an empty bundle, the objects are built
    /// without one (for display).
    pub bundles: BTreeMap<String, String>,
    pub handlers: Handlers,
}

/// Versions of virt-handler on the nodes. Before v1.7 virt-handler does not support a separate
/// certificate for migrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handlers {
    /// New installation.
    #[default]
    None,
    /// Some node may run a virt-handler without support for that certificate.
    Mixed,
    /// All nodes run a virt-handler that supports it.
    Current,
}

/// Label of nodes that can run virtual machines.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";

impl<'a> Facts<'a> {
    pub fn of(observed: &Observed<'a>, target: &Target) -> Self {
        let namespace = observed.operator.namespace.as_str();
        let is_schedulable = |labels: &BTreeMap<String, String>| {
            labels.get(SCHEDULABLE).is_some_and(|is| is == "true")
        };
        let nodes = observed.nodes.iter();
        let schedulable = nodes.filter(|node| is_schedulable(&node.labels)).count();
        // virt-handler labels the nodes one by one. Counting only the first would scale virt-api down to
        // one replica and up again.
        let is_partial = schedulable == 1 && !is_labelled_everywhere(observed, namespace);
        Self {
            namespace,
            served: observed.served,
            schedulable_nodes: if is_partial { 0 } else { schedulable },
            bundles: bundles(observed, namespace),
            handlers: handlers(observed, target, namespace),
        }
    }
}

/// Whether virt-handler has labelled all nodes that it runs on, with whatever value.
fn is_labelled_everywhere(observed: &Observed<'_>, namespace: &str) -> bool {
    let id = Id::new("apps", "DaemonSet", namespace, HANDLER);
    let handler = observed.objects.get(&id).map(Live::value);
    let wanted = handler
        .as_ref()
        .and_then(|handler| handler.pointer("/status/desiredNumberScheduled")?.as_u64())
        .and_then(|wanted| usize::try_from(wanted).ok());
    let nodes = observed.nodes.iter();
    let labelled = nodes.filter(|node| node.labels.contains_key(SCHEDULABLE));
    wanted.is_none_or(|wanted| labelled.count() >= wanted)
}

fn bundles(observed: &Observed<'_>, namespace: &str) -> BTreeMap<String, String> {
    let config_maps = observed.objects.values().filter(|live| {
        live.id.is("", "ConfigMap") && &*live.id.namespace == namespace && live.is_managed()
    });
    let bundle = |live: &Live| {
        let value = live.value();
        let bundle = tree::text(&value, "/data/ca-bundle").filter(|bundle| !bundle.is_empty())?;
        Some((live.id.name.to_string(), bundle.to_owned()))
    };
    config_maps.filter_map(bundle).collect()
}

fn handlers(observed: &Observed<'_>, target: &Target, namespace: &str) -> Handlers {
    let id = Id::new("apps", "DaemonSet", namespace, HANDLER);
    let Some(live) = observed.objects.get(&id) else {
        return Handlers::None;
    };
    let value = live.value();
    // It is enabled only once all nodes support it.
    if uses_migration_certificate(&value) {
        return Handlers::Current;
    }
    let wanted = value.pointer("/status/desiredNumberScheduled");
    let wanted = wanted.and_then(serde_json::Value::as_u64);
    let of_handler = observed.pods.iter().filter(|pod| {
        let owner = pod.owner.as_ref();
        owner.is_some_and(|(kind, name)| kind == "DaemonSet" && name == HANDLER)
    });
    let (mut current, mut others) = (0, 0);
    for pod in of_handler {
        let is = |annotation: &str, wanted: &str| {
            pod.annotations
                .get(annotation)
                .is_some_and(|is| is == wanted)
        };
        let up_to_date = is(install::STRATEGY_VERSION, &target.version)
            && is(install::STRATEGY_REGISTRY, &target.registry)
            && is(install::STRATEGY_IDENTIFIER, &target.id);
        if up_to_date && pod.ready && !pod.deleting {
            current += 1;
        } else {
            others += 1;
        }
    }
    if others == 0 && current > 0 && wanted.is_some_and(|wanted| wanted <= current) {
        Handlers::Current
    } else {
        Handlers::Mixed
    }
}
