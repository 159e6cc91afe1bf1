//! Objects that a Machine may refer to, and whether all or only some of them are known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    Machine, MachineClass, NetworkConfiguration, NetworkConfigurationInterface, NetworkNamespace,
    ObjectMeta,
    core::{ConfigMap, ObservedClaim, Secret, StorageClass},
};

use super::{
    Attachment, CloudInitSource, PassedOn, Provider, RemoteCluster, SourceKind,
    disk_name::disk_name,
};
use crate::served_fields::ServedFields;

const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The objects that a Machine may refer to, as far as they are known.
///
/// `networks`, `network_namespaces`, `secrets` and `config_maps` are those of the Machine's namespace.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub machine_classes: Known<MachineClass>,
    pub storage_classes: Known<StorageClass>,
    pub networks: Known<NetworkConfiguration>,
    pub network_namespaces: Known<NetworkNamespace>,
    pub secrets: Known<Secret>,
    pub config_maps: Known<ConfigMap>,
    /// The interface that the Machine has already, if its network is that of a NetworkNamespace.
    pub kept_interface: KeptInterface,
    /// StorageClasses of the existing disks, by disk name. Existing disks keep their class, even if it
    /// is deleted.
    pub kept_classes: BTreeMap<String, String>,
    pub clone_sources: CloneSources,
    /// Labels and annotations that the settings name.
    pub passed_on: PassedOn,
    /// This operator's provider.
    pub provider: Provider,
    /// Fields that the API server stores.
    pub served: ServedFields,
    /// The cluster of the Machine's objects, if it is not the Machine's own.
    pub cluster: Option<RemoteCluster>,
}

/// What is known of an interface from existing objects: it keeps them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptInterface {
    /// From the VirtualMachine.
    pub attachment: Option<Attachment>,
    /// From the VirtualMachine, else from the address ledger.
    pub mac_address: Option<String>,
    /// What the address ledger's status says of the interface.
    pub recorded: Option<NetworkConfigurationInterface>,
    /// Whether a VirtualMachine exists that has no network data. It gets none before there is an address.
    pub lacks_network_data: bool,
}

/// Objects that a Machine's cloud-init data comes from.
#[derive(Clone, Debug, Default)]
pub struct CloudInitObjects {
    pub secrets: Known<Secret>,
    pub config_maps: Known<ConfigMap>,
}

impl CloudInitObjects {
    /// The Machine refers to none.
    pub fn none() -> Self {
        Self {
            secrets: Known::all([]),
            config_maps: Known::all([]),
        }
    }

    /// Whether the object of a source is known to have its key.
    pub fn has_key(&self, source: &CloudInitSource<'_>) -> bool {
        let CloudInitSource { name, key, .. } = *source;
        match source.kind {
            SourceKind::Secret => match self.secrets.get(name) {
                Lookup::Found(secret) => key.is_empty() || secret.data.contains_key(key),
                Lookup::Missing | Lookup::Unknown => false,
            },
            SourceKind::ConfigMap => match self.config_maps.get(name) {
                Lookup::Found(map) => {
                    map.data.contains_key(key) || map.binary_data.contains_key(key)
                }
                Lookup::Missing | Lookup::Unknown => false,
            },
        }
    }
}

/// Namespaces that disks may be cloned from, besides the Machine's own.
///
/// CDI checks the rights of the operator, which creates the DataVolume. Without this list, every user
/// who may create Machines could clone whatever the operator may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CloneSources {
    /// The operator's setting is not known, as in offline commands.
    #[default]
    Unknown,
    Only(Arc<BTreeSet<String>>),
}

impl CloneSources {
    /// Whether cloning from a namespace is allowed, if known.
    pub(crate) fn allow(&self, namespace: &str) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Only(namespaces) => Some(namespaces.contains(namespace)),
        }
    }
}

/// Names of the existing disks of a Machine, with their claims.
pub(crate) fn disks_of<'a>(
    machine: &Machine,
    claims: impl IntoIterator<Item = &'a ObservedClaim>,
) -> impl Iterator<Item = (&'a str, &'a ObservedClaim)> {
    let machine = machine.metadata.name.as_deref().unwrap_or_default();
    claims
        .into_iter()
        .filter_map(move |claim| Some((disk_name(machine, &claim.metadata)?, claim)))
}

/// StorageClasses of the existing disks of a Machine, by disk name.
pub(crate) fn kept_classes<'a>(
    machine: &Machine,
    claims: impl IntoIterator<Item = &'a ObservedClaim>,
) -> BTreeMap<String, String> {
    disks_of(machine, claims)
        .filter_map(|(disk, claim)| {
            let class = claim.spec.storage_class_name.clone()?;
            Some((disk.to_owned(), class))
        })
        .collect()
}

/// Objects of one kind by name. Clones share them.
#[derive(Debug)]
pub struct Known<T> {
    by_name: Arc<BTreeMap<String, Arc<T>>>,
    complete: bool,
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self {
            by_name: Arc::clone(&self.by_name),
            complete: self.complete,
        }
    }
}

/// Result of a lookup by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    Found(T),
    Missing,
    /// Not found, but not all objects are known.
    Unknown,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self::some([])
    }
}

impl<T> Known<T> {
    /// All objects of the kind: others do not exist.
    pub fn all(objects: impl IntoIterator<Item = (String, Arc<T>)>) -> Self {
        Self {
            by_name: Arc::new(objects.into_iter().collect()),
            complete: true,
        }
    }

    /// Some objects of the kind: others may exist.
    pub fn some(objects: impl IntoIterator<Item = (String, Arc<T>)>) -> Self {
        Self {
            by_name: Arc::new(objects.into_iter().collect()),
            complete: false,
        }
    }

    pub fn insert(&mut self, name: String, object: Arc<T>) {
        Arc::make_mut(&mut self.by_name).insert(name, object);
    }

    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }

    pub fn get(&self, name: &str) -> Lookup<&T> {
        self.found(self.by_name.get(name))
    }

    fn found<'a>(&self, object: Option<&'a Arc<T>>) -> Lookup<&'a T> {
        match object {
            Some(object) => Lookup::Found(object),
            None if self.complete => Lookup::Missing,
            None => Lookup::Unknown,
        }
    }

    /// The newest object that `is_default` selects, as Kubernetes does for StorageClasses; of several
    /// equally new ones the first by name.
    fn newest_default(
        &self,
        metadata: impl Fn(&T) -> &ObjectMeta,
        is_default: impl Fn(&T) -> bool,
    ) -> Lookup<&T> {
        let newest = self
            .by_name
            .values()
            .rev()
            .filter(|object| is_default(object))
            .max_by_key(|object| metadata(object).creation_timestamp.clone());
        self.found(newest)
    }
}

impl Known<MachineClass> {
    /// The class of Machines that name no size.
    pub fn default_class(&self, provider: &Provider) -> Lookup<&MachineClass> {
        self.newest_default(
            |class| &class.metadata,
            |class| class.spec.default == Some(true) && is_enabled(class) && provider.offers(class),
        )
    }
}

/// Whether Machines may use a class.
pub(crate) fn is_enabled(class: &MachineClass) -> bool {
    class.spec.enabled != Some(false)
}

impl Known<StorageClass> {
    pub(super) fn default_class(&self) -> Lookup<&StorageClass> {
        self.newest_default(
            |class| &class.metadata,
            |class| {
                let annotations = class.metadata.annotations.as_ref();
                annotations
                    .and_then(|a| a.get(DEFAULT_STORAGE_CLASS))
                    .is_some_and(|v| v == "true")
            },
        )
    }
}
