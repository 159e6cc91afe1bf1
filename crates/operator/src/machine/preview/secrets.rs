//! Secrets that a preview reads: those that Machines refer to, and cloud-init Secrets with keyed digests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Machine, core::Secret, labels};
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::Client;
use plan::{
    machine::{CloudInitSecret, Known, has_keyed_digest},
    naming,
};
use runtime::cache::Key;
use serde_json::Value;

use super::{CONCURRENCY, GivenDocument};
use crate::{
    machine::{
        caches::{Caches, Subject},
        execute::{self, Target},
        paths::Owner,
        secrets,
    },
    manifests::Resource,
    requests::Requests,
};

/// Secrets that Machines refer to, and the digests on cloud-init Secrets.
pub(super) struct Secrets {
    read: BTreeMap<Key, ReadSecret>,
    /// Digest on the cloud-init Secret, by Machine, where digests are keyed.
    digests: BTreeMap<Key, String>,
}

enum ReadSecret {
    Found(Arc<Secret>),
    Missing,
    Unreadable(String),
}

impl Secrets {
    /// Reads each Secret that affected Machines refer to, once, unless it is among the documents.
    pub(super) async fn fetch(
        client: &Client,
        caches: &Caches,
        affected: &BTreeSet<Subject>,
        desired: &[(&GivenDocument, Value)],
        others: &[Resource],
    ) -> Self {
        let mut read = BTreeMap::new();
        for resource in others {
            if let Resource::Secret(secret) = resource {
                let key = Key::of(&secret.metadata);
                read.insert(key, ReadSecret::Found(Arc::clone(secret)));
            }
        }
        let machines = affected
            .iter()
            .filter(|subject| subject.owner == Owner::Machine);
        let live = machines
            .clone()
            .filter_map(|subject| caches.machines.get(&subject.key).map(Arc::clone));
        let new = desired
            .iter()
            .filter_map(|(_, value)| decode::from_value_ref(value).ok())
            .map(Arc::new);
        let named: BTreeSet<Key> = live
            .chain(new)
            .filter_map(|machine: Arc<Machine>| key_of(&machine))
            .filter(|key| !read.contains_key(key))
            .collect();
        let requests = Requests::new(client.clone(), labels::MANAGER);
        let fetched: Vec<_> = stream::iter(named)
            .map(|key| fetch(&requests, key))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        read.extend(fetched);
        let own: Vec<(Key, Key)> = machines
            .filter(|subject| {
                let vm = caches.virtual_machines.get(&subject.key);
                vm.and_then(|vm| vm.unpack())
                    .is_some_and(|vm| has_keyed_digest(&vm))
            })
            .map(|subject| {
                let Key { namespace, name } = &subject.key;
                let secret = Key::new(namespace, &naming::cloud_init_secret(name));
                (subject.key.clone(), secret)
            })
            .collect();
        let fetched: Vec<_> = stream::iter(own)
            .map(|(machine, key)| fetch(&requests, key).map(|(key, found)| (machine, key, found)))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut digests = BTreeMap::new();
        for (machine, key, found) in fetched {
            match found {
                ReadSecret::Found(secret) => digests.extend(
                    secret
                        .metadata
                        .annotations
                        .as_ref()
                        .and_then(|all| Some((machine, all.get(labels::CLOUD_INIT)?.clone()))),
                ),
                ReadSecret::Missing => {}
                ReadSecret::Unreadable(_) => drop(read.insert(key, found)),
            }
        }
        Self { read, digests }
    }

    /// Observed state of the Secret with a Machine's cloud-init data.
    pub(super) fn cloud_init(&self, machine: &Key) -> CloudInitSecret<'_> {
        CloudInitSecret::Read {
            digest: self.digests.get(machine).map(String::as_str),
        }
    }

    /// Secret that a Machine refers to.
    pub(super) fn of(&self, machine: &Machine) -> Known<Secret> {
        let Some(key) = key_of(machine) else {
            return Known::all([]);
        };
        match self.read.get(&key) {
            Some(ReadSecret::Found(secret)) => {
                Known::all([(key.name.to_string(), Arc::clone(secret))])
            }
            Some(ReadSecret::Missing) => Known::all([]),
            Some(ReadSecret::Unreadable(_)) | None => Known::some([]),
        }
    }

    pub(super) fn is_cloud_init_unknown(&self, machine: &Machine) -> bool {
        let key = key_of(machine);
        key.is_some_and(|key| matches!(self.read.get(&key), Some(ReadSecret::Unreadable(_)) | None))
    }

    /// Notes about Secrets that could not be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = String> {
        self.read.iter().filter_map(|(key, read)| match read {
            ReadSecret::Unreadable(error) => Some(format!(
                "cannot read Secret {key}, so changes of its data are not shown: {error}"
            )),
            ReadSecret::Found(_) | ReadSecret::Missing => None,
        })
    }
}

fn key_of(machine: &Machine) -> Option<Key> {
    let (name, _) = secrets::secret_ref(machine)?;
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, name))
}

async fn fetch(requests: &Requests, key: Key) -> (Key, ReadSecret) {
    let target = Target {
        owner: Owner::Machine,
        namespace: key.namespace.to_string(),
        name: String::new(),
        uid: String::new(),
        finalizers: Vec::new(),
    };
    let read = match execute::read_secret(requests, &target, &key.name).await {
        Ok(Some(secret)) => ReadSecret::Found(Arc::new(secret)),
        Ok(None) => ReadSecret::Missing,
        Err(error) => ReadSecret::Unreadable(error.to_string()),
    };
    (key, read)
}
