//! Facts from the caches for admission reviews.

use std::{collections::BTreeMap, sync::Arc};

use api::{Machine, MachineClass, ObjectMeta};
use plan::{
    admission::{
        machine::{self, mac_addresses, virtual_machine},
        machine_class,
    },
    machine::{
        CloudInitObjects, Known, Lookup, Surroundings, VmCluster, is_running, snapshot_class_name,
    },
};
use runtime::cache::Key;
use serde::Deserialize;

use super::{Caches, IndexKey};
use crate::machine::watches::Watched;

/// Kinds that must be synced before a Machine is reviewed.
const MACHINE_FACTS: [Watched; 5] = [
    Watched::Machines,
    Watched::Networks,
    Watched::Classes,
    Watched::StorageClasses,
    Watched::Claims,
];

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

impl Caches {
    /// Whether this operator reconciles the resources of a namespace; none for cluster-scoped ones.
    pub(in crate::machine) fn covers(&self, namespace: Option<&str>) -> bool {
        let mut scopes = self.scopes.iter();
        namespace.is_none_or(|namespace| scopes.any(|scope| scope.covers(namespace)))
    }

    /// Facts for the review of a Machine; none before the caches are synced.
    pub(in crate::machine) fn facts_of_machine(
        &self,
        machine: &Machine,
    ) -> Option<machine::ReviewContext> {
        if !self.are_synced(&MACHINE_FACTS) {
            return None;
        }
        let key = Key::of(&machine.metadata);
        if self.is_elsewhere(machine) {
            // What another cluster has is not known here.
            let surroundings = self.surroundings(&key.namespace, CloudInitObjects::default());
            return Some(machine::ReviewContext {
                surroundings: Surroundings {
                    storage_classes: Known::default(),
                    ..surroundings
                },
                others: self.rivals(&key, machine),
                ..machine::ReviewContext::default()
            });
        }
        let claims = self.claims.by_index(&key);
        let claims = claims.filter_map(|(_, claim)| claim.unpack()).collect();
        // Empty without CDI.
        let volumes = self.data_volumes.by_index(&key);
        let volumes = volumes.filter_map(|(_, volume)| volume.unpack());
        Some(machine::ReviewContext {
            surroundings: self.surroundings(&key.namespace, CloudInitObjects::default()),
            claims,
            data_volumes: volumes.collect(),
            others: self.rivals(&key, machine),
            virtual_machine: self.virtual_machine_of(&key, machine),
            is_running: self.is_running(&key, machine),
            ..machine::ReviewContext::default()
        })
    }

    /// Whether the virtual machine of a Machine is in another cluster.
    pub(in crate::machine) fn is_elsewhere(&self, machine: &Machine) -> bool {
        self.home.placement(machine) != VmCluster::Local
    }

    /// Other Machines with the same VirtualMachine name in its cluster, or a MAC address of this one.
    fn rivals(&self, key: &Key, machine: &Machine) -> Vec<Arc<Machine>> {
        let vm = Key::new(&key.namespace, virtual_machine(machine));
        let is_beside =
            |other: &Machine| self.home.placement(other) == self.home.placement(machine);
        let by_name = self.machines.get(&vm).map(|other| (vm.clone(), other));
        let by_name = by_name.filter(|(_, other)| is_beside(other));
        let addresses = mac_addresses(machine).map(|address| IndexKey::MacAddress(address.into()));
        let index_keys = addresses.chain([IndexKey::VirtualMachine(vm)]);
        let by_index = index_keys.flat_map(|index_key| {
            let is_name = matches!(index_key, IndexKey::VirtualMachine(_));
            let found = self.machines.by_index(&index_key);
            let found = found.filter(move |(_, other)| !is_name || is_beside(other));
            found.map(|(key, other)| (key.clone(), other))
        });
        let rivals: BTreeMap<Key, &Arc<Machine>> = by_index.chain(by_name).collect();
        rivals
            .into_iter()
            .filter(|(other, _)| other != key)
            .map(|(_, other)| Arc::clone(other))
            .collect()
    }

    /// Facts for the review of a MachineClass; none before the caches are synced.
    pub(in crate::machine) fn facts_of_class(
        &self,
        class: &MachineClass,
    ) -> Option<machine_class::ReviewContext> {
        if !self.are_synced(&[Watched::Machines, Watched::Classes, Watched::StorageClasses]) {
            return None;
        }
        let default_class = match self.known_classes.default_class(&self.provider) {
            Lookup::Found(other) => other.metadata.name.clone(),
            Lookup::Missing | Lookup::Unknown => None,
        };
        let users = class
            .metadata
            .name
            .as_deref()
            .map(|name| self.users_of_class(name));
        Some(machine_class::ReviewContext {
            storage_classes: self.known_storage_classes.clone(),
            default_class: default_class.filter(|name| Some(name) != class.metadata.name.as_ref()),
            users: users.unwrap_or_default(),
            provider: self.provider.clone(),
        })
    }

    /// Machines whose size is from a class, whether they name it or not.
    fn users_of_class(&self, class: &str) -> Vec<Arc<Machine>> {
        let candidates = self.sized_by(class).map(|subject| subject.key);
        let users = candidates.filter_map(|key| {
            let machine = self.machines.get(&key)?;
            let vm = self.virtual_machine_of(&key, machine)?;
            (snapshot_class_name(&vm)? == class).then(|| Arc::clone(machine))
        });
        users.collect()
    }

    /// Metadata of the VirtualMachine that belongs to a Machine.
    fn virtual_machine_of(&self, key: &Key, machine: &Machine) -> Option<ObjectMeta> {
        let vm = Key::new(&key.namespace, virtual_machine(machine));
        let vm = self.virtual_machines.get(&vm)?;
        if vm.machine() != Some(key) {
            return None;
        }
        vm.read::<MetadataOnly>().map(|vm| vm.metadata)
    }

    fn is_running(&self, key: &Key, machine: &Machine) -> bool {
        let instance = Key::new(&key.namespace, virtual_machine(machine));
        let instance = self.instances.get(&instance);
        let instance = instance.filter(|instance| instance.machine() == Some(key));
        instance
            .and_then(|instance| instance.unpack())
            .is_some_and(|instance| is_running(&instance))
    }

    /// Machines that attach to a NetworkConfiguration; none before the caches are synced.
    pub(in crate::machine) fn facts_of_network(&self, network: &Key) -> Option<Vec<Arc<Machine>>> {
        if !self.are_synced(&[Watched::Machines]) {
            return None;
        }
        let users = self.users_of(network);
        Some(users.map(|(_, machine)| Arc::clone(machine)).collect())
    }

    fn are_synced(&self, kinds: &[Watched]) -> bool {
        kinds.iter().all(|kind| self.is_synced(*kind))
    }
}

#[cfg(test)]
mod tests {
    use runtime::{cache::WatchScope, reflector::WatchEvent};
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::watches::KindEvent;

    fn machine(namespace: &str, name: &str, spec: &Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "", "kind": "", "spec": spec,
            "metadata": { "name": name, "namespace": namespace, "resourceVersion": "1" },
        }))
        .unwrap()
    }

    fn nic(mac: &str) -> Value {
        json!([{ "name": "lan", "networkName": "prod", "macAddress": mac }])
    }

    /// Synced caches with these Machines only.
    fn caches(machines: impl IntoIterator<Item = Machine>) -> Caches {
        let mut caches = Caches::new(vec![WatchScope::Cluster]);
        caches.on_event(
            &WatchScope::Cluster,
            KindEvent::Machine(WatchEvent::ListStarted),
        );
        for machine in machines {
            caches.on_event(
                &WatchScope::Cluster,
                KindEvent::Machine(WatchEvent::Listed(machine)),
            );
        }
        let end = || "2".to_owned();
        for event in [
            KindEvent::Machine(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            KindEvent::Network(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            KindEvent::Class(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            KindEvent::StorageClass(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            KindEvent::Claim(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
        ] {
            caches.on_event(&WatchScope::Cluster, event);
        }
        caches
    }

    fn rivals(caches: &Caches, machine: &Machine) -> Vec<String> {
        let facts = caches.facts_of_machine(machine).unwrap();
        let rivals = facts.others.iter();
        rivals
            .map(|other| Key::of(&other.metadata).to_string())
            .collect()
    }

    #[test]
    fn rivals_are_found_by_virtual_machine_name_and_mac_address() {
        let many = (0..10_000).map(|number| {
            let mac = format!("52:54:00:00:{:02x}:{:02x}", number / 256, number % 256);
            machine(
                "a",
                &format!("m{number}"),
                &json!({ "networks": nic(&mac) }),
            )
        });
        let named = machine("a", "other", &json!({ "name": "web" }));
        let twin = machine("b", "web", &json!({ "networks": nic("52:54:00:00:00:07") }));
        let caches = caches(many.chain([named, twin]));
        let wanted = machine("a", "web", &json!({ "networks": nic("52:54:00:00:00:07") }));
        assert_eq!(rivals(&caches, &wanted), ["a/m7", "a/other", "b/web"]);
        let wanted = machine("a", "m7", &json!({ "networks": nic("52:54:00:00:00:08") }));
        assert_eq!(rivals(&caches, &wanted), ["a/m8"], "without itself");
        let wanted = machine("a", "new", &json!({ "name": "m9" }));
        assert_eq!(rivals(&caches, &wanted), ["a/m9"]);
    }

    #[test]
    fn there_are_no_facts_before_the_caches_are_synced() {
        let mut caches = Caches::new(vec![WatchScope::Cluster]);
        let wanted = machine("a", "web", &json!({}));
        assert!(caches.facts_of_machine(&wanted).is_none());
        caches.on_event(
            &WatchScope::Cluster,
            KindEvent::Machine(WatchEvent::ListCompleted {
                resource_version: "2".to_owned(),
            }),
        );
        assert!(caches.facts_of_machine(&wanted).is_none());
        assert!(caches.facts_of_network(&Key::new("a", "prod")).is_some());
    }
}
