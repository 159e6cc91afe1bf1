//! Claims that VirtualMachines and instances of a namespace refer to, as a live read found them.
//!
//! A claim is deleted only after a live read in which nobody refers to it: caches hold only objects with
//! our label, and may be behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{ObjectMeta, kubevirt::Referrer};

use super::Kind;

/// The VirtualMachines and instances of a namespace, and the claims that they refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    users: BTreeMap<String, BTreeSet<(Kind, String)>>,
    virtual_machines: BTreeMap<String, ObjectMeta>,
    instances: BTreeSet<String>,
}

/// References, and how much may have changed since they were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveReferences<'a> {
    /// What was read.
    pub found: &'a References,
    /// How old it is.
    pub age: Age,
}

/// The age of a live read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It was read for this very plan: a deletion may rely on it.
    Fresh,
    /// It was read for an earlier plan: only good to say what was waited for.
    Stale {
        /// When to read again, if a disk was in use.
        retry_in: Duration,
    },
}

impl References {
    /// Adds a VirtualMachine or an instance.
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
            Kind::PersistentVolumeClaim | Kind::DataVolume | Kind::NetworkAttachmentDefinition => {}
        }
    }

    /// The same without a VirtualMachine or instance.
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

    /// What of it concerns claims whose names begin with `prefix`: enough to say who uses them.
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

    /// Who refers to a claim.
    pub(super) fn users(&self, claim: &str) -> impl Iterator<Item = (Kind, &str)> {
        let users = self.users.get(claim).into_iter().flatten();
        users.map(|(kind, name)| (*kind, name.as_str()))
    }

    /// A VirtualMachine that exists, whether or not it carries our labels.
    pub(super) fn virtual_machine(&self, name: &str) -> Option<&ObjectMeta> {
        self.virtual_machines.get(name)
    }

    /// Whether a VirtualMachine with this UID exists.
    pub(super) fn has_virtual_machine(&self, uid: &str) -> bool {
        let mut found = self.virtual_machines.values();
        found.any(|metadata| metadata.uid.as_deref() == Some(uid))
    }

    /// Whether an instance of this name exists.
    pub(super) fn has_instance(&self, name: &str) -> bool {
        self.instances.contains(name)
    }
}
