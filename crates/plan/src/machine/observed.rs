//! Observed state of a Machine, and obstacles to its desired state.

use api::{
    Machine, NetworkConfiguration,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
    multus::NetworkAttachmentDefinition,
};

use super::{CloudInitSecret, DigestKey, ErrorType, Kind, LiveReferences, Surroundings};

/// Observed state of a Machine: the input of a plan.
///
/// Children are selected by label and name. The plan decides whether they belong to this Machine.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub machine: &'a Machine,
    pub surroundings: Surroundings,
    pub installed: Installed,
    pub virtual_machine: Option<&'a ObservedVirtualMachine>,
    pub instance: Option<&'a ObservedInstance>,
    /// Claims with its label, including those that CDI created.
    pub claims: Vec<&'a ObservedClaim>,
    pub data_volumes: Vec<&'a ObservedDataVolume>,
    pub cloud_init_secret: CloudInitSecret<'a>,
    /// Key for digests of cloud-init data. Without one, new digests are not keyed.
    pub digest_key: Option<&'a DigestKey>,
    /// Other Machines, in any namespace, that request one of its MAC addresses.
    pub mac_address_rivals: Vec<&'a Machine>,
    /// Attachment definitions in its namespace with the names of its networks.
    pub attachments: Vec<&'a NetworkAttachmentDefinition>,
    /// The NetworkConfiguration with the Machine's name: its address ledger, or a foreign object.
    pub ledger: Option<&'a NetworkConfiguration>,
    /// Result of a live read of references to claims, if there was one.
    pub references: Option<LiveReferences<'a>>,
    /// UIDs of claims that a live read did not find.
    pub lost_claims: Vec<&'a str>,
    /// Claims and DataVolumes, by kind and name, whose create got no answer and may have succeeded.
    pub unconfirmed_disks: Vec<(Kind, &'a str)>,
    /// An orphaning deletion (`kubectl delete --cascade=orphan`) was observed, even if its finalizer is
    /// gone.
    pub orphaned: bool,
    /// The failure of the last attempt, if it failed.
    pub refusal: Option<&'a Refusal>,
}

/// APIs that the cluster serves.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    pub kubevirt: bool,
    /// A KubeVirt resource is being deleted.
    pub kubevirt_is_removed: bool,
    pub cdi: bool,
    pub multus: bool,
}

/// Failure of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error_type: ErrorType,
    pub part: Part,
    /// The object, and the API server's message.
    pub message: String,
    /// False for failures that are likely to pass, such as a conflict or an unreachable API server: they
    /// are retried before they are reported.
    pub is_persistent: bool,
}

/// A part of a Machine that has its own condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Spec,
    Network,
    Storage,
    /// The VirtualMachine, its instance and its cloud-init data.
    VirtualMachine,
}

/// Something that keeps a Machine from its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub part: Part,
    /// Absent while the operator only waits.
    pub error_type: Option<ErrorType>,
    /// The problem and its remedy.
    pub message: String,
}

impl Obstacle {
    /// A foreign object has a name that the operator needs.
    pub(super) fn foreign(part: Part, kind: &str, name: &str) -> Self {
        Self {
            part,
            error_type: Some(ErrorType::ForeignObject),
            message: format!(
                "{kind} {name:?} already exists and does not belong to this Machine: give one of them another name"
            ),
        }
    }

    /// A disk that an earlier Machine of the same name left behind.
    pub(crate) fn left_behind(kind: &str, name: &str) -> Self {
        Self {
            part: Part::Storage,
            error_type: Some(ErrorType::ForeignObject),
            message: format!(
                "{kind} {name:?} was left behind by an earlier Machine of this name: annotate this Machine with {}: \"true\" to use it, or give this Machine another name",
                labels::ADOPT_DISKS
            ),
        }
    }

    /// A disk that cannot be deleted because it is in use.
    pub(super) fn in_use(claim: &str, users: &str, machine_is_terminating: bool) -> Self {
        let otherwise = if machine_is_terminating {
            "set spec.deletionPolicy of this Machine to Retain"
        } else {
            "list the disk in spec.disks again"
        };
        Self {
            part: Part::Storage,
            error_type: Some(ErrorType::DiskInUse),
            message: format!(
                "PersistentVolumeClaim {claim} is used by {users}, so it is not deleted: remove it from there, or {otherwise} to keep it"
            ),
        }
    }

    /// An object of an earlier Machine of the same name, about to be deleted.
    pub(super) fn of_predecessor(part: Part, kind: &str, name: &str) -> Self {
        Self::waiting(
            part,
            format!(
                "{kind} {name:?} belongs to an earlier Machine of this name and is about to be \
                 deleted: the operator creates a new one afterwards"
            ),
        )
    }

    /// Something to wait for.
    pub(super) fn waiting(part: Part, message: impl Into<String>) -> Self {
        Self {
            part,
            error_type: None,
            message: message.into(),
        }
    }

    /// Something that a user has to fix.
    pub(super) fn error(part: Part, error_type: ErrorType, message: impl Into<String>) -> Self {
        Self {
            part,
            error_type: Some(error_type),
            message: message.into(),
        }
    }
}
