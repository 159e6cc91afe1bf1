//! Updates of the caches by watch events and by the answers to the operator's own writes.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    Machine, NetworkConfiguration, NetworkNamespace,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    multus::NetworkAttachmentDefinition,
};
use plan::{
    admission::machine::mac_addresses,
    machine::{Kind, Known, PassedOn, network_namespace},
};
use runtime::{
    cache::{Cache, CachedObject, Delta, Key, WatchScope},
    reflector::WatchEvent,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Caches, Subject,
    affected::{
        Affected, claims_changed, is_replaced, machines_changed, of_machines, secrets_changed,
        virtual_machines_changed,
    },
};
use crate::machine::{
    execute::Answer,
    paths::Owner,
    slim::{Slim, cached},
    watched_secret::watched_secret,
    watches::KindEvent,
};

impl Caches {
    pub(in crate::machine) fn on_event(
        &mut self,
        scope: &WatchScope,
        event: KindEvent,
    ) -> Affected {
        match event {
            KindEvent::Definition(change) => {
                let changed = self.definitions.apply(scope, change);
                Affected {
                    all: !changed.is_empty(),
                    ..Affected::default()
                }
            }
            KindEvent::RemoteDefinition(change) => {
                let changed = self.remote_definitions.apply(scope, change);
                Affected {
                    all: !changed.is_empty(),
                    ..Affected::default()
                }
            }
            KindEvent::Config(change) => {
                match change.health() {
                    Some(Err(_)) => self.is_config_watch_failing = true,
                    Some(Ok(())) => self.is_config_watch_failing = false,
                    None => {}
                }
                let changed = self.configs.apply(scope, change);
                Affected {
                    all: changed.iter().any(is_replaced),
                    ..Affected::default()
                }
            }
            KindEvent::Machine(change) => {
                let is_cached =
                    |machine: &Machine| self.provider.manages(machine) && self.home.keeps(machine);
                let Some(change) = change.select(is_cached) else {
                    return Affected::default();
                };
                let changed = self.machines.apply(scope, change);
                self.machines_changed(changed)
            }
            KindEvent::Network(change) => {
                let is_network = plan::network::is_managed;
                let of_ledger = change.clone().select(|network| !is_network(network));
                let ledgers = of_ledger.map(|change| self.ledgers.apply(scope, change));
                let networks = change.select(is_network);
                let networks = networks.map(|change| self.networks.apply(scope, change));
                let mut affected = self.networks_changed(&networks.unwrap_or_default());
                let ledgers = self.ledgers_changed(&ledgers.unwrap_or_default());
                affected.subjects.extend(ledgers.subjects);
                affected
            }
            KindEvent::NetworkNamespace(change) => {
                let changed = self.network_namespaces.apply(scope, change);
                self.network_namespaces_changed(&changed)
            }
            KindEvent::Class(change) => {
                let mut affected = Affected::default();
                for changed in self.classes.apply(scope, change) {
                    keep_known(&mut self.known_classes, &changed);
                    affected.subjects.extend(self.sized_by(&changed.key.name));
                }
                affected
            }
            KindEvent::StorageClass(change) => {
                let changed = self.storage_classes.apply(scope, change);
                for changed in &changed {
                    keep_known(&mut self.known_storage_classes, changed);
                }
                Affected {
                    all: !changed.is_empty(),
                    ..Affected::default()
                }
            }
            KindEvent::Attachment(change) => {
                let changed = self.attachments.apply(scope, change);
                self.attachments_changed(&changed)
            }
            KindEvent::VirtualMachine(change) => {
                virtual_machines_changed(self.virtual_machines.apply(scope, change))
            }
            KindEvent::Instance(change) => of_machines(&self.instances.apply(scope, change)),
            KindEvent::Claim(change) => claims_changed(self.claims.apply(scope, change)),
            KindEvent::DataVolume(change) => of_machines(&self.data_volumes.apply(scope, change)),
            KindEvent::Installation(change) => {
                let was_removed = self.is_kubevirt_being_removed();
                self.installations.apply(scope, change);
                Affected {
                    all: was_removed != self.is_kubevirt_being_removed(),
                    ..Affected::default()
                }
            }
            KindEvent::Secret(change) => {
                match &change {
                    WatchEvent::Failing(_) => self.secrets.is_failing = true,
                    WatchEvent::Recovered => self.secrets.is_failing = false,
                    _ => {}
                }
                secrets_changed(&self.secrets.store.apply(scope, change))
            }
            // Handled by the control loop; nothing is cached.
            KindEvent::Quota(_) => Affected::default(),
        }
    }

    /// Applies the API server's answer to a request for `subject`.
    pub(in crate::machine) fn on_answer(&mut self, subject: &Subject, answer: Answer) -> Affected {
        let namespace = &subject.key.namespace;
        if let Answer::Object(kind, value) = &answer {
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            self.confirm_disk(&subject.key, *kind, name);
        }
        match answer {
            Answer::Owner(value) => self.on_owner(subject.owner, value),
            Answer::OwnerGone { uid } => match subject.owner {
                Owner::Machine => {
                    let gone = self.machines.assume_deleted(&subject.key, &uid);
                    self.machines_changed(gone.into_iter().collect())
                }
                Owner::Network => {
                    let gone = self.networks.assume_deleted(&subject.key, &uid);
                    self.networks_changed(gone.as_slice())
                }
            },
            Answer::Secret(metadata) => {
                let secret = watched_secret(&metadata);
                secrets_changed(self.secrets.store.assume(secret).as_slice())
            }
            Answer::Object(kind, value) => match kind {
                Kind::PersistentVolumeClaim => claims_changed(assume::<ObservedClaim, _>(
                    &mut self.claims,
                    value,
                    &self.passed_on,
                )),
                Kind::DataVolume => of_machines(&assume::<ObservedDataVolume, _>(
                    &mut self.data_volumes,
                    value,
                    &self.passed_on,
                )),
                Kind::VirtualMachine => {
                    virtual_machines_changed(assume::<ObservedVirtualMachine, _>(
                        &mut self.virtual_machines,
                        value,
                        &self.passed_on,
                    ))
                }
                Kind::VirtualMachineInstance => of_machines(&assume::<ObservedInstance, _>(
                    &mut self.instances,
                    value,
                    &self.passed_on,
                )),
                Kind::NetworkAttachmentDefinition => {
                    let changed = assume::<NetworkAttachmentDefinition, _>(
                        &mut self.attachments,
                        value,
                        &self.passed_on,
                    );
                    self.attachments_changed(&changed)
                }
                Kind::NetworkConfiguration => {
                    let changed = assume::<NetworkConfiguration, _>(
                        &mut self.ledgers,
                        value,
                        &self.passed_on,
                    );
                    self.ledgers_changed(&changed)
                }
            },
            Answer::ClaimLost { uid } => {
                let lost = self.lost_claims.entry(subject.key.clone()).or_default();
                lost.insert(uid);
                Affected::default()
            }
            Answer::Unconfirmed { kind, name } => {
                let disks = self.unconfirmed_disks.entry(subject.key.clone());
                disks.or_default().insert((kind, name));
                Affected::default()
            }
            Answer::Absent { kind, name } => {
                self.confirm_disk(&subject.key, kind, &name);
                Affected::default()
            }
            Answer::Gone { kind, name, uid } => {
                self.on_gone(kind, &Key::new(namespace, &name), &uid)
            }
        }
    }

    /// Applies the deletion of a child.
    fn on_gone(&mut self, kind: Kind, key: &Key, uid: &str) -> Affected {
        match kind {
            Kind::PersistentVolumeClaim => {
                let gone = self.claims.assume_deleted(key, uid);
                claims_changed(gone.into_iter().collect())
            }
            Kind::DataVolume => {
                let gone = self.data_volumes.assume_deleted(key, uid);
                of_machines(gone.as_slice())
            }
            Kind::VirtualMachine => {
                let gone = self.virtual_machines.assume_deleted(key, uid);
                virtual_machines_changed(gone.into_iter().collect())
            }
            Kind::VirtualMachineInstance => {
                of_machines(self.instances.assume_deleted(key, uid).as_slice())
            }
            Kind::NetworkAttachmentDefinition => {
                let gone = self.attachments.assume_deleted(key, uid);
                self.attachments_changed(gone.as_slice())
            }
            Kind::NetworkConfiguration => {
                let gone = self.ledgers.assume_deleted(key, uid);
                self.ledgers_changed(gone.as_slice())
            }
        }
    }

    fn on_owner(&mut self, owner: Owner, value: Value) -> Affected {
        match owner {
            Owner::Machine => {
                let machine = decode::from_value(value).ok();
                let machine = machine
                    .filter(|machine| self.provider.manages(machine) && self.home.keeps(machine));
                let changed = machine
                    .and_then(|machine| self.machines.assume(cached(machine, &self.passed_on)));
                self.machines_changed(changed.into_iter().collect())
            }
            Owner::Network => {
                let changed =
                    assume::<NetworkConfiguration, _>(&mut self.networks, value, &self.passed_on);
                self.networks_changed(&changed)
            }
        }
    }

    /// Records that the outcome of a disk's create request is known.
    fn confirm_disk(&mut self, machine: &Key, kind: Kind, name: &str) {
        if let Some(disks) = self.unconfirmed_disks.get_mut(machine) {
            disks.remove(&(kind, name.to_owned()));
            if disks.is_empty() {
                self.unconfirmed_disks.remove(machine);
            }
        }
    }

    /// Affected resources of changed Machines, including those that share or shared a MAC address.
    fn machines_changed(&mut self, changed: Vec<Delta<Machine>>) -> Affected {
        let mut sharing = BTreeSet::new();
        for difference in &changed {
            self.observe_orphaning(difference);
            let addresses = |machine: &Option<Arc<Machine>>| -> BTreeSet<String> {
                machine.iter().flat_map(|it| mac_addresses(it)).collect()
            };
            let (old, new) = (addresses(&difference.old), addresses(&difference.new));
            for address in old.symmetric_difference(&new) {
                let others = self.with_mac_address(address).map(|(key, _)| key.clone());
                sharing.extend(others.map(Subject::machine));
            }
        }
        let mut affected = machines_changed(changed);
        affected.subjects.extend(sharing);
        affected
    }

    /// Records whether a Machine is deleted with orphaning.
    fn observe_orphaning(&mut self, difference: &Delta<Machine>) {
        if is_replaced(difference) {
            self.orphaned.remove(&difference.key);
            self.lost_claims.remove(&difference.key);
            self.unconfirmed_disks.remove(&difference.key);
        }
        let orphans = |machine: &Arc<Machine>| {
            let mut finalizers = machine.metadata.finalizers.iter().flatten();
            machine.metadata.deletion_timestamp.is_some()
                && finalizers.any(|finalizer| finalizer == "orphan")
        };
        if difference.new.as_ref().is_some_and(orphans) {
            self.orphaned.insert(difference.key.clone());
        }
    }

    fn networks_changed(&mut self, changed: &[Delta<NetworkConfiguration>]) -> Affected {
        let mut affected = Affected::default();
        let others = changed.iter().filter(|difference| is_replaced(difference));
        let others = others.map(|difference| Subject::network(difference.key.clone()));
        affected.replaced.extend(others);
        for difference in changed {
            let known = self
                .known_networks
                .entry(difference.key.namespace.clone())
                .or_insert_with(|| Known::all([]));
            keep_known(known, difference);
            affected.subjects.extend(self.attached_to(&difference.key));
        }
        // A network of a Machine's name is in the way of its ledger.
        affected.subjects.extend(self.named_as(changed));
        affected
    }

    /// Affected Machines of changed ledgers.
    fn ledgers_changed(&self, changed: &[Delta<NetworkConfiguration>]) -> Affected {
        Affected {
            subjects: self.named_as(changed).collect(),
            ..Affected::default()
        }
    }

    /// Machines on the network of a NetworkNamespace with the name of a changed NetworkConfiguration.
    fn named_as(&self, changed: &[Delta<NetworkConfiguration>]) -> impl Iterator<Item = Subject> {
        let keys = changed.iter().map(|difference| &difference.key);
        let has_ledger = |key: &&Key| {
            let machine = self.machines.get(key);
            let network = machine.and_then(|machine| machine.spec.network.as_ref());
            network.is_some_and(|network| network_namespace(network).is_some())
        };
        let machines: Vec<Key> = keys.filter(has_ledger).cloned().collect();
        machines.into_iter().map(Subject::machine)
    }

    fn network_namespaces_changed(&mut self, changed: &[Delta<NetworkNamespace>]) -> Affected {
        let mut affected = Affected::default();
        for difference in changed {
            let known = self
                .known_network_namespaces
                .entry(difference.key.namespace.clone())
                .or_insert_with(|| Known::all([]));
            keep_known(known, difference);
            affected
                .subjects
                .extend(self.on_network_of(&difference.key));
        }
        affected
    }

    fn attachments_changed(&self, changed: &[Delta<NetworkAttachmentDefinition>]) -> Affected {
        let mut subjects: BTreeSet<Subject> = changed
            .iter()
            .flat_map(|difference| self.attached_to(&difference.key))
            .collect();
        // A definition of a VLAN: NetworkNamespaces are few.
        let is_changed = |namespace: &str| {
            let mut changed = changed.iter();
            changed.any(|difference| &*difference.key.namespace == namespace)
        };
        let namespaces = self.network_namespaces.iter();
        let namespaces = namespaces.filter(|(key, _)| is_changed(&key.namespace));
        subjects.extend(namespaces.flat_map(|(key, _)| self.on_network_of(key)));
        Affected {
            subjects,
            ..Affected::default()
        }
    }
}

fn assume<T, I>(
    store: &mut Cache<T::Kept, I>,
    value: Value,
    passed_on: &PassedOn,
) -> Vec<Delta<T::Kept>>
where
    T: Slim<Kept: CachedObject> + DeserializeOwned,
    I: Ord + Clone,
{
    let object = decode::from_value::<T>(value).ok();
    object
        .and_then(|object| store.assume(object.slim(passed_on)))
        .into_iter()
        .collect()
}

fn keep_known<T>(known: &mut Known<T>, changed: &Delta<T>) {
    match &changed.new {
        Some(object) => known.insert(changed.key.name.to_string(), Arc::clone(object)),
        None => known.remove(&changed.key.name),
    }
}
