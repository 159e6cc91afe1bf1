//! What is known of the cluster when a change is to be judged.

use std::{collections::BTreeMap, sync::Arc};

use api::{Machine, MachineClass, ObjectMeta};
use plan::{
    admission::{
        machine::{self, mac_addresses, virtual_machine},
        machine_class,
    },
    machine::{Known, Lookup, is_running, snapshot_class_name},
};
use runtime::cache::Key;
use serde::Deserialize;

use super::{Caches, Trait};
use crate::machine::watches::Watched;

/// What a judgement about a Machine is made from.
const OF_MACHINES: [Watched; 5] = [
    Watched::Machines,
    Watched::Networks,
    Watched::Classes,
    Watched::StorageClasses,
    Watched::Claims,
];

/// What is noted on an object.
#[derive(Deserialize)]
struct Noted {
    metadata: ObjectMeta,
}

impl Caches {
    /// Whether the resources of a namespace are kept here (`""`: those of the cluster).
    pub(in crate::machine) fn keeps(&self, namespace: &str) -> bool {
        let mut scopes = self.scopes.iter();
        namespace.is_empty() || scopes.any(|scope| scope.is_empty() || scope == namespace)
    }

    /// What is known about a Machine that is to be judged; nothing before it is all there.
    pub(in crate::machine) fn facts_of_machine(
        &self,
        machine: &Machine,
    ) -> Option<machine::ReviewContext> {
        if !self.are_synced(&OF_MACHINES) {
            return None;
        }
        let key = Key::of(&machine.metadata);
        let claims = self.claims.by_index(&key);
        let claims = claims.filter_map(|(_, claim)| claim.unpack()).collect();
        // Where CDI is not installed there are none.
        let volumes = self.data_volumes.by_index(&key);
        let volumes = volumes.filter_map(|(_, volume)| volume.unpack());
        Some(machine::ReviewContext {
            surroundings: self.surroundings(&key.namespace, Known::default()),
            claims,
            data_volumes: volumes.collect(),
            others: self.rivals(&key, machine),
            virtual_machine: self.virtual_machine_of(&key, machine),
            is_running: self.is_running(&key, machine),
            ..machine::ReviewContext::default()
        })
    }

    /// The Machines that may want what a Machine wants: its VirtualMachine, or a MAC address.
    fn rivals(&self, key: &Key, machine: &Machine) -> Vec<Arc<Machine>> {
        let vm = Key::new(&key.namespace, virtual_machine(machine));
        let by_name = self.machines.get(&vm).map(|other| (vm.clone(), other));
        let addresses = mac_addresses(machine).map(|address| Trait::MacAddress(address.into()));
        let traits = addresses.chain([Trait::VirtualMachine(vm)]);
        let by_trait = traits.flat_map(|wanted| {
            let found = self.machines.by_index(&wanted);
            found.map(|(key, other)| (key.clone(), other))
        });
        let rivals: BTreeMap<Key, &Arc<Machine>> = by_trait.chain(by_name).collect();
        rivals
            .into_iter()
            .filter(|(other, _)| other != key)
            .map(|(_, other)| Arc::clone(other))
            .collect()
    }

    /// What is known about a class that is to be judged; nothing before it is all there.
    pub(in crate::machine) fn facts_of_class(
        &self,
        class: &MachineClass,
    ) -> Option<machine_class::ReviewContext> {
        if !self.are_synced(&[Watched::Machines, Watched::Classes, Watched::StorageClasses]) {
            return None;
        }
        let default_class = match self.known_classes.default_class() {
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
        })
    }

    /// The Machines that have their size from a class, whether they name it or not.
    fn users_of_class(&self, class: &str) -> Vec<Arc<Machine>> {
        let concerned = self.sized_by(class).map(|subject| subject.key);
        let users = concerned.filter_map(|key| {
            let machine = self.machines.get(&key)?;
            let vm = self.virtual_machine_of(&key, machine)?;
            (snapshot_class_name(&vm)? == class).then(|| Arc::clone(machine))
        });
        users.collect()
    }

    /// The VirtualMachine that a Machine has.
    fn virtual_machine_of(&self, key: &Key, machine: &Machine) -> Option<ObjectMeta> {
        let vm = Key::new(&key.namespace, virtual_machine(machine));
        let vm = self.virtual_machines.get(&vm)?;
        if vm.machine() != Some(key) {
            return None;
        }
        vm.read::<Noted>().map(|vm| vm.metadata)
    }

    /// Whether the guest of a Machine runs.
    fn is_running(&self, key: &Key, machine: &Machine) -> bool {
        let instance = Key::new(&key.namespace, virtual_machine(machine));
        let instance = self.instances.get(&instance);
        let instance = instance.filter(|instance| instance.machine() == Some(key));
        instance
            .and_then(|instance| instance.unpack())
            .is_some_and(|instance| is_running(&instance))
    }

    /// The Machines that name a network; nothing before all are known.
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
    use runtime::reflector::WatchEvent;
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::watches::Told;

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

    /// Caches in which nothing but these Machines is.
    fn caches(machines: impl IntoIterator<Item = Machine>) -> Caches {
        let mut caches = Caches::new(vec![String::new()]);
        caches.told("", Told::Machine(WatchEvent::ListStarted));
        for machine in machines {
            caches.told("", Told::Machine(WatchEvent::Listed(machine)));
        }
        let end = || "2".to_owned();
        for told in [
            Told::Machine(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            Told::Network(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            Told::Class(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            Told::StorageClass(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
            Told::Claim(WatchEvent::ListCompleted {
                resource_version: end(),
            }),
        ] {
            caches.told("", told);
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
    fn rivals_are_found_among_many_by_what_they_want() {
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
    fn nothing_is_said_before_everything_is_known() {
        let mut caches = Caches::new(vec![String::new()]);
        let wanted = machine("a", "web", &json!({}));
        assert!(caches.facts_of_machine(&wanted).is_none());
        caches.told(
            "",
            Told::Machine(WatchEvent::ListCompleted {
                resource_version: "2".to_owned(),
            }),
        );
        assert!(caches.facts_of_machine(&wanted).is_none());
        assert!(caches.facts_of_network(&Key::new("a", "prod")).is_some());
    }
}
