//! Observed state of the resources of a simulated cluster, the input of their plans.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    Machine, NetworkConfiguration, NetworkNamespace,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    multus::NetworkAttachmentDefinition,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Simulation, child, network_namespace as namespace_id};
use crate::{
    Id,
    admission::machine::mac_addresses,
    machine::{
        AdoptionRequest, CloneSources, CloudInitObjects, CloudInitSecret, KeptInterface, Kind,
        Known, Observed, PassedOn, Surroundings, claims_of, network_namespace, vlan_of,
    },
    network,
    served_fields::ServedFields,
    simulation::Written,
};

/// Maximum number of Machines that share a MAC address to consider.
const MOST_SHARING: usize = 5;

/// Decoded children of a Machine.
struct Children {
    virtual_machine: Option<ObservedVirtualMachine>,
    instance: Option<ObservedInstance>,
    claims: Vec<ObservedClaim>,
    data_volumes: Vec<ObservedDataVolume>,
    attachments: Vec<NetworkAttachmentDefinition>,
    ledger: Option<NetworkConfiguration>,
}

impl Simulation {
    pub fn machine(&self, id: &Id) -> Option<&Machine> {
        self.view.machines.get(id)
    }

    /// Identity of the VirtualMachine of a Machine.
    pub(in crate::machine) fn virtual_machine(&self, machine: &Id) -> Option<Id> {
        let spec = &self.machine(machine)?.spec;
        let name = spec.name.as_deref().unwrap_or(&machine.name);
        Some(child(Kind::VirtualMachine, &machine.namespace, name))
    }

    /// Machines and NetworkConfigurations that a write concerns.
    pub(in crate::machine) fn affected(&self, written: &Written<Value>) -> BTreeSet<Id> {
        let Written { id, before, after } = written;
        self.view.affected(id, before.as_ref(), after.as_ref())
    }

    /// Calls `observe` with the observed state of a Machine; not if it does not exist, or if one of its
    /// children cannot be decoded. Live reads have not been made.
    pub fn observe<T>(
        &self,
        id: &Id,
        objects: CloudInitObjects,
        observe: impl FnOnce(Observed<'_>) -> T,
    ) -> Option<T> {
        let machine = self.machine(id)?;
        let children = self.children(id, machine)?;
        let lost_claims = self.lost_claims.get(id).into_iter().flatten();
        let mut finalizers = machine.metadata.finalizers.iter().flatten();
        Some(observe(Observed {
            machine,
            surroundings: Surroundings {
                machine_classes: self.view.classes.clone(),
                storage_classes: self.storage_classes.clone(),
                networks: self.view.networks(&id.namespace),
                network_namespaces: self.network_namespaces(machine, &id.namespace),
                secrets: objects.secrets,
                config_maps: objects.config_maps,
                kept_interface: KeptInterface::default(),
                kept_classes: BTreeMap::new(),
                clone_sources: CloneSources::default(),
                passed_on: children
                    .virtual_machine
                    .as_ref()
                    .map(|vm| PassedOn::observed(&machine.metadata, &vm.metadata))
                    .unwrap_or_default(),
                provider: self.view.provider.clone(),
                served: ServedFields::default(),
                cluster: self.cluster.clone(),
            },
            installed: self.installed,
            virtual_machine: children.virtual_machine.as_ref(),
            instance: children.instance.as_ref(),
            claims: children.claims.iter().collect(),
            data_volumes: children.data_volumes.iter().collect(),
            cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
            digest_key: None,
            mac_address_rivals: self.mac_address_rivals(id, machine),
            attachments: children.attachments.iter().collect(),
            ledger: children.ledger.as_ref(),
            references: None,
            lost_claims: lost_claims.map(String::as_str).collect(),
            unconfirmed_disks: Vec::new(),
            orphaned: machine.metadata.deletion_timestamp.is_some()
                && finalizers.any(|finalizer| finalizer == "orphan"),
            refusal: None,
        }))
    }

    /// Calls `observe` with the observed state of a NetworkConfiguration, if it exists. With virtual machines in
    /// another cluster, that of the NetworkConfigurations is not simulated.
    pub fn observe_network<T>(
        &self,
        id: &Id,
        observe: impl FnOnce(&network::Observed<'_>) -> T,
    ) -> Option<T> {
        let network: NetworkConfiguration = self.read(id).filter(|_| self.cluster.is_none())?;
        let Id {
            namespace, name, ..
        } = id;
        let attachment = child(Kind::NetworkAttachmentDefinition, namespace, name);
        let attachment: Option<NetworkAttachmentDefinition> = self.read(&attachment);
        let users = self.view.users(id).map(|machine| machine.name.to_string());
        Some(observe(&network::Observed {
            network: &network,
            attachment: attachment.as_ref(),
            users: users.collect(),
            multus: self.installed.multus,
            served: ServedFields::default(),
            refusal: None,
        }))
    }

    fn children(&self, id: &Id, machine: &Machine) -> Option<Children> {
        let namespace = &id.namespace;
        let name = machine.spec.name.as_deref().unwrap_or(&id.name);
        let of = |kind: Kind| self.view.children(id).filter(move |it| is(it, kind));
        let networks = machine.spec.networks.iter().flatten();
        let listed = networks.filter_map(|network| network.network_name.clone());
        let vlans = vlan_of(machine, &self.network_namespaces(machine, namespace));
        let attachments = listed
            .chain(vlans)
            .map(|name| child(Kind::NetworkAttachmentDefinition, namespace, &name));
        let named = |kind: Kind| {
            let id = child(kind, namespace, name);
            self.get(&id)
        };
        let virtual_machine: Option<ObservedVirtualMachine> = match named(Kind::VirtualMachine) {
            Some(vm) => Some(decode::from_value_ref(vm).ok()?),
            None => None,
        };
        let adopted = virtual_machine
            .as_ref()
            .filter(|_| AdoptionRequest::of(&machine.metadata).is_some());
        let adopted = adopted.map(|vm| vm.spec.value()).unwrap_or_default();
        // Disks to adopt do not have the Machine's label yet.
        let disks = |kind: Kind| {
            let ids = claims_of(&adopted).map(|(_, claim)| child(kind, namespace, claim));
            let ids: BTreeSet<Id> = ids.chain(of(kind).cloned()).collect();
            ids.into_iter().filter(|id| self.get(id).is_some())
        };
        Some(Children {
            instance: match named(Kind::VirtualMachineInstance) {
                Some(instance) => Some(decode::from_value_ref(instance).ok()?),
                None => None,
            },
            claims: disks(Kind::PersistentVolumeClaim)
                .map(|id| self.read(&id))
                .collect::<Option<_>>()?,
            data_volumes: disks(Kind::DataVolume)
                .map(|id| self.read(&id))
                .collect::<Option<_>>()?,
            virtual_machine,
            attachments: attachments.filter_map(|id| self.read(&id)).collect(),
            ledger: self.read(&child(Kind::NetworkConfiguration, namespace, &id.name)),
        })
    }

    /// The NetworkNamespace that a Machine names, if it exists.
    fn network_namespaces(&self, machine: &Machine, namespace: &str) -> Known<NetworkNamespace> {
        let name = machine.spec.network.as_ref().and_then(network_namespace);
        let found = name.and_then(|name| {
            let found: NetworkNamespace = self.read(&namespace_id(namespace, name))?;
            Some((name.to_owned(), Arc::new(found)))
        });
        Known::all(found)
    }

    fn read<T: DeserializeOwned>(&self, id: &Id) -> Option<T> {
        decode::from_value_ref(self.get(id)?).ok()
    }

    /// Other Machines with a MAC address of this one, up to a limit per address.
    fn mac_address_rivals(&self, id: &Id, machine: &Machine) -> Vec<&Machine> {
        mac_addresses(machine)
            .flat_map(|address| {
                let sharing = self.view.with_mac_address(&address);
                sharing.take(MOST_SHARING).collect::<Vec<_>>()
            })
            .filter(|other| *other != id)
            .filter_map(|other| self.machine(other))
            .collect()
    }
}

pub(super) fn is(id: &Id, kind: Kind) -> bool {
    *id == child(kind, &id.namespace, &id.name)
}
