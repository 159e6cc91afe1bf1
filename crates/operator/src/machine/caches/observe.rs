//! Observed state of one resource, the input of its plan.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Machine, NetworkConfiguration, ObjectMeta,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
};
use plan::{
    admission::machine::mac_addresses,
    machine::{
        AdoptionRequest, CloudInitObjects, Installed, KeptInterface, Kind, Known, Observed,
        Refusal, Surroundings, claims_of, vlan_of,
    },
    network,
};
use runtime::cache::{Cache, Key};
use serde::{Deserialize, de::DeserializeOwned};

use super::Caches;
use crate::machine::{packed::Packed, watches::Watched};

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

/// Children of a Machine, decoded for one reconcile.
pub(in crate::machine) struct Children {
    virtual_machine: Option<ObservedVirtualMachine>,
    instance: Option<ObservedInstance>,
    claims: Vec<ObservedClaim>,
    data_volumes: Vec<ObservedDataVolume>,
}

impl Children {
    pub(in crate::machine) fn instance_uid(&self) -> Option<&str> {
        self.instance.as_ref()?.metadata.uid.as_deref()
    }
}

/// Disks with the label of a Machine; none if one of them cannot be decoded.
fn unpacked<T: DeserializeOwned>(cache: &Cache<Packed<T>, Key>, machine: &Key) -> Option<Vec<T>> {
    let labelled = cache.by_index(machine);
    labelled.map(|(_, disk)| disk.unpack()).collect()
}

/// Adds a disk that does not have the label of a Machine.
fn add_unlabelled<T: DeserializeOwned>(
    cache: &Cache<Packed<T>, Key>,
    machine: &Key,
    disk: &Key,
    disks: &mut Vec<T>,
) -> Option<()> {
    let mut labelled = cache.by_index(machine);
    if let Some(found) = cache.get(disk)
        && !labelled.any(|(key, _)| key == disk)
    {
        disks.push(found.unpack()?);
    }
    Some(())
}

impl Caches {
    pub(super) fn installed(&self) -> Installed {
        Installed {
            kubevirt: self.is_served(Watched::VirtualMachines)
                && self.is_served(Watched::Instances),
            kubevirt_is_removed: self.is_kubevirt_being_removed(),
            cdi: self.is_served(Watched::DataVolumes),
            multus: self.is_served(Watched::Attachments),
        }
    }

    /// Children of a Machine; none if one of them cannot be decoded.
    pub(in crate::machine) fn children(&self, machine: &Machine) -> Option<Children> {
        let key = Key::of(&machine.metadata);
        let name = machine.spec.name.as_deref().unwrap_or(&key.name);
        let vm = Key::new(&key.namespace, name);
        let virtual_machine = match self.virtual_machines.get(&vm) {
            Some(vm) => Some(vm.unpack()?),
            None => None,
        };
        let mut claims = unpacked(&self.claims, &key)?;
        let mut data_volumes = unpacked(&self.data_volumes, &key)?;
        if AdoptionRequest::of(&machine.metadata).is_some()
            && let Some(vm) = &virtual_machine
        {
            // Disks to adopt do not have the Machine's label yet.
            let vm: &ObservedVirtualMachine = vm;
            let spec = vm.spec.value();
            for (_, disk) in claims_of(&spec) {
                let disk = Key::new(&key.namespace, disk);
                add_unlabelled(&self.claims, &key, &disk, &mut claims)?;
                add_unlabelled(&self.data_volumes, &key, &disk, &mut data_volumes)?;
            }
        }
        Some(Children {
            virtual_machine,
            instance: match self.instances.get(&vm) {
                Some(instance) => Some(instance.unpack()?),
                None => None,
            },
            claims,
            data_volumes,
        })
    }

    /// Disks with a Machine's label: each claim, and each DataVolume without a claim.
    pub(in crate::machine) fn disks_of(
        &self,
        machine: &Key,
    ) -> impl Iterator<Item = (Kind, ObjectMeta)> {
        let claims = self.claims.by_index(machine).filter_map(|(_, claim)| {
            let MetadataOnly { metadata } = claim.read()?;
            Some((Kind::PersistentVolumeClaim, metadata))
        });
        let volumes = self.data_volumes.by_index(machine);
        let volumes = volumes.filter(|(key, _)| self.claims.get(key).is_none());
        let volumes = volumes.filter_map(|(_, volume)| {
            let MetadataOnly { metadata } = volume.read()?;
            Some((Kind::DataVolume, metadata))
        });
        claims.chain(volumes)
    }

    pub(in crate::machine) fn observe<'a>(
        &'a self,
        machine: &'a Machine,
        children: &'a Children,
        cloud_init: CloudInitObjects,
        refusal: Option<&'a Refusal>,
    ) -> Observed<'a> {
        let key = Key::of(&machine.metadata);
        let namespace = &key.namespace;
        let networks = machine.spec.networks.iter().flatten();
        let surroundings = self.surroundings(namespace, cloud_init);
        let vlan = vlan_of(machine, &surroundings.network_namespaces);
        let names = networks.filter_map(|network| network.network_name.as_deref());
        let attachments = names
            .chain(vlan.as_deref())
            .filter_map(|name| {
                let key = Key::new(namespace, name);
                self.attachments.get(&key).map(Arc::as_ref)
            })
            .collect();
        // A network of the Machine's name is in the way of its ledger.
        let ledger = self.ledgers.get(&key).or_else(|| self.networks.get(&key));
        Observed {
            machine,
            surroundings,
            installed: self.installed(),
            virtual_machine: children.virtual_machine.as_ref(),
            instance: children.instance.as_ref(),
            claims: children.claims.iter().collect(),
            data_volumes: children.data_volumes.iter().collect(),
            cloud_init_secret: self.cloud_init_secret(&key),
            digest_key: None,
            mac_address_rivals: self.mac_address_rivals(&key, machine),
            attachments,
            ledger: ledger.map(Arc::as_ref),
            references: None,
            lost_claims: self.lost_claims(&key),
            unconfirmed_disks: self.unconfirmed_disks(&key),
            orphaned: self.orphaned.contains(&key),
            refusal,
        }
    }

    fn lost_claims(&self, machine: &Key) -> Vec<&str> {
        let lost = self.lost_claims.get(machine).into_iter().flatten();
        lost.map(String::as_str).collect()
    }

    fn unconfirmed_disks(&self, machine: &Key) -> Vec<(Kind, &str)> {
        let disks = self.unconfirmed_disks.get(machine).into_iter().flatten();
        disks.map(|(kind, name)| (*kind, name.as_str())).collect()
    }

    /// Other Machines with a MAC address of this one, up to a limit per address.
    fn mac_address_rivals(&self, key: &Key, machine: &Machine) -> Vec<&Machine> {
        mac_addresses(machine)
            .flat_map(|address| self.with_mac_address(&address))
            .filter(|(other, _)| *other != key)
            .map(|(_, other)| other.as_ref())
            .collect()
    }

    /// Objects that Machines of a namespace may refer to.
    pub(super) fn surroundings(
        &self,
        namespace: &str,
        cloud_init: CloudInitObjects,
    ) -> Surroundings {
        let networks = self.known_networks.get(namespace).cloned();
        let namespaces = self.known_network_namespaces.get(namespace).cloned();
        Surroundings {
            machine_classes: self.known_classes.clone(),
            storage_classes: self.known_storage_classes.clone(),
            networks: networks.unwrap_or_else(|| Known::all([])),
            network_namespaces: namespaces.unwrap_or_else(|| Known::all([])),
            secrets: cloud_init.secrets,
            config_maps: cloud_init.config_maps,
            kept_interface: KeptInterface::default(),
            kept_classes: BTreeMap::new(),
            clone_sources: self.clone_sources.clone(),
            passed_on: self.passed_on.clone(),
            provider: self.provider.clone(),
            served: self.served.clone(),
            cluster: self.home.remote().cloned(),
        }
    }

    pub(in crate::machine) fn observe_network<'a>(
        &'a self,
        network: &'a NetworkConfiguration,
        refusal: Option<&'a Refusal>,
    ) -> network::Observed<'a> {
        let key = Key::of(&network.metadata);
        network::Observed {
            network,
            attachment: self.attachments.get(&key).map(Arc::as_ref),
            users: self
                .users_of(&key)
                .map(|(machine, _)| machine.name.to_string())
                .collect(),
            multus: self.installed().multus,
            served: self.served.clone(),
            refusal,
        }
    }
}
