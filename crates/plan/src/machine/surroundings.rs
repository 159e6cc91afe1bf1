use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    Machine, MachineClass, NetworkConfiguration, ObjectMeta,
    core::{ObservedClaim, Secret, StorageClass},
};

use crate::naming;

/// The name of this operator in `spec.machineProviders` of a MachineClass.
pub(crate) const PROVIDER: &str = "kubevirt";

const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// What a Machine refers to, as far as it is known.
///
/// `networks` and `secrets` are those of the Machine's own namespace.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Sizes.
    pub machine_classes: Known<MachineClass>,
    /// Classes of storage.
    pub storage_classes: Known<StorageClass>,
    /// Networks of the namespace.
    pub networks: Known<NetworkConfiguration>,
    /// Secrets of the namespace that Machines take cloud-init from.
    pub secrets: Known<Secret>,
    /// The classes of the disks that the Machine has already, by the disks' names. They stay what
    /// they are, whatever becomes of the class.
    pub kept_classes: BTreeMap<String, String>,
    /// Which namespaces disks may be copied from, besides the Machine's own.
    pub clone_sources: CloneSources,
}

/// Which namespaces disks may be copied from, besides the Machine's own.
///
/// CDI checks the rights of whoever creates a DataVolume, and that is the operator: without this list
/// everybody who may create Machines could copy whatever the operator may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CloneSources {
    /// What the operator allows is not known here.
    #[default]
    Unknown,
    /// These.
    Only(Arc<BTreeSet<String>>),
}

impl CloneSources {
    /// Whether a namespace is among them, as far as that is known.
    pub(crate) fn allow(&self, namespace: &str) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Only(namespaces) => Some(namespaces.contains(namespace)),
        }
    }
}

/// The disks that a Machine has already, by their names, and their claims.
pub(crate) fn disks_of<'a>(
    machine: &Machine,
    claims: impl IntoIterator<Item = &'a ObservedClaim>,
) -> impl Iterator<Item = (&'a str, &'a ObservedClaim)> {
    let machine = machine.metadata.name.as_deref().unwrap_or_default();
    let prefix = naming::claim(machine, "");
    claims.into_iter().filter_map(move |claim| {
        let name = claim.metadata.name.as_deref()?;
        Some((name.strip_prefix(&prefix)?, claim))
    })
}

/// The classes of the disks that a Machine has already, by the disks' names.
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

/// Objects of one kind, by name; a clone shares them.
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

/// What became of looking for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It is there.
    Found(T),
    /// It is not there.
    Missing,
    /// It was not seen, but not everything was looked at.
    Unknown,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self::some([])
    }
}

impl<T> Known<T> {
    /// All there are: what is not among them does not exist.
    pub fn all(objects: impl IntoIterator<Item = (String, Arc<T>)>) -> Self {
        Self {
            by_name: Arc::new(objects.into_iter().collect()),
            complete: true,
        }
    }

    /// Some of them: there may be others.
    pub fn some(objects: impl IntoIterator<Item = (String, Arc<T>)>) -> Self {
        Self {
            by_name: Arc::new(objects.into_iter().collect()),
            complete: false,
        }
    }

    /// Adds an object, or takes a newer version of it.
    pub fn insert(&mut self, name: String, object: Arc<T>) {
        Arc::make_mut(&mut self.by_name).insert(name, object);
    }

    /// Forgets an object.
    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }

    /// Looks for one by name.
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

    /// The newest of those that `is_default` picks, as Kubernetes does for storage classes; of
    /// several equally new ones the first by name.
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
    pub fn default_class(&self) -> Lookup<&MachineClass> {
        self.newest_default(
            |class| &class.metadata,
            |class| class.spec.default == Some(true) && is_enabled(class) && is_offered(class),
        )
    }
}

/// Whether Machines may take a class.
pub(crate) fn is_enabled(class: &MachineClass) -> bool {
    class.spec.enabled != Some(false)
}

/// Whether a class is offered by this operator.
pub(crate) fn is_offered(class: &MachineClass) -> bool {
    match class.spec.machine_providers.as_deref() {
        None | Some([]) => true,
        Some(providers) => providers.iter().any(|provider| provider == PROVIDER),
    }
}

impl Known<StorageClass> {
    /// The cluster's default class.
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
