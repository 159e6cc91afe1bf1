//! Secrets and ConfigMaps that were read for a preview.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Machine,
    core::{ConfigMap, Secret},
};

use crate::{
    Id,
    machine::{
        CloudInitObjects, CloudInitSecret, SourceKind, cloud_init_sources,
        simulation::{config_map, secret},
    },
};

/// Objects that Machines refer to for cloud-init data, and the digests on cloud-init Secrets.
#[derive(Debug, Default)]
pub struct Secrets {
    pub read: BTreeMap<Id, ReadSecret>,
    /// Digest on the cloud-init Secret, by Machine, where digests are keyed.
    pub digests: BTreeMap<Id, String>,
}

#[derive(Debug)]
pub enum ReadSecret {
    Found(Arc<Secret>),
    FoundConfigMap(Arc<ConfigMap>),
    Missing,
    /// Why it cannot be read.
    Unreadable(String),
}

impl Secrets {
    /// Identities of the objects that a Machine refers to.
    pub fn references(machine: &Machine) -> impl Iterator<Item = (SourceKind, Id)> {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        cloud_init_sources(machine).map(move |source| {
            let id = match source.kind {
                SourceKind::Secret => secret(namespace, source.name),
                SourceKind::ConfigMap => config_map(namespace, source.name),
            };
            (source.kind, id)
        })
    }

    /// Observed state of the Secret with a Machine's cloud-init data.
    pub(super) fn cloud_init(&self, machine: &Id) -> CloudInitSecret<'_> {
        CloudInitSecret::Read {
            digest: self.digests.get(machine).map(String::as_str),
        }
    }

    /// Objects that a Machine refers to.
    pub(super) fn of(&self, machine: &Machine) -> CloudInitObjects {
        let mut objects = CloudInitObjects::none();
        let mut unread = CloudInitObjects::default();
        let mut is_unread = false;
        for (_, id) in Self::references(machine) {
            match self.read.get(&id) {
                Some(ReadSecret::Found(secret)) => {
                    for known in [&mut objects.secrets, &mut unread.secrets] {
                        known.insert(id.name.to_string(), Arc::clone(secret));
                    }
                }
                Some(ReadSecret::FoundConfigMap(map)) => {
                    for known in [&mut objects.config_maps, &mut unread.config_maps] {
                        known.insert(id.name.to_string(), Arc::clone(map));
                    }
                }
                Some(ReadSecret::Missing) => {}
                Some(ReadSecret::Unreadable(_)) | None => is_unread = true,
            }
        }
        if is_unread { unread } else { objects }
    }

    pub(super) fn is_cloud_init_unknown(&self, machine: &Machine) -> bool {
        Self::references(machine)
            .any(|(_, id)| matches!(self.read.get(&id), Some(ReadSecret::Unreadable(_)) | None))
    }

    /// Notes about objects that could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = String> {
        self.read.iter().filter_map(|(id, read)| match read {
            ReadSecret::Unreadable(error) => Some(format!(
                "cannot read {id}, so changes of its data are not shown: {error}"
            )),
            ReadSecret::Found(_) | ReadSecret::FoundConfigMap(_) | ReadSecret::Missing => None,
        })
    }
}
