//! Reads of the Secrets and ConfigMaps that a preview needs: those that Machines refer to, and cloud-init Secrets with keyed digests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Machine, labels};
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::Client;
use plan::{
    Id,
    machine::{
        SourceKind, has_keyed_digest,
        preview::{ReadSecret, Secrets},
        simulation,
    },
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
    },
    manifests::Resource,
    requests::Requests,
};

/// Reads each object that affected Machines refer to for cloud-init data, once, unless it is among the documents.
pub(super) async fn fetch(
    client: &Client,
    caches: &Caches,
    affected: &BTreeSet<Subject>,
    desired: &[(&GivenDocument, Value)],
    others: &[Resource],
) -> Secrets {
    let mut read = BTreeMap::new();
    for resource in others {
        if let Resource::Secret(secret) = resource {
            let Key { namespace, name } = Key::of(&secret.metadata);
            let id = simulation::secret(&namespace, &name);
            read.insert(id, ReadSecret::Found(Arc::clone(secret)));
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
    let named: BTreeSet<(SourceKind, Id)> = live
        .chain(new)
        .flat_map(|machine: Arc<Machine>| Secrets::references(&machine).collect::<Vec<_>>())
        .filter(|(_, id)| !read.contains_key(id))
        .collect();
    let requests = Requests::new(client.clone(), labels::MANAGER);
    let fetched: Vec<_> = stream::iter(named)
        .map(|(kind, id)| read_object(&requests, kind, id))
        .buffered(CONCURRENCY)
        .collect()
        .await;
    read.extend(fetched);
    let own: Vec<(Id, Id)> = machines
        .filter(|subject| {
            let vm = caches.virtual_machines.get(&subject.key);
            vm.and_then(|vm| vm.unpack())
                .is_some_and(|vm| has_keyed_digest(&vm))
        })
        .map(|subject| {
            let Key { namespace, name } = &subject.key;
            let secret = naming::cloud_init_secret(name);
            (subject.id(), simulation::secret(namespace, &secret))
        })
        .collect();
    let fetched: Vec<_> = stream::iter(own)
        .map(|(machine, id)| {
            read_object(&requests, SourceKind::Secret, id).map(|read| (machine, read))
        })
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut digests = BTreeMap::new();
    for (machine, (id, found)) in fetched {
        match found {
            ReadSecret::Found(secret) => digests.extend(
                secret
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| Some((machine, all.get(labels::CLOUD_INIT)?.clone()))),
            ),
            ReadSecret::Missing | ReadSecret::FoundConfigMap(_) => {}
            ReadSecret::Unreadable(_) => drop(read.insert(id, found)),
        }
    }
    Secrets { read, digests }
}

async fn read_object(requests: &Requests, kind: SourceKind, id: Id) -> (Id, ReadSecret) {
    let target = Target {
        owner: Owner::Machine,
        namespace: id.namespace.to_string(),
        name: String::new(),
        uid: String::new(),
        finalizers: Vec::new(),
        cluster: None,
    };
    let read = match kind {
        SourceKind::Secret => {
            let read = execute::read_secret(requests, &target, &id.name).await;
            read.map(|found| found.map(|secret| ReadSecret::Found(Arc::new(secret))))
        }
        SourceKind::ConfigMap => {
            let read = execute::read_config_map(requests, &target, &id.name).await;
            read.map(|found| found.map(|map| ReadSecret::FoundConfigMap(Arc::new(map))))
        }
    };
    let read = match read {
        Ok(found) => found.unwrap_or(ReadSecret::Missing),
        Err(error) => ReadSecret::Unreadable(error.to_string()),
    };
    (id, read)
}
