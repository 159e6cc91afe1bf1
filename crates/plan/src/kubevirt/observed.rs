//! What is known when a plan is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::{Time, kubevirt::install::KubeVirt};

use super::{
    cause::Causes,
    compare::Alike,
    desired::Memo,
    object::{Fingerprint, Id, Live},
    strategy::Strategy,
    target::Operator,
};
use crate::certificates::{BundleCertificate, Pair};

/// Everything that a plan depends on but the time.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The resource that asks for KubeVirt.
    pub kubevirt: &'a KubeVirt,
    /// Other resources of that kind.
    pub others: &'a [OtherKubeVirt],
    /// The operator itself.
    pub operator: &'a Operator,
    /// The strategies that are at hand, by deployment ID.
    pub strategies: &'a BTreeMap<String, Arc<Strategy>>,
    /// Strategies that are at hand and cannot be read, by deployment ID, and why.
    pub unreadable: &'a BTreeMap<String, String>,
    /// Every object of the kinds that an installation has: those that are labelled as managed, and
    /// those whose names a strategy wants. Strategy ConfigMaps are among them without their text,
    /// and so are the Jobs that write them, the operator's Namespace, OpenShift's
    /// SecurityContextConstraints `privileged`, and the Lease of virt-synchronization-controller.
    pub objects: &'a BTreeMap<Id, Live>,
    /// The pods of the components, and of the Jobs that dump strategies.
    pub pods: &'a [Pod],
    /// The cluster's nodes.
    pub nodes: &'a [Node],
    /// What the cluster serves.
    pub served: &'a Served,
    /// What is in the Secrets with certificates, by name. One that is absent or cannot be read is
    /// not in here.
    pub pairs: &'a BTreeMap<String, Pair>,
    /// What is in the ConfigMaps with bundles of CAs, by name, as far as it can be read.
    pub bundles: &'a BTreeMap<String, Vec<BundleCertificate>>,
    /// How many objects the definitions have that were asked about.
    pub counts: &'a BTreeMap<String, Count>,
    /// What came of earlier writes.
    pub memory: &'a Memory,
}

/// Another resource that asks for KubeVirt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherKubeVirt {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Option<Time>,
    /// Whether it has the finalizer: something was installed for it.
    pub installed: bool,
}

/// A pod of a component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The kind and name of what controls it.
    pub owner: Option<(String, String)>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The node it runs on.
    pub node: Option<String>,
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When it was made.
    pub created: Option<Time>,
    /// Why it is not where it should be: the scheduler's words, or a container's.
    pub problem: Option<PodProblem>,
    /// Why it is not ready though it runs, in the words of its condition `Ready`.
    pub not_ready: Option<String>,
    /// How often its containers ended and were started again, in all.
    pub restarts: i64,
    /// Its IP addresses.
    pub addresses: Vec<String>,
}

/// Why a pod is not ready, in the words of the scheduler or of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    /// The container, if it is one's.
    pub container: Option<String>,
    /// In a word: Unschedulable, ErrImagePull, CrashLoopBackOff...
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints, as key, value and effect.
    pub taints: Vec<(String, String, String)>,
    /// Whether it takes no more pods.
    pub unschedulable: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Its architecture, as Go names it.
    pub architecture: String,
}

/// What the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The version to use of each kind, by group and kind.
    pub kinds: BTreeMap<(String, String), String>,
    /// Namespaces and service accounts of Prometheus that were found, as `namespace/account`.
    pub monitors: BTreeSet<String>,
    /// Kinds whose objects the API server does not let us see.
    pub unreadable_kinds: Vec<UnreadableKind>,
}

/// A kind whose objects the API server does not let us see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableKind {
    /// The kind.
    pub kind: String,
    /// The API server's words.
    pub message: String,
    /// Whether nothing can be done without. One that is not required is not among the kinds.
    pub required: bool,
}

impl fmt::Display for UnreadableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, message, .. } = self;
        write!(
            f,
            "objects of kind {kind} cannot be seen: {message}. Give the operator the rights to get, \
             list and watch them"
        )
    }
}

impl Served {
    /// What to say of the kinds that are not seen, of those that are required or of all.
    pub(super) fn unreadable_kind(&self, required: bool) -> Option<String> {
        let unreadable = self.unreadable_kinds.iter();
        let mut unreadable = unreadable.filter(|unreadable| unreadable.required || !required);
        unreadable.next().map(UnreadableKind::to_string)
    }

    /// Whether a kind is served.
    pub fn has(&self, group: &str, kind: &str) -> bool {
        self.kinds
            .contains_key(&(group.to_owned(), kind.to_owned()))
    }
}

/// How many objects a definition has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// How many; a few stand for many.
    pub objects: usize,
    /// Some of their names, with the namespace.
    pub names: Vec<String>,
    /// Whether all of them are being deleted.
    pub deleting: bool,
    /// Finalizers that hold those that are being deleted.
    pub finalizers: BTreeSet<String>,
    /// When they were counted.
    pub at: Time,
}

/// What came of earlier writes. It is lost with the process, and nothing depends on it but how
/// often something is tried.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Objects as they were after we applied what has that fingerprint. The API server knows best
    /// what it made of it: as long as the object stays as it is, that counts as applied.
    pub applied: BTreeMap<Id, (Fingerprint, Fingerprint)>,
    /// Writes that were refused, and have not succeeded since.
    pub refusals: BTreeMap<Id, Refusal>,
    /// Refusals whose cause objects share, such as a webhook that does not answer: their stage waits as
    /// one, and one of them is tried first.
    pub causes: Causes,
    /// When the message of `Progressing` was last written with another text.
    pub progress_at: Option<Time>,
    /// Objects that were found to be as wanted.
    pub alike: Alike,
    /// The objects that were made last.
    pub made: Memo,
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
    /// The status code; zero without an answer.
    pub fn code(self) -> u16 {
        match self {
            Self::Status(code) => code,
            Self::Unanswered | Self::NotSent => 0,
        }
    }
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The API server's message.
    pub message: String,
    pub error: WriteError,
    /// Since when.
    pub since: Time,
    /// What was refused.
    pub fingerprint: Option<Fingerprint>,
    /// Not before.
    pub retry_at: Time,
}
