//! Actions of a Machine plan: writes so specific that execution has nothing left to decide.

use std::collections::BTreeMap;

use api::{
    NetworkConfiguration, OwnerReference,
    cdi::DataVolume,
    core::{PersistentVolumeClaim, Secret},
    kubevirt::VirtualMachine,
    multus::NetworkAttachmentDefinition,
};
use serde::Serialize;

pub type Step = crate::Step<Action>;

/// One write, so specific that execution has nothing left to decide.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Adds our finalizer to the reconciled resource.
    AddFinalizer,
    /// Adds our finalizer and the one that records the cluster of the virtual machine, and names the cluster
    /// in the annotation that other programs read if no user did.
    Place { cluster: String, annotate: bool },
    /// Replaces the finalizer of the operator that the Viti stack had before by ours.
    ReplaceFormerFinalizer,
    /// Removes our finalizers from the reconciled resource.
    RemoveFinalizer,
    /// Applies the operator's fields of the reconciled NetworkConfiguration: its finalizer, and the provider
    /// by which operators that allocate addresses skip it.
    ApplyNetwork {
        with_finalizer: bool,
        with_provider: bool,
    },
    /// Creates an object. If the name exists, the object is read and left alone unless it belongs to
    /// this resource.
    Create(Object),
    /// Creates an object that existed before. A live read first confirms that the resource is not being
    /// deleted: a cache may show the garbage collector's deletions before that of the resource.
    Recreate(Object),
    /// Applies an object of the operator with exactly the fields that it owns.
    Apply {
        object: Object,
        uid: String,
        /// Index of the managed-fields entry of our create, if there was no apply since. That entry is
        /// turned into an apply first, so that fields we no longer set are removed.
        created_at: Option<usize>,
    },
    /// Applies a VirtualMachine that lost its owner reference, with the reference. A live read first
    /// confirms that the resource is not being deleted: an orphaning deletion removes the reference
    /// before a cache shows the deletion, and must not be undone.
    RestoreOwner {
        object: Object,
        uid: String,
        created_at: Option<usize>,
    },
    /// Patches labels, annotations or owner references of an object of the operator, and nothing else.
    ChangeMetadata {
        kind: Kind,
        name: String,
        uid: String,
        change: MetadataChange,
    },
    /// Lists which claims the VirtualMachines and instances of the namespace refer to, from the API
    /// server. Always the only step of its plan.
    ObserveReferences,
    /// Reads a recorded claim that is not in the cache, and restores its labels. "Not found" is an
    /// answer, not a failure.
    RecoverClaim {
        name: String,
        uid: String,
        change: MetadataChange,
    },
    /// Reads a claim or DataVolume whose create got no answer and that is not in the cache. "Not found"
    /// or "not of this Machine" is an answer, not a failure.
    ObserveDisk { kind: Kind, name: String },
    /// Reads a VirtualMachine to adopt that no cache shows, and labels it, its instance and the claims of
    /// these volumes, so that caches show them. Does not change it if [`is_controlled_by_other`] says so.
    ///
    /// [`is_controlled_by_other`]: super::is_controlled_by_other
    LabelAdopted { name: String, volumes: Vec<String> },
    /// Creates or updates the cloud-init Secret. Secret data is not watched.
    WriteSecret(Secret),
    /// Deletes the cloud-init Secret if it exists and belongs to the operator.
    DeleteSecret { name: String },
    /// Deletes an object of the operator.
    Delete {
        kind: Kind,
        name: String,
        uid: String,
        /// Precondition: the object has not changed since it was observed.
        resource_version: Option<String>,
    },
    /// Pauses the instance.
    Pause { name: String },
    /// Unpauses the instance.
    Unpause { name: String },
}

/// A change of labels, annotations and owner references, and of the labels of a template; everything else stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetadataChange {
    /// Labels to set, or to remove if `None`.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove if `None`.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Labels to set on the template of a VirtualMachine.
    pub template_labels: BTreeMap<String, String>,
    /// The complete list of owner references, and the resourceVersion that it replaces.
    pub owners: Option<(Vec<OwnerReference>, Option<String>)>,
}

/// An object that the operator creates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Object {
    Claim(PersistentVolumeClaim),
    DataVolume(DataVolume),
    VirtualMachine(Box<VirtualMachine>),
    Attachment(NetworkAttachmentDefinition),
    /// Address ledger of a Machine.
    Ledger(Box<NetworkConfiguration>),
}

/// Kinds that the operator creates and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    PersistentVolumeClaim,
    DataVolume,
    VirtualMachine,
    VirtualMachineInstance,
    NetworkAttachmentDefinition,
    NetworkConfiguration,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::DataVolume => "DataVolume",
            Self::VirtualMachine => "VirtualMachine",
            Self::VirtualMachineInstance => "VirtualMachineInstance",
            Self::NetworkAttachmentDefinition => "NetworkAttachmentDefinition",
            Self::NetworkConfiguration => "NetworkConfiguration",
        }
    }
}

impl Object {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Claim(_) => Kind::PersistentVolumeClaim,
            Self::DataVolume(_) => Kind::DataVolume,
            Self::VirtualMachine(_) => Kind::VirtualMachine,
            Self::Attachment(_) => Kind::NetworkAttachmentDefinition,
            Self::Ledger(_) => Kind::NetworkConfiguration,
        }
    }

    pub fn name(&self) -> &str {
        let metadata = match self {
            Self::Claim(claim) => &claim.metadata,
            Self::DataVolume(volume) => &volume.metadata,
            Self::VirtualMachine(vm) => &vm.metadata,
            Self::Attachment(definition) => &definition.metadata,
            Self::Ledger(ledger) => &ledger.metadata,
        };
        metadata.name.as_deref().unwrap_or_default()
    }
}

impl Action {
    /// Short description for logs.
    pub fn describe(&self) -> String {
        match self {
            Self::AddFinalizer => "Adding the finalizer".to_owned(),
            Self::Place { cluster, .. } => format!("Recording cluster {cluster}"),
            Self::ReplaceFormerFinalizer => {
                "Replacing the finalizer of another operator".to_owned()
            }
            Self::RemoveFinalizer => "Removing the finalizer".to_owned(),
            Self::ApplyNetwork { .. } => "Writing finalizer and provider".to_owned(),
            Self::Create(object) | Self::Recreate(object) => {
                format!("Creating {} {}", object.kind().as_str(), object.name())
            }
            Self::Apply { object, .. } | Self::RestoreOwner { object, .. } => {
                format!("Changing {} {}", object.kind().as_str(), object.name())
            }
            Self::ChangeMetadata { kind, name, .. } => {
                format!("Changing metadata of {} {name}", kind.as_str())
            }
            Self::ObserveReferences => {
                "Listing the VirtualMachines and instances that use its disks".to_owned()
            }
            Self::RecoverClaim { name, .. } => format!("Reading PersistentVolumeClaim {name}"),
            Self::ObserveDisk { kind, name } => format!("Reading {} {name}", kind.as_str()),
            Self::LabelAdopted { name, .. } => {
                format!("Labelling VirtualMachine {name}, which is to be adopted")
            }
            Self::WriteSecret(secret) => {
                let name = secret.metadata.name.as_deref().unwrap_or_default();
                format!("Writing Secret {name}")
            }
            Self::DeleteSecret { name } => format!("Deleting Secret {name}"),
            Self::Delete { kind, name, .. } => format!("Deleting {} {name}", kind.as_str()),
            Self::Pause { name } => format!("Pausing VirtualMachineInstance {name}"),
            Self::Unpause { name } => format!("Unpausing VirtualMachineInstance {name}"),
        }
    }
}
