//! Clusters of virtual machines: in which cluster the virtual machine of a Machine is, and what is reported
//! while the operator cannot act there.
//!
//! - A Machine without a record has its virtual machine in its own cluster. For any other cluster a finalizer
//!   with the cluster's name records it, together with the operator's finalizer and before anything is
//!   created, so that no later change of an annotation or a setting creates a second virtual machine.
//! - While a cluster cannot be used, nothing is planned for its Machines but the release that a user asks for.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use api::{Machine, MachineStatus, NetworkConfiguration, ObjectMeta, Phase, Time, labels};

use super::{
    Action, Identity, Note, Observed, Plan, Provider, Step,
    plan::ledger::delete_own,
    protection::is_protected,
    status::{CLUSTER_UNKNOWN, CLUSTER_UNREACHABLE, READY},
};
use crate::{Event, conditions, served_fields::ServedFields};

/// Longest name of a KubevirtConfig that a finalizer and a label can record.
const MAX_NAME: usize = 63;

/// A cluster of virtual machines other than that of the Machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCluster {
    /// Name of its KubevirtConfig.
    pub name: Arc<str>,
    /// UID of the definition of Machines, which distinguishes management clusters; absent offline.
    pub managed_from: Option<Arc<str>>,
}

/// The cluster in which the virtual machine of a Machine is, or is to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmCluster<'a> {
    /// That of the Machine.
    Local,
    /// That of the KubevirtConfig of this name.
    Remote(&'a str),
}

impl<'a> VmCluster<'a> {
    /// The placement of a Machine. `default` is that of Machines which name no cluster.
    pub fn of(machine: &'a Machine, default: Option<&'a str>) -> Self {
        if let Some(recorded) = Self::recorded(&machine.metadata) {
            return recorded;
        }
        if let Some(requested) = requested(&machine.metadata) {
            return Self::Remote(requested);
        }
        // Another client may have removed the finalizers.
        let status = machine.status.as_ref();
        if status.is_some_and(|status| status.machine_id.is_some()) {
            return Self::Local;
        }
        default.map_or(Self::Local, Self::Remote)
    }

    /// The placement that the finalizers record, once the operator has acted.
    fn recorded(metadata: &'a ObjectMeta) -> Option<Self> {
        let finalizers = || metadata.finalizers.iter().flatten();
        let cluster = finalizers().find_map(|it| it.strip_prefix(labels::CLUSTER_FINALIZER));
        match cluster {
            Some(cluster) => Some(Self::Remote(cluster)),
            None => finalizers()
                .any(|it| it == labels::FINALIZER)
                .then_some(Self::Local),
        }
    }
}

/// The finalizer that records a cluster.
pub fn cluster_finalizer(cluster: &str) -> String {
    format!("{}{cluster}", labels::CLUSTER_FINALIZER)
}

/// Whether finalizers and labels can record a cluster of this name.
pub fn is_cluster_name(name: &str) -> bool {
    name.len() <= MAX_NAME && crate::naming::is_dns_name(name)
}

/// Labels of all objects of a Machine.
pub fn child_labels(machine: &Identity) -> BTreeMap<String, String> {
    child_label_entries(machine).collect()
}

pub(super) fn child_label_entries(machine: &Identity) -> impl Iterator<Item = (String, String)> {
    let cluster = machine.cluster.as_ref();
    let managed_from = cluster.and_then(|cluster| cluster.managed_from.as_deref());
    let uid = cluster.and(machine.uid.as_deref());
    let labels = [
        Some((labels::MANAGED_BY, labels::MANAGER)),
        Some((labels::MACHINE, &*machine.name)),
        uid.map(|uid| (labels::MACHINE_UID, uid)),
        cluster.map(|cluster| (labels::WORKLOAD_CLUSTER, &*cluster.name)),
        managed_from.map(|uid| (labels::MANAGED_FROM, uid)),
    ];
    let labels = labels.into_iter().flatten();
    labels.map(|(label, value)| (label.to_owned(), value.to_owned()))
}

/// The annotations of a Machine that name another cluster than the one in which its virtual machine is.
pub(crate) fn ignored_annotations(machine: &Machine) -> Vec<Note> {
    let Some(recorded) = VmCluster::recorded(&machine.metadata) else {
        return Vec::new();
    };
    let place = match recorded {
        VmCluster::Local => "this cluster".to_owned(),
        VmCluster::Remote(cluster) => format!("cluster {cluster:?}"),
    };
    let is_other = |value: &&str| VmCluster::Remote(value) != recorded;
    let note = |name: &str, message| Note {
        path: format!("metadata.annotations[{name}]"),
        message,
    };
    let config = requested(&machine.metadata).filter(is_other).map(|value| {
        let message = format!(
            "{value:?} is ignored: the virtual machine is in {place} and is not moved; to have it elsewhere, \
             delete the Machine and create it again"
        );
        note(labels::KUBEVIRT_CONFIG, message)
    });
    let release = text(&machine.metadata, labels::RELEASE).filter(is_other);
    let release = release.map(|value| {
        let message = format!("{value:?} is ignored: the virtual machine is in {place}");
        note(labels::RELEASE, message)
    });
    config.into_iter().chain(release).collect()
}

/// The cluster that a Machine names.
pub fn requested(machine: &ObjectMeta) -> Option<&str> {
    text(machine, labels::KUBEVIRT_CONFIG)
}

fn text<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    let value = annotations.get(name)?.as_str();
    (!value.is_empty()).then_some(value)
}

/// Whether the Machine records the cluster that it is planned for. Its own cluster needs no record.
pub(super) fn is_placed(observed: &Observed<'_>) -> bool {
    let Some(cluster) = &observed.surroundings.cluster else {
        return true;
    };
    let has = |wanted: &str| {
        let mut finalizers = observed.machine.metadata.finalizers.iter().flatten();
        finalizers.any(|found| found == wanted)
    };
    has(labels::FINALIZER) && has(&cluster_finalizer(&cluster.name))
}

/// The write that records the cluster.
pub(super) fn place(observed: &Observed<'_>) -> Option<Step> {
    let cluster = observed.surroundings.cluster.as_ref()?;
    if is_placed(observed) {
        return None;
    }
    let named = requested(&observed.machine.metadata);
    Some(Step {
        action: Action::Place {
            cluster: cluster.name.to_string(),
            annotate: named.is_none_or(|named| named == &*cluster.name),
        },
        reason: format!("its virtual machine is in cluster {}", cluster.name),
        event: None,
    })
}

/// How messages name the cluster of the virtual machine.
pub(super) fn described(observed: &Observed<'_>) -> String {
    match &observed.surroundings.cluster {
        None => "this cluster".to_owned(),
        Some(cluster) => format!("cluster {}", cluster.name),
    }
}

/// Why the operator cannot act in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterProblem {
    pub kind: ClusterProblemKind,
    /// The problem and its remedy. Stays the same while the problem lasts.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterProblemKind {
    /// There is no usable KubevirtConfig, or no usable kubeconfig.
    Unknown,
    /// Its API server does not answer, or refuses the operator.
    Unreachable,
}

/// A Machine whose cluster cannot be used.
#[derive(Clone, Copy, Debug)]
pub struct Unavailable<'a> {
    pub machine: &'a Machine,
    pub cluster: &'a str,
    pub problem: &'a ClusterProblem,
    pub ledger: Option<&'a NetworkConfiguration>,
    pub provider: &'a Provider,
    pub served: &'a ServedFields,
}

impl Unavailable<'_> {
    /// Plan of a Machine whose cluster cannot be used: nothing, unless it is to be released.
    pub fn plan(&self, now: &Time) -> Plan {
        let metadata = &self.machine.metadata;
        let is_deleted = metadata.deletion_timestamp.is_some();
        let mut finalizers = metadata.finalizers.iter().flatten();
        let is_held = finalizers.any(|it| it == labels::FINALIZER);
        let is_released = text(metadata, labels::RELEASE) == Some(self.cluster);
        let steps = if is_deleted && is_held && is_released && !is_protected(self.machine) {
            self.release()
        } else {
            Vec::new()
        };
        let (status, events) = self.status(is_deleted && is_held, now);
        Plan {
            steps,
            status,
            events,
            requeue_after: None,
            obstacles: Vec::new(),
            errors: Vec::new(),
            needs_cloud_init: false,
            differences: Vec::new(),
        }
    }

    fn release(&self) -> Vec<Step> {
        let uid = self.machine.metadata.uid.as_deref();
        let ledger = self.ledger.and_then(|ledger| delete_own(ledger, uid));
        let message = format!(
            "Released from cluster {}, as the annotation {} asks: its virtual machine and disks are left behind \
             there if the cluster still exists",
            self.cluster,
            labels::RELEASE
        );
        let release = Step {
            action: Action::RemoveFinalizer,
            reason: "the Machine is released from its cluster".to_owned(),
            event: Some(Event::warning("Released", message)),
        };
        ledger.into_iter().chain([release]).collect()
    }

    fn status(&self, waits: bool, now: &Time) -> (MachineStatus, Vec<Event>) {
        let reason = match self.problem.kind {
            ClusterProblemKind::Unknown => CLUSTER_UNKNOWN,
            ClusterProblemKind::Unreachable => CLUSTER_UNREACHABLE,
        };
        let mut message = self.problem.message.clone();
        if waits {
            message = format!(
                "{message}; the Machine is deleted once its virtual machine is. If the cluster is gone for \
                 good, annotate the Machine with {}: {:?}",
                labels::RELEASE,
                self.cluster
            );
        }
        let message = conditions::bounded(message);
        let old = self.machine.status.clone().unwrap_or_default();
        let was = conditions::find(old.conditions.as_deref(), READY);
        if was.is_some_and(|was| was.reason == reason && was.message == message) {
            return (old, Vec::new());
        }
        let is_new = was.is_none_or(|was| was.reason != reason);
        let event = is_new.then(|| Event::warning(reason, message.clone()));
        let generation = self.machine.metadata.generation;
        let conditions = conditions::with_unknown(
            old.conditions.as_deref(),
            (READY, reason, message),
            generation,
            now,
        );
        let status = MachineStatus {
            phase: Some(old.phase.unwrap_or(Phase::Pending)),
            provider: Some(self.provider.to_string()),
            conditions: Some(conditions),
            last_updated: Some(now.clone()),
            ..old
        };
        let status = self.served.machine_status(Cow::Owned(status)).into_owned();
        (status, event.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
