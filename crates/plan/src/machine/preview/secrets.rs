//! Secrets that were read for a preview.

use std::{collections::BTreeMap, sync::Arc};

use api::{Machine, core::Secret};

use crate::{
    Id,
    machine::{CloudInitSecret, Known, secret_ref, simulation::secret},
};

/// Secrets that Machines refer to, and the digests on cloud-init Secrets.
#[derive(Debug, Default)]
pub struct Secrets {
    pub read: BTreeMap<Id, ReadSecret>,
    /// Digest on the cloud-init Secret, by Machine, where digests are keyed.
    pub digests: BTreeMap<Id, String>,
}

#[derive(Debug)]
pub enum ReadSecret {
    Found(Arc<Secret>),
    Missing,
    /// Why it cannot be read.
    Unreadable(String),
}

impl Secrets {
    /// Identity of the Secret that a Machine refers to.
    pub fn reference(machine: &Machine) -> Option<Id> {
        let (name, _) = secret_ref(machine)?;
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        Some(secret(namespace, name))
    }

    /// Observed state of the Secret with a Machine's cloud-init data.
    pub(super) fn cloud_init(&self, machine: &Id) -> CloudInitSecret<'_> {
        CloudInitSecret::Read {
            digest: self.digests.get(machine).map(String::as_str),
        }
    }

    /// Secret that a Machine refers to.
    pub(super) fn of(&self, machine: &Machine) -> Known<Secret> {
        let Some(id) = Self::reference(machine) else {
            return Known::all([]);
        };
        match self.read.get(&id) {
            Some(ReadSecret::Found(secret)) => {
                Known::all([(id.name.to_string(), Arc::clone(secret))])
            }
            Some(ReadSecret::Missing) => Known::all([]),
            Some(ReadSecret::Unreadable(_)) | None => Known::some([]),
        }
    }

    pub(super) fn is_cloud_init_unknown(&self, machine: &Machine) -> bool {
        let id = Self::reference(machine);
        id.is_some_and(|id| matches!(self.read.get(&id), Some(ReadSecret::Unreadable(_)) | None))
    }

    /// Notes about Secrets that could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = String> {
        self.read.iter().filter_map(|(id, read)| match read {
            ReadSecret::Unreadable(error) => Some(format!(
                "cannot read {id}, so changes of its data are not shown: {error}"
            )),
            ReadSecret::Found(_) | ReadSecret::Missing => None,
        })
    }
}
