//! Validation of built-in kinds, with the error texts of kube-apiserver.
//!
//! Covers what users and operators run into: required fields, formats, contradictions, immutable
//! fields. Rarely used fields (Windows options, in-tree cloud volumes, device claims) are not
//! validated.

mod check;
mod cluster;
mod container;
mod core;
mod metadata;
mod names;
mod pod;
mod rbac;
mod storage;
mod webhook;
mod workloads;

use check::Check;
use schema::Violation;
use serde_json::Value;

use crate::Kind;

/// Validates a decoded, defaulted and prepared object beyond `schema::metadata`; with `old`, also
/// immutability.
pub fn validate(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<Violation> {
    let mut check = Check::default();
    metadata::finalizers(&mut check, new);
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::check(&mut check, new, old),
        ("", "Service") => core::service(&mut check, new, old),
        ("", "Secret") => core::secret(&mut check, new, old),
        ("", "ConfigMap") => core::config_map(&mut check, new, old),
        ("" | "events.k8s.io", "Event") => core::event(&mut check, kind, new, old),
        ("", "PersistentVolumeClaim") => storage::claim(&mut check, new, old),
        ("", "PersistentVolume") => storage::volume(&mut check, new, old),
        ("storage.k8s.io", "StorageClass") => storage::class(&mut check, new, old),
        ("apps", "Deployment") => workloads::deployment(&mut check, new, old),
        ("apps", "ReplicaSet") => workloads::replica_set(&mut check, new, old),
        ("apps", "DaemonSet") => workloads::daemon_set(&mut check, new, old),
        ("apps", "StatefulSet") => workloads::stateful_set(&mut check, new, old),
        ("batch", "Job") => workloads::job(&mut check, new, old),
        ("batch", "CronJob") => workloads::cron_job(&mut check, new),
        ("policy", "PodDisruptionBudget") => workloads::disruption_budget(&mut check, new),
        ("rbac.authorization.k8s.io", _) => rbac::check(&mut check, kind, new, old),
        ("coordination.k8s.io", "Lease") => cluster::lease(&mut check, new),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(&mut check, new, old),
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(&mut check, new),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => webhook::check(&mut check, new),
        _ => {}
    }
    check.found
}
