use std::collections::BTreeMap;

use api::{
    OwnerReference,
    cdi::DataVolume,
    core::{PersistentVolumeClaim, Secret},
    kubevirt::VirtualMachine,
    multus::NetworkAttachmentDefinition,
};
use serde::Serialize;

use crate::Event;

/// A write that is needed, with what to tell people once it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The write.
    pub action: Action,
    /// Why, for logs and for the command `plan`.
    pub reason: String,
    /// What to tell people once it is done.
    pub event: Option<Event>,
}

/// A write so specific that there is no choice left in carrying it out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Adds our finalizer to the resource itself.
    AddFinalizer,
    /// Lets go of the resource itself.
    RemoveFinalizer,
    /// Creates an object. One of that name that is there already is looked at, and left alone
    /// unless it is this resource's own.
    Create(Object),
    /// Creates an object that existed before. First a live read confirms that the resource is not being
    /// deleted: the garbage collector deletes what a resource owned, and a cache may show that before it
    /// shows the deletion of the resource.
    Recreate(Object),
    /// Changes an object of ours: what is in `object` is what we own of it.
    Apply {
        /// What we own of it.
        object: Object,
        /// Only this very object.
        uid: String,
        /// Where in its managed fields our creation of it stands, if it was not applied yet. It is
        /// turned into an apply first, so that fields we no longer give go away.
        created_at: Option<usize>,
    },
    /// Applies a VirtualMachine that lost its owner reference, with the reference. First a live read
    /// confirms that the resource is not being deleted: a deletion that orphans removes the reference
    /// before a cache shows the deletion, and must not be undone.
    RestoreOwner {
        /// What we own of it.
        object: Object,
        /// Only this very object.
        uid: String,
        /// As in [`Action::Apply`].
        created_at: Option<usize>,
    },
    /// Changes labels, annotations or owner references of an object of ours, and nothing else.
    ChangeMetadata {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Only this very object.
        uid: String,
        /// What changes.
        change: MetadataChange,
    },
    /// Reads which claims VirtualMachines and instances of the namespace refer to, from the API server
    /// and not from a cache. Changes nothing; it is always the only step of its plan.
    ObserveReferences,
    /// Reads a claim that is recorded and not in the cache, and puts its labels back. That it is gone is
    /// an answer, and no failure.
    RecoverClaim {
        /// Its name.
        name: String,
        /// Only this very object.
        uid: String,
        /// Its labels.
        change: MetadataChange,
    },
    /// Reads a claim or DataVolume whose create got no answer and that is not in the cache. That there is
    /// none, or none of this Machine, is an answer, and no failure.
    ObserveDisk {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// Writes the Secret with cloud-init's data, whether or not it is there: Secrets are not
    /// watched.
    WriteSecret(Secret),
    /// Deletes the Secret with cloud-init's data, if it is there and ours.
    DeleteSecret {
        /// Its name.
        name: String,
    },
    /// Deletes an object of ours.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Only this very object.
        uid: String,
        /// Only as we saw it.
        resource_version: Option<String>,
    },
    /// Holds the CPUs of the instance.
    Pause {
        /// Its name.
        name: String,
    },
    /// Lets the CPUs of the instance go on.
    Unpause {
        /// Its name.
        name: String,
    },
}

/// A change of labels, annotations and owner references. What it does not name stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataChange {
    /// Labels to set, or to remove where there is no value.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: BTreeMap<String, Option<String>>,
    /// All owner references there are to be, and the version that this is a change of.
    pub owners: Option<(Vec<OwnerReference>, Option<String>)>,
}

/// An object that we make.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Object {
    /// An empty disk.
    Claim(PersistentVolumeClaim),
    /// A disk that CDI fills.
    DataVolume(DataVolume),
    /// The machine.
    VirtualMachine(Box<VirtualMachine>),
    /// A network.
    Attachment(NetworkAttachmentDefinition),
}

/// The kinds that we make and watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A disk.
    PersistentVolumeClaim,
    /// A disk that CDI fills.
    DataVolume,
    /// A machine.
    VirtualMachine,
    /// One run of a machine.
    VirtualMachineInstance,
    /// A network.
    NetworkAttachmentDefinition,
}

impl Kind {
    /// The name that users know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::DataVolume => "DataVolume",
            Self::VirtualMachine => "VirtualMachine",
            Self::VirtualMachineInstance => "VirtualMachineInstance",
            Self::NetworkAttachmentDefinition => "NetworkAttachmentDefinition",
        }
    }
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Claim(_) => Kind::PersistentVolumeClaim,
            Self::DataVolume(_) => Kind::DataVolume,
            Self::VirtualMachine(_) => Kind::VirtualMachine,
            Self::Attachment(_) => Kind::NetworkAttachmentDefinition,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        let metadata = match self {
            Self::Claim(claim) => &claim.metadata,
            Self::DataVolume(volume) => &volume.metadata,
            Self::VirtualMachine(vm) => &vm.metadata,
            Self::Attachment(definition) => &definition.metadata,
        };
        metadata.name.as_deref().unwrap_or_default()
    }
}

impl Action {
    /// What it does, in a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::AddFinalizer => "Adding the finalizer".to_owned(),
            Self::RemoveFinalizer => "Removing the finalizer".to_owned(),
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
