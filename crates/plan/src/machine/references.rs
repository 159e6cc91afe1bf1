//! References of VirtualMachines and instances to claims, from a live read of a namespace.
//!
//! A claim is deleted only after a live read in which no one refers to it: caches contain only objects
//! with our label, and may be stale.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{ObjectMeta, kubevirt::Referrer};

use super::Kind;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    users: BTreeMap<String, BTreeSet<(Kind, String)>>,
    virtual_machines: BTreeMap<String, ObjectMeta>,
    instances: BTreeSet<String>,
}

/// References, and how current they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveReferences<'a> {
    pub found: &'a References,
    pub age: Age,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Read for this plan: a deletion may rely on it.
    Fresh,
    /// Read for an earlier plan: only good for reporting what a deletion waits for.
    Stale {
        /// Time until the next read, while a disk is in use.
        retry_after: Duration,
    },
}

impl References {
    pub fn add(&mut self, kind: Kind, referrer: Referrer) {
        let Referrer { metadata, claims } = referrer;
        let name = metadata.name.clone().unwrap_or_default();
        for claim in claims {
            let users = self.users.entry(claim).or_default();
            users.insert((kind, name.clone()));
        }
        match kind {
            Kind::VirtualMachine => {
                self.virtual_machines.insert(name, metadata);
            }
            Kind::VirtualMachineInstance => {
                self.instances.insert(name);
            }
            Kind::PersistentVolumeClaim
            | Kind::DataVolume
            | Kind::NetworkAttachmentDefinition
            | Kind::NetworkConfiguration => {}
        }
    }

    /// Removes a VirtualMachine or instance.
    #[must_use]
    pub fn without(mut self, kind: Kind, name: &str) -> Self {
        self.users.retain(|_, users| {
            users.retain(|(of, user)| *of != kind || user != name);
            !users.is_empty()
        });
        match kind {
            Kind::VirtualMachine => drop(self.virtual_machines.remove(name)),
            _ => {
                self.instances.remove(name);
            }
        }
        self
    }

    /// The part about claims whose names begin with `prefix`, enough to report who uses them.
    #[must_use]
    pub fn of_claims(&self, prefix: &str) -> Self {
        let users = self.users.range(prefix.to_owned()..);
        let users = users.take_while(|(claim, _)| claim.starts_with(prefix));
        Self {
            users: users
                .map(|(claim, users)| (claim.clone(), users.clone()))
                .collect(),
            ..Self::default()
        }
    }

    /// The objects that refer to a claim.
    pub fn users(&self, claim: &str) -> impl Iterator<Item = (Kind, &str)> {
        let users = self.users.get(claim).into_iter().flatten();
        users.map(|(kind, name)| (*kind, name.as_str()))
    }

    /// Metadata of an existing VirtualMachine, with or without our labels.
    pub(super) fn virtual_machine(&self, name: &str) -> Option<&ObjectMeta> {
        self.virtual_machines.get(name)
    }

    pub(super) fn has_virtual_machine(&self, uid: &str) -> bool {
        let mut found = self.virtual_machines.values();
        found.any(|metadata| metadata.uid.as_deref() == Some(uid))
    }

    pub(super) fn has_instance(&self, name: &str) -> bool {
        self.instances.contains(name)
    }
}
