//! What there is in the cluster, listed once, in the caches of the controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{DeletionPolicy, Machine, MachineClass, NetworkConfiguration, core::StorageClass};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use plan::machine::{References, build, resolve};
use runtime::{
    backoff::Random,
    cache::Key,
    reflector::{Config, WatchEvent, reflector},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CONCURRENCY, Given, Kind, PreviewError, simulate::Secrets};
use crate::{
    lists::{Progress, up_to_the_end},
    machine::{
        caches::{Caches, Subject},
        paths::Owner,
        references,
        slim::Slim,
        watches::{Told, Watched},
    },
    manifests::Resource,
    requests::Requests,
};

/// What there is.
pub(super) struct Live {
    pub(super) caches: Caches,
    /// The resources that users write, with all their metadata.
    whole: BTreeMap<(Kind, Key), Value>,
}

/// What a list holds.
enum Listed {
    Told(Vec<(String, Told)>),
    Whole(Kind, String, Vec<DynamicObject>),
}

impl Live {
    /// Who refers to claims in the namespaces where disks may be deleted, as far as that may be read.
    pub(super) async fn references(
        &self,
        client: &Client,
        concerned: &BTreeSet<Subject>,
        wanted: &[(&Given, Value)],
        notes: &mut Vec<String>,
    ) -> BTreeMap<Arc<str>, References> {
        let deletes_disks = |subject: &&Subject| {
            let live = self.caches.machines.get(&subject.key);
            let mut wanted = wanted.iter().filter(|(given, _)| given.key == subject.key);
            live.is_some_and(|machine| {
                machine.metadata.deletion_timestamp.is_some()
                    || machine.spec.deletion_policy == Some(DeletionPolicy::Delete)
            }) || wanted.any(|(_, value)| value["spec"]["deletionPolicy"] == "Delete")
        };
        let namespaces: BTreeSet<Arc<str>> = concerned
            .iter()
            .filter(|subject| subject.owner == Owner::Machine)
            .filter(deletes_disks)
            .map(|subject| Arc::clone(&subject.key.namespace))
            .collect();
        let is_served = self.caches.is_served(Watched::VirtualMachines)
            && self.caches.is_served(Watched::Instances);
        let requests = Requests::new(client.clone(), api::labels::MANAGER);
        let mut found = BTreeMap::new();
        for namespace in namespaces {
            match references::read(&requests, &namespace, is_served).await {
                Ok(references) => drop(found.insert(namespace, references)),
                Err(error) => notes.push(format!(
                    "VirtualMachines of namespace {namespace} cannot be listed, so it is not known whether a removed disk is in use: {}",
                    references::refused(&namespace, &error).message
                )),
            }
        }
        found
    }

    /// Lists what is in these namespaces, or, if the only one is `""`, in the whole cluster.
    pub(super) async fn list(client: &Client, scopes: Vec<String>) -> Result<Self, PreviewError> {
        let mut caches = Caches::new(scopes.clone());
        for (scope, told) in told(client, Watched::Definitions, "").await? {
            caches.told(&scope, told);
        }
        let required = [Watched::Machines, Watched::Networks, Watched::Classes];
        if !required.iter().all(|kind| caches.is_served(*kind)) {
            return Err(PreviewError::NotServed);
        }
        let kinds = Watched::ALL
            .into_iter()
            .filter(|kind| {
                let unread = [
                    Watched::Definitions,
                    Watched::Quotas,
                    Watched::Installations,
                    Watched::Secrets,
                ];
                !unread.contains(kind)
            })
            .filter(|kind| caches.is_served(*kind));
        let wanted: Vec<(Watched, String)> = kinds
            .flat_map(|kind| {
                let scopes = if kind.is_of_the_cluster() {
                    vec![String::new()]
                } else {
                    scopes.clone()
                };
                scopes.into_iter().map(move |scope| (kind, scope))
            })
            .collect();
        let lists: Vec<Listed> = stream::iter(wanted)
            .map(|(kind, scope)| list(client, kind, scope))
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        let mut live = Self {
            caches,
            whole: BTreeMap::new(),
        };
        for listed in lists {
            match listed {
                Listed::Told(all) => {
                    for (scope, told) in all {
                        live.caches.told(&scope, told);
                    }
                }
                Listed::Whole(kind, scope, objects) => live.keep_whole(kind, &scope, objects),
            }
        }
        Ok(live)
    }

    fn keep_whole(&mut self, kind: Kind, scope: &str, objects: Vec<DynamicObject>) {
        for object in objects {
            let key = Key::of(&object.metadata);
            let Ok(value) = serde_json::to_value(object) else {
                continue;
            };
            // What is not understood is left alone, as the controller does.
            if let Some(told) = applied(kind, &value) {
                self.caches.told(scope, told);
            }
            self.whole.insert((kind, key), value);
        }
    }

    /// A resource as it is, with all its metadata.
    pub(super) fn whole(&self, kind: Kind, key: &Key) -> Option<&Value> {
        self.whole.get(&(kind, key.clone()))
    }

    /// Takes storage classes of the documents for existing.
    pub(super) fn lay_over(&mut self, others: &[Resource]) {
        for resource in others {
            if let Resource::StorageClass(class) = resource {
                let mut class = StorageClass::clone(class);
                class.metadata.resource_version = None;
                self.caches
                    .told("", Told::StorageClass(WatchEvent::Applied(class)));
            }
        }
    }

    /// What a change of a resource may concern besides itself.
    pub(super) fn concerned_by(&self, kind: Kind, key: &Key) -> Vec<Subject> {
        match kind {
            Kind::MachineClass => self.caches.sized_by(&key.name).collect(),
            Kind::NetworkConfiguration => self.caches.attached_to(key).collect(),
            Kind::Machine => Vec::new(),
        }
    }

    /// The VirtualMachines that the Machines ask for as they are now: what we own of those.
    pub(super) fn owned(
        &self,
        machines: &BTreeSet<Subject>,
        secrets: &Secrets,
    ) -> BTreeMap<Key, Value> {
        let machines = machines
            .iter()
            .filter(|subject| subject.owner == Owner::Machine);
        machines
            .filter_map(|subject| {
                let machine = Arc::clone(self.caches.machines.get(&subject.key)?);
                let children = self.caches.children(&machine)?;
                let secrets = secrets.of(&machine);
                let observed = self.caches.observe(&machine, &children, secrets, None);
                let resolution = resolve(&machine, &observed.surroundings).ok()?;
                let vm = build(&resolution.machine).virtual_machine;
                Some((subject.key.clone(), serde_json::to_value(vm).ok()?))
            })
            .collect()
    }
}

/// A resource that users write, as a watch would tell of it. Its version does not count.
pub(super) fn applied(kind: Kind, value: &Value) -> Option<Told> {
    fn typed<T: DeserializeOwned + Slim>(value: &Value) -> Option<WatchEvent<T::Kept>> {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let object: T = decode::from_value(value).ok()?;
        Some(WatchEvent::Applied(object.slim()))
    }
    match kind {
        Kind::Machine => typed::<Machine>(value).map(Told::Machine),
        Kind::NetworkConfiguration => typed::<NetworkConfiguration>(value).map(Told::Network),
        Kind::MachineClass => typed::<MachineClass>(value).map(Told::Class),
    }
}

/// The networks that a Machine wants to be attached to.
pub(super) fn networks_of(value: &Value) -> Vec<Subject> {
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let networks = value["spec"]["networks"].as_array().into_iter().flatten();
    networks
        .filter_map(|network| network["networkName"].as_str())
        .map(|name| Subject::network(Key::new(namespace, name)))
        .collect()
}

async fn list(client: &Client, watched: Watched, scope: String) -> Result<Listed, PreviewError> {
    let (kind, resource) = match watched {
        Watched::Machines => (Kind::Machine, resource::<Machine>()),
        Watched::Networks => (
            Kind::NetworkConfiguration,
            resource::<NetworkConfiguration>(),
        ),
        Watched::Classes => (Kind::MachineClass, resource::<MachineClass>()),
        _ => return told(client, watched, &scope).await.map(Listed::Told),
    };
    let api: Api<DynamicObject> = if scope.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &scope, &resource)
    };
    let changes = reflector(api, Config::default(), Random::seeded(0), |object| object);
    let progress = |change: &WatchEvent<DynamicObject>| Progress::of(change);
    let changes = up_to_the_end(changes, progress, watched.name()).await;
    let changes = changes.map_err(PreviewError::NotListed)?;
    let objects = changes
        .into_iter()
        .filter_map(|change| match change {
            WatchEvent::Listed(object) => Some(object),
            _ => None,
        })
        .collect();
    Ok(Listed::Whole(kind, scope, objects))
}

fn resource<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

async fn told(
    client: &Client,
    watched: Watched,
    scope: &str,
) -> Result<Vec<(String, Told)>, PreviewError> {
    let changes = watched.start(client, &[scope.to_owned()], 0);
    let told = up_to_the_end(changes, |(_, told)| told.progress(), watched.name()).await;
    told.map_err(PreviewError::NotListed)
}
