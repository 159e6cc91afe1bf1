//! Caches of the Machine controller: one store per kind, updated by watch events and by the answers to
//! the operator's own writes.
//!
//! Each update returns the keys of the resources to reconcile. Only children with the operator's label
//! are watched, so memory depends on the number of Machines alone.

mod admission;
mod affected;
mod left;
mod observe;
mod snapshot;
mod update;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace, ObjectMeta,
    cdi::ObservedDataVolume,
    core::{ObservedClaim, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    multus::NetworkAttachmentDefinition,
};
use plan::{
    machine::{CloneSources, CloudInitSecret, Kind, Known, PassedOn, Provider},
    naming,
    served_fields::{MACHINES, ServedFields},
};
use runtime::cache::{Cache, Key, WatchScope};

use self::affected::{IndexKey, index_keys, machine_of, networks_of};
pub(super) use self::{affected::Affected, observe::Children};
use super::{
    home::Home,
    packed::Packed,
    paths::Owner,
    watched_secret::WatchedSecret,
    watches::{Definition, Installation, Location, Watched},
};

/// Maximum number of Machines that share a MAC address to consider.
const MOST_SHARING: usize = 5;

/// Resource to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Subject {
    pub(super) owner: Owner,
    pub(super) key: Key,
}

impl Subject {
    pub(super) fn machine(key: Key) -> Self {
        Self {
            owner: Owner::Machine,
            key,
        }
    }

    pub(super) fn network(key: Key) -> Self {
        Self {
            owner: Owner::Network,
            key,
        }
    }
}

pub(super) struct Caches {
    pub(super) machines: Cache<Machine, IndexKey>,
    pub(super) networks: Cache<NetworkConfiguration>,
    /// Address ledgers: NetworkConfigurations that are not networks.
    ledgers: Cache<NetworkConfiguration>,
    network_namespaces: Cache<NetworkNamespace>,
    classes: Cache<MachineClass>,
    storage_classes: Cache<StorageClass>,
    attachments: Cache<NetworkAttachmentDefinition>,
    pub(super) virtual_machines: Cache<Packed<ObservedVirtualMachine>>,
    instances: Cache<Packed<ObservedInstance>>,
    claims: Cache<Packed<ObservedClaim>, Key>,
    data_volumes: Cache<Packed<ObservedDataVolume>, Key>,
    secrets: Secrets,
    definitions: Cache<Definition>,
    /// Definitions in the cluster of the virtual machines, if it is another.
    remote_definitions: Cache<Definition>,
    pub(super) configs: Cache<KubevirtConfig>,
    /// Whether the watch of KubevirtConfigs fails, as it does without permission: then only Machines of other
    /// clusters wait for it.
    is_config_watch_failing: bool,
    installations: Cache<Installation>,
    known_classes: Known<MachineClass>,
    known_storage_classes: Known<StorageClass>,
    known_networks: BTreeMap<Arc<str>, Known<NetworkConfiguration>>,
    known_network_namespaces: BTreeMap<Arc<str>, Known<NetworkNamespace>>,
    /// Machines that are deleted with orphaning. The garbage collector may remove its finalizer before
    /// they are reconciled.
    orphaned: BTreeSet<Key>,
    /// UIDs of claims that a live read did not find, by Machine. UIDs are never reused.
    lost_claims: BTreeMap<Key, BTreeSet<String>>,
    /// Disks whose create request got no answer, by Machine. After a restart the list shows them.
    unconfirmed_disks: BTreeMap<Key, BTreeSet<(Kind, String)>>,
    clone_sources: CloneSources,
    passed_on: PassedOn,
    pub(super) provider: Provider,
    pub(super) home: Home,
    /// Fields that the API server stores.
    pub(super) served: ServedFields,
    scopes: Vec<WatchScope>,
}

/// Cache of the operator's Secrets, which are watched only if the settings allow it.
struct Secrets {
    are_watched: bool,
    /// Whether the watch fails, as it does without permission: then nothing waits for it.
    is_failing: bool,
    store: Cache<WatchedSecret>,
}

impl Caches {
    pub(super) fn new(scopes: Vec<WatchScope>) -> Self {
        let of = || scopes.iter().cloned();
        Self {
            machines: Cache::indexed(of(), index_keys),
            networks: Cache::indexed(of(), |_| Vec::new()),
            ledgers: Cache::indexed(of(), |_| Vec::new()),
            network_namespaces: Cache::indexed(of(), |_| Vec::new()),
            classes: Cache::new(),
            storage_classes: Cache::new(),
            attachments: Cache::indexed(of(), |_| Vec::new()),
            virtual_machines: Cache::indexed(of(), |_| Vec::new()),
            instances: Cache::indexed(of(), |_| Vec::new()),
            claims: Cache::indexed(of(), machine_of),
            data_volumes: Cache::indexed(of(), machine_of),
            secrets: Secrets {
                are_watched: false,
                is_failing: false,
                store: Cache::indexed(of(), |_| Vec::new()),
            },
            definitions: Cache::new(),
            remote_definitions: Cache::new(),
            configs: Cache::new(),
            is_config_watch_failing: false,
            installations: Cache::new(),
            known_classes: Known::all([]),
            known_storage_classes: Known::all([]),
            known_networks: BTreeMap::new(),
            known_network_namespaces: BTreeMap::new(),
            orphaned: BTreeSet::new(),
            lost_claims: BTreeMap::new(),
            unconfirmed_disks: BTreeMap::new(),
            clone_sources: CloneSources::default(),
            passed_on: PassedOn::default(),
            provider: Provider::default(),
            home: Home::default(),
            served: ServedFields::default(),
            scopes,
        }
    }

    /// Allows disks to be cloned from these namespaces only.
    pub(super) fn allow_clones_from(self, namespaces: BTreeSet<String>) -> Self {
        Self {
            clone_sources: CloneSources::Only(Arc::new(namespaces)),
            ..self
        }
    }

    /// Passes these labels and annotations on to virtual machines.
    pub(super) fn passing_on(self, passed_on: PassedOn) -> Self {
        Self { passed_on, ..self }
    }

    /// Caches only Machines that this provider manages.
    pub(super) fn of_provider(self, provider: Provider) -> Self {
        Self { provider, ..self }
    }

    /// Serves the Machines whose virtual machines are in one cluster.
    pub(super) fn at_home(self, home: Home) -> Self {
        Self { home, ..self }
    }

    pub(super) fn watch_secrets(&mut self) {
        self.secrets.are_watched = true;
    }

    /// Observed state of the Secret with a Machine's cloud-init data.
    pub(super) fn cloud_init_secret(&self, machine: &Key) -> CloudInitSecret<'_> {
        let Secrets {
            are_watched, store, ..
        } = &self.secrets;
        if !are_watched || !store.synced() {
            return CloudInitSecret::Unobserved { is_verified: true };
        }
        let name = naming::cloud_init_secret(&machine.name);
        match store.get(&Key::new(&machine.namespace, &name)) {
            None => CloudInitSecret::Missing,
            Some(secret) => CloudInitSecret::Present(&secret.metadata),
        }
    }

    /// The address ledger of a Machine.
    pub(super) fn ledger(&self, machine: &Key) -> Option<&NetworkConfiguration> {
        self.ledgers.get(machine).map(Arc::as_ref)
    }

    /// Metadata of a CustomResourceDefinition.
    pub(super) fn definition(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(&Key::new("", name)).map(Arc::as_ref)
    }

    /// Adopts the UID by which objects in another cluster show from where they are managed.
    pub(super) fn note_management_cluster(&mut self) {
        let definition = self.definition(MACHINES);
        let uid = definition.and_then(|it| it.metadata.uid.clone());
        if let Some(uid) = uid {
            self.home.set_managed_from(&uid);
        }
    }

    /// Metadata of the definition of a kind, in the cluster where it is watched.
    fn definition_of(&self, watched: Watched, name: &str) -> Option<&Definition> {
        let is_remote = self.home.remote().is_some() && watched.location() == Location::Workload;
        let definitions = if is_remote {
            &self.remote_definitions
        } else {
            &self.definitions
        };
        definitions.get(&Key::new("", name)).map(Arc::as_ref)
    }

    /// Whether a kind is served. A kind whose definition is being deleted is not, except those with the
    /// operator's finalizers: their definitions wait for it to remove these.
    pub(super) fn is_served(&self, watched: Watched) -> bool {
        match watched {
            Watched::Secrets => return self.secrets.are_watched,
            Watched::RemoteDefinitions => return self.home.remote().is_some(),
            // One controller watches them for all.
            Watched::Configs if self.home.remote().is_some() => return false,
            _ => {}
        }
        let until_gone = matches!(watched, Watched::Machines | Watched::Networks);
        watched.definition().is_none_or(|name| {
            let definition = self.definition_of(watched, name);
            definition.is_some_and(|definition| {
                until_gone || definition.metadata.deletion_timestamp.is_none()
            })
        })
    }

    /// Whether KubeVirt is being removed from the cluster.
    pub(super) fn is_kubevirt_being_removed(&self) -> bool {
        let mut installations = self.installations.iter();
        installations.any(|(_, installation)| installation.metadata.deletion_timestamp.is_some())
    }

    /// Whether all kinds of vitistack.io are served: a Machine cannot be resolved without the others.
    pub(super) fn serves_vitistack(&self) -> bool {
        let all = Watched::ALL.into_iter();
        let mut kinds = all.filter(|watched| watched.is_vitistack());
        kinds.all(|watched| self.is_served(watched))
    }

    pub(super) fn is_synced(&self, watched: Watched) -> bool {
        match watched {
            Watched::Definitions => self.definitions.synced(),
            Watched::RemoteDefinitions => self.remote_definitions.synced(),
            Watched::Configs => self.configs.synced() || self.is_config_watch_failing,
            Watched::Machines => self.machines.synced(),
            Watched::Networks => self.networks.synced(),
            Watched::NetworkNamespaces => self.network_namespaces.synced(),
            Watched::Classes => self.classes.synced(),
            Watched::StorageClasses => self.storage_classes.synced(),
            Watched::Attachments => self.attachments.synced(),
            Watched::VirtualMachines => self.virtual_machines.synced(),
            Watched::Instances => self.instances.synced(),
            Watched::Claims => self.claims.synced(),
            Watched::DataVolumes => self.data_volumes.synced(),
            Watched::Quotas => true,
            Watched::Installations => self.installations.synced(),
            Watched::Secrets => self.secrets.store.synced() || self.secrets.is_failing,
        }
    }

    /// Forgets a kind that is no longer served.
    pub(super) fn forget(&mut self, watched: Watched) {
        match watched {
            Watched::Configs => self.configs.clear(),
            Watched::Machines => self.machines.clear(),
            Watched::Networks => {
                self.networks.clear();
                self.ledgers.clear();
                self.known_networks.clear();
            }
            Watched::NetworkNamespaces => {
                self.network_namespaces.clear();
                self.known_network_namespaces.clear();
            }
            Watched::Classes => {
                self.classes.clear();
                self.known_classes = Known::all([]);
            }
            Watched::Attachments => self.attachments.clear(),
            Watched::VirtualMachines => self.virtual_machines.clear(),
            Watched::Instances => self.instances.clear(),
            Watched::DataVolumes => self.data_volumes.clear(),
            Watched::Installations => self.installations.clear(),
            // These are built in: they are always served.
            Watched::Definitions
            | Watched::RemoteDefinitions
            | Watched::StorageClasses
            | Watched::Claims
            | Watched::Quotas
            | Watched::Secrets => {}
        }
    }

    /// First Machines with a MAC address. The limit bounds the cost of an address that many share.
    fn with_mac_address<'a>(
        &'a self,
        address: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Machine>)> + use<'a> {
        let machines = self
            .machines
            .by_index(&IndexKey::MacAddress(address.into()));
        machines.take(MOST_SHARING)
    }

    /// A NetworkConfiguration, and the Machines that attach to it.
    pub(super) fn attached_to(&self, network: &Key) -> impl Iterator<Item = Subject> + use<> {
        let machines: Vec<_> = self
            .users_of(network)
            .map(|(key, _)| Subject::machine(key.clone()))
            .collect();
        machines
            .into_iter()
            .chain([Subject::network(network.clone())])
    }

    /// Machines that attach to a NetworkConfiguration.
    fn users_of(&self, network: &Key) -> impl Iterator<Item = (&Key, &Arc<Machine>)> {
        self.machines.by_index(&IndexKey::Network(network.clone()))
    }

    /// Machines on the network of a NetworkNamespace.
    fn on_network_of(&self, namespace: &Key) -> impl Iterator<Item = Subject> + use<> {
        let machines = self
            .machines
            .by_index(&IndexKey::NetworkNamespace(namespace.clone()));
        let machines: Vec<_> = machines.map(|(key, _)| key.clone()).collect();
        machines.into_iter().map(Subject::machine)
    }

    /// Machines that may use a class: those that name it, and those that name none.
    pub(super) fn sized_by(&self, class: &str) -> impl Iterator<Item = Subject> {
        let machines = self.machines.iter().filter(move |(_, machine)| {
            let spec = &machine.spec;
            let names = [&spec.template, &spec.instance_type, &spec.machine_class];
            let mut names = names.into_iter().flatten().peekable();
            names.peek().is_none() || names.any(|name| name == class)
        });
        machines.map(|(key, _)| Subject::machine(key.clone()))
    }

    /// Missing NetworkConfigurations of a Machine.
    pub(super) fn missing_networks(&self, machine: &Key) -> Vec<Key> {
        let machine = self.machines.get(machine);
        let mut networks = machine
            .map(|machine| networks_of(machine))
            .unwrap_or_default();
        networks.retain(|network| self.networks.get(network).is_none());
        networks
    }

    pub(super) fn metadata_of(&self, subject: &Subject) -> Option<&ObjectMeta> {
        match subject.owner {
            Owner::Machine => Some(&self.machines.get(&subject.key)?.metadata),
            Owner::Network => Some(&self.networks.get(&subject.key)?.metadata),
        }
    }

    pub(super) fn uid_of(&self, subject: &Subject) -> Option<&str> {
        self.metadata_of(subject)?.uid.as_deref()
    }

    /// All Machines and NetworkConfigurations.
    pub(super) fn all(&self) -> impl Iterator<Item = Subject> {
        let machines = self.machines.iter().map(|(key, _)| key.clone());
        let networks = self.networks.iter().map(|(key, _)| key.clone());
        machines
            .map(Subject::machine)
            .chain(networks.map(Subject::network))
    }
}
