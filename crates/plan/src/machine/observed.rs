use api::{
    Machine,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
    multus::NetworkAttachmentDefinition,
};

use super::{CloudInitSecret, DigestKey, ErrorType, Kind, LiveReferences, Surroundings};

/// Everything that is known of a Machine: what a decision is made from.
///
/// Children are those that carry our label and the Machine's name; whether they are this very
/// Machine's is for the decision to tell.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// What it refers to.
    pub surroundings: Surroundings,
    /// What there is in the cluster.
    pub installed: Installed,
    /// The VirtualMachine of its name.
    pub virtual_machine: Option<&'a ObservedVirtualMachine>,
    /// The instance of its name.
    pub instance: Option<&'a ObservedInstance>,
    /// Claims with its label, those of CDI included.
    pub claims: Vec<&'a ObservedClaim>,
    /// DataVolumes with its label.
    pub data_volumes: Vec<&'a ObservedDataVolume>,
    /// The Secret with its cloud-init data.
    pub cloud_init_secret: CloudInitSecret<'a>,
    /// The key of digests of cloud-init data; without one, new digests are not keyed.
    pub digest_key: Option<&'a DigestKey>,
    /// Other Machines, of any namespace, that ask for one of its MAC addresses.
    pub mac_address_rivals: Vec<&'a Machine>,
    /// The attachment definitions of ours in its namespace that have the names of its networks.
    pub attachments: Vec<&'a NetworkAttachmentDefinition>,
    /// Which VirtualMachines and instances refer to claims, if it was read.
    pub references: Option<LiveReferences<'a>>,
    /// UIDs of claims that a live read did not find.
    pub lost_claims: Vec<&'a str>,
    /// Claims and DataVolumes, by kind and name, whose create may have taken effect although its answer
    /// got lost.
    pub unconfirmed_disks: Vec<(Kind, &'a str)>,
    /// A deletion that orphans was observed (`kubectl delete --cascade=orphan`), whether or not its
    /// finalizer is still there.
    pub orphaned: bool,
    /// What the API server said to the last attempt, if that failed.
    pub refusal: Option<&'a Refusal>,
}

/// What there is in the cluster.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// KubeVirt's API is served.
    pub kubevirt: bool,
    /// A KubeVirt resource is being deleted, and with it everything that runs on it.
    pub kubevirt_is_removed: bool,
    /// CDI's API is served.
    pub cdi: bool,
    /// Multus' API is served.
    pub multus: bool,
}

/// Why a write did not go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of error it is.
    pub error_type: ErrorType,
    /// What part of the Machine it is about.
    pub part: Part,
    /// Which object, and the API server's own words.
    pub message: String,
    /// False for what passes by itself, such as a conflict or an API server that is away: that is
    /// tried again before a person hears of it.
    pub is_persistent: bool,
}

/// A part of a Machine, each with a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The spec.
    Spec,
    /// Networks.
    Network,
    /// Disks.
    Storage,
    /// The VirtualMachine, its instance and its cloud-init data.
    VirtualMachine,
}

/// Something that keeps a Machine from being what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What part of the Machine it is about.
    pub part: Part,
    /// What kind of error it is; absent for what is only being waited for.
    pub error_type: Option<ErrorType>,
    /// What is in the way, and what to do.
    pub message: String,
}

impl Obstacle {
    /// An object that is not ours has a name that we need.
    pub(super) fn foreign(part: Part, kind: &str, name: &str) -> Self {
        Self {
            part,
            error_type: Some(ErrorType::ForeignObject),
            message: format!(
                "{kind} {name:?} is in the way and does not belong to this Machine: give one of them another name"
            ),
        }
    }

    /// A disk of an earlier Machine of the same name, which has outlived it.
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

    /// A disk that is to be deleted, and that somebody uses.
    pub(super) fn in_use(claim: &str, users: &str, machine_is_deleted: bool) -> Self {
        let otherwise = if machine_is_deleted {
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

    /// An object of an earlier Machine of the same name.
    pub(super) fn of_predecessor(part: Part, kind: &str, name: &str) -> Self {
        Self::waiting(
            part,
            format!(
                "{kind} {name:?} belongs to an earlier Machine of this name and is about to be \
                 deleted: it is created anew once it is gone"
            ),
        )
    }

    /// Something that is only being waited for.
    pub(super) fn waiting(part: Part, message: impl Into<String>) -> Self {
        Self {
            part,
            error_type: None,
            message: message.into(),
        }
    }

    /// Something that a person has to see to.
    pub(super) fn error(part: Part, error_type: ErrorType, message: impl Into<String>) -> Self {
        Self {
            part,
            error_type: Some(error_type),
            message: message.into(),
        }
    }
}
