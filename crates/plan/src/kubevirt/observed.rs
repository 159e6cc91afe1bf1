//! Observed state: the input of a plan for a KubeVirt resource.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::{Time, kubevirt::install::KubeVirt};
use apimachinery::retry_ledger::RetryLedger;

use super::{
    cause::Causes,
    object::{Fingerprint, Id, Live},
    strategy::Strategy,
    target::Operator,
};
use crate::certificates::{BundleCertificate, Pair};

/// Everything that a plan depends on, except the time.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The resource that is reconciled.
    pub kubevirt: &'a KubeVirt,
    pub others: &'a [OtherKubeVirt],
    pub operator: &'a Operator,
    /// Install strategies that have been read, by deployment ID.
    pub strategies: &'a BTreeMap<String, Arc<Strategy>>,
    /// Why an install strategy cannot be parsed, by deployment ID.
    pub unreadable: &'a BTreeMap<String, String>,
    /// Objects of the kinds of an installation: all with the managed-by label, and all whose names a
    /// strategy contains. Also strategy ConfigMaps (without their text), the Jobs that write them, the
    /// operator's Namespace, OpenShift's SecurityContextConstraints `privileged`, and the Lease of
    /// virt-synchronization-controller.
    pub objects: &'a BTreeMap<Id, Live>,
    /// Pods of the components and of strategy Jobs.
    pub pods: &'a [Pod],
    pub nodes: &'a [Node],
    pub served: &'a Served,
    /// Certificates by the name of their Secret. Without Secrets that are absent or cannot be parsed.
    pub pairs: &'a BTreeMap<String, Pair>,
    /// Certificates of CA bundles by the name of their ConfigMap, as far as they can be parsed.
    pub bundles: &'a BTreeMap<String, Vec<BundleCertificate>>,
    /// Counts of objects by the name of their definition.
    pub counts: &'a BTreeMap<String, Count>,
    pub memory: &'a Memory,
}

/// Another KubeVirt resource of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherKubeVirt {
    pub namespace: String,
    pub name: String,
    pub created: Option<Time>,
    /// Whether it has the operator's finalizer, hence an installation.
    pub installed: bool,
}

/// A pod of a component or of a strategy Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub name: String,
    /// Kind and name of its controller.
    pub owner: Option<(String, String)>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub node: Option<String>,
    pub phase: PodPhase,
    pub ready: bool,
    pub deleting: bool,
    pub created: Option<Time>,
    /// Reported by the scheduler or for a container.
    pub problem: Option<PodProblem>,
    /// Message of the condition `Ready` of a running pod that is not ready.
    pub not_ready: Option<String>,
    /// Sum over all containers.
    pub restarts: i64,
    pub addresses: Vec<String>,
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// Unknown, absent, or a phase of a later Kubernetes.
    #[default]
    Unknown,
}

impl From<&str> for PodPhase {
    fn from(phase: &str) -> Self {
        match phase {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

/// Why a pod does not start, as the scheduler or the kubelet reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    pub container: Option<String>,
    /// Unschedulable, ErrImagePull, CrashLoopBackOff...
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// Key, value and effect.
    pub taints: Vec<(String, String, String)>,
    pub unschedulable: bool,
    pub ready: bool,
    /// As in GOARCH.
    pub architecture: String,
}

/// API discovery: what the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The version to use, by group and kind.
    pub kinds: BTreeMap<(String, String), String>,
    /// Service accounts of Prometheus that exist, as `namespace/account`.
    pub monitors: BTreeSet<String>,
    pub unreadable_kinds: Vec<UnreadableKind>,
}

/// A kind that the operator has no right to list and watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableKind {
    pub kind: String,
    /// The API server's message.
    pub message: String,
    /// Whether the operator cannot work without it. Other kinds are not in [`Served::kinds`].
    pub required: bool,
}

impl fmt::Display for UnreadableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, message, .. } = self;
        write!(
            f,
            "the operator cannot read objects of kind {kind}: {message}. Grant it the verbs get, \
             list and watch for them"
        )
    }
}

impl Served {
    /// Describes the first kind that cannot be read, of all or of the required kinds only.
    pub(super) fn unreadable_kind(&self, required: bool) -> Option<String> {
        let mut kinds = self.unreadable_kinds.iter();
        let kind = kinds.find(|kind| kind.required || !required);
        kind.map(UnreadableKind::to_string)
    }

    pub fn has(&self, group: &str, kind: &str) -> bool {
        self.kinds
            .contains_key(&(group.to_owned(), kind.to_owned()))
    }
}

/// Number of objects of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The count stops after a few.
    pub objects: usize,
    /// Namespaces and names of some of them.
    pub names: Vec<String>,
    /// Whether all of them are being deleted.
    pub deleting: bool,
    /// Finalizers of those that are being deleted.
    pub finalizers: BTreeSet<String>,
    pub at: Time,
}

/// Results of earlier writes. They are lost with the process; only the number of requests depends
/// on them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Fingerprints of an applied object and of the live object after that apply. While the live
    /// object does not change, it counts as up to date, whatever defaults the API server added.
    pub applied: BTreeMap<Id, (Fingerprint, Fingerprint)>,
    /// Writes that failed and have not succeeded since.
    pub refusals: RetryLedger<Id, Refusal, Time>,
    /// Refusals with a shared cause, such as a webhook without a server: one object is retried before
    /// the others.
    pub causes: Causes,
    /// When the message of `Progressing` last changed.
    pub progress_at: Option<Time>,
}

/// Where a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The API server refused it with this status code.
    Status(u16),
    /// The API server did not answer.
    Unanswered,
    /// The operator did not send it.
    NotSent,
}

impl WriteError {
    /// The status code of the answer, if there was one.
    pub fn code(self) -> Option<u16> {
        match self {
            Self::Status(code) => Some(code),
            Self::Unanswered | Self::NotSent => None,
        }
    }
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The API server's message.
    pub message: String,
    pub error: WriteError,
    pub since: Time,
    /// Fingerprint of the write; None for a deletion.
    pub fingerprint: Option<Fingerprint>,
}
