//! Live state of the cluster for a preview, listed once into the controller's caches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    DeletionPolicy, Machine, MachineClass, NetworkConfiguration,
    cdi::ObservedDataVolume,
    core::{ObservedClaim, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use plan::machine::{
    AdoptionRequest, Kind as Child, PassedOn, Provider, References, RemoteCluster, claims_of,
};
use runtime::{
    backoff::Random,
    cache::{Key, WatchScope},
    reflector::{Config, WatchEvent, reflector},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CONCURRENCY, GivenDocument, Kind, Place, PreviewError};
use crate::{
    lists::{Progress, collect_list},
    machine::{
        caches::{Caches, Subject},
        home::Home,
        paths::{self, Owner},
        references,
        slim::Slim,
        watches::{KindEvent, Location, Watched, children_of},
    },
    manifests::Resource,
    requests::{Requests, is_code},
};

pub(super) struct Live {
    pub(super) caches: Caches,
    /// Resources of users, with all their metadata.
    untrimmed: BTreeMap<(Kind, Key), Value>,
}

enum Listed {
    Events(Vec<(WatchScope, KindEvent)>),
    Untrimmed(Kind, WatchScope, Vec<DynamicObject>),
}

impl Live {
    /// References to claims in the namespaces where disks may be deleted. A failed read becomes a note.
    pub(super) async fn references(
        &self,
        client: &Client,
        affected: &BTreeSet<Subject>,
        wanted: &[(&GivenDocument, Value)],
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
        let namespaces: BTreeSet<Arc<str>> = affected
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
                    "cannot check whether a removed disk in namespace {namespace} is in use: {}",
                    references::refused(&namespace, &error).message
                )),
            }
        }
        found
    }

    /// Lists the objects of these scopes.
    pub(super) async fn list(
        place: &Place,
        scopes: Vec<WatchScope>,
        provider: Provider,
    ) -> Result<Self, PreviewError> {
        let default = place.default.as_deref();
        let home = match &place.cluster {
            None => Home::local(default).strict(),
            Some(name) => {
                let cluster = RemoteCluster {
                    name: name.as_str().into(),
                    managed_from: None,
                };
                Home::remote_cluster(cluster, default)
            }
        };
        let mut caches = Caches::new(scopes.clone())
            .of_provider(provider)
            .at_home(home);
        for kind in [Watched::Definitions, Watched::RemoteDefinitions] {
            if !caches.is_served(kind) {
                continue;
            }
            let listed = list_events(place, "", kind, WatchScope::Cluster).await?;
            for (scope, event) in listed {
                caches.on_event(&scope, event);
            }
        }
        caches.note_management_cluster();
        let children = children_of(caches.home.remote());
        let required = [Watched::Machines, Watched::Networks, Watched::Classes];
        if !required.iter().all(|kind| caches.is_served(*kind)) {
            return Err(PreviewError::NotServed);
        }
        let kinds = Watched::ALL
            .into_iter()
            .filter(|kind| {
                let unread = [
                    Watched::Definitions,
                    Watched::RemoteDefinitions,
                    Watched::Configs,
                    Watched::Quotas,
                    Watched::Installations,
                    Watched::Secrets,
                ];
                !unread.contains(kind)
            })
            .filter(|kind| caches.is_served(*kind));
        let wanted: Vec<(Watched, WatchScope)> = kinds
            .flat_map(|kind| {
                let scopes = if kind.is_cluster_wide() {
                    vec![WatchScope::Cluster]
                } else {
                    scopes.clone()
                };
                scopes.into_iter().map(move |scope| (kind, scope))
            })
            .collect();
        let lists: Vec<Listed> = stream::iter(wanted)
            .map(|(kind, scope)| list(place, &children, kind, scope))
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        let mut live = Self {
            caches,
            untrimmed: BTreeMap::new(),
        };
        for listed in lists {
            match listed {
                Listed::Events(all) => {
                    for (scope, event) in all {
                        live.caches.on_event(&scope, event);
                    }
                }
                Listed::Untrimmed(kind, scope, objects) => live.insert(kind, &scope, objects),
            }
        }
        Ok(live)
    }

    fn insert(&mut self, kind: Kind, scope: &WatchScope, objects: Vec<DynamicObject>) {
        for object in objects {
            let key = Key::of(&object.metadata);
            let Ok(value) = serde_json::to_value(object) else {
                continue;
            };
            // The controller ignores objects that it cannot decode, too.
            if let Some(event) = applied_event(kind, &value) {
                self.caches.on_event(scope, event);
            }
            self.untrimmed.insert((kind, key), value);
        }
    }

    /// Current state of a resource, with all its metadata.
    pub(super) fn untrimmed(&self, kind: Kind, key: &Key) -> Option<&Value> {
        self.untrimmed.get(&(kind, key.clone()))
    }

    /// Reads the VirtualMachines that Machines adopt and that have no label yet, with their instances and
    /// disks.
    pub(super) async fn read_adopted(
        &mut self,
        client: &Client,
        wanted: &[(&GivenDocument, Value)],
    ) -> Result<(), PreviewError> {
        let requests = Requests::new(client.clone(), api::labels::MANAGER);
        for (given, value) in wanted.iter().filter(|(it, _)| it.kind == Kind::Machine) {
            let metadata = decode::from_value_ref(&value["metadata"]).unwrap_or_default();
            let namespace = &given.key.namespace;
            let name = value["spec"]["name"].as_str().unwrap_or(&given.key.name);
            let vm = Key::new(namespace, name);
            let is_cached = self.caches.virtual_machines.get(&vm).is_some();
            if AdoptionRequest::of(&metadata).is_none()
                || is_cached
                || !self.caches.is_served(Watched::VirtualMachines)
            {
                continue;
            }
            let Some(vm) = read(&requests, Child::VirtualMachine, namespace, name).await? else {
                continue;
            };
            let instance = (Child::VirtualMachineInstance, name);
            let disks = claims_of(&vm["spec"]).flat_map(|(_, claim)| {
                [Child::PersistentVolumeClaim, Child::DataVolume].map(|kind| (kind, claim))
            });
            let mut found = Vec::new();
            for (kind, name) in disks.chain([instance]) {
                let object = read(&requests, kind, namespace, name).await?;
                found.extend(object.map(|object| (kind, object)));
            }
            found.push((Child::VirtualMachine, vm));
            let scope = WatchScope::namespace(namespace);
            for (kind, object) in &found {
                if let Some(event) = child_event(*kind, object) {
                    self.caches.on_event(&scope, event);
                }
            }
        }
        Ok(())
    }

    /// Adds the StorageClasses of the documents to the caches.
    pub(super) fn overlay(&mut self, others: &[Resource]) {
        for resource in others {
            if let Resource::StorageClass(class) = resource {
                let mut class = StorageClass::clone(class);
                class.metadata.resource_version = None;
                let event = KindEvent::StorageClass(WatchEvent::Applied(class));
                self.caches.on_event(&WatchScope::Cluster, event);
            }
        }
    }

    /// Other resources that a change of this one affects.
    pub(super) fn affected_by(&self, kind: Kind, key: &Key) -> Vec<Subject> {
        match kind {
            Kind::MachineClass => self.caches.sized_by(&key.name).collect(),
            Kind::NetworkConfiguration => self.caches.attached_to(key).collect(),
            Kind::Machine => Vec::new(),
        }
    }
}

/// Watch event for a resource of a user, without its version.
fn applied_event(kind: Kind, value: &Value) -> Option<KindEvent> {
    match kind {
        Kind::Machine => applied::<Machine>(value).map(KindEvent::Machine),
        Kind::NetworkConfiguration => {
            applied::<NetworkConfiguration>(value).map(KindEvent::Network)
        }
        Kind::MachineClass => applied::<MachineClass>(value).map(KindEvent::Class),
    }
}

/// Watch event for a child, without its version.
fn child_event(kind: Child, value: &Value) -> Option<KindEvent> {
    match kind {
        Child::VirtualMachine => {
            applied::<ObservedVirtualMachine>(value).map(KindEvent::VirtualMachine)
        }
        Child::VirtualMachineInstance => {
            applied::<ObservedInstance>(value).map(KindEvent::Instance)
        }
        Child::PersistentVolumeClaim => applied::<ObservedClaim>(value).map(KindEvent::Claim),
        Child::DataVolume => applied::<ObservedDataVolume>(value).map(KindEvent::DataVolume),
        Child::NetworkAttachmentDefinition | Child::NetworkConfiguration => None,
    }
}

/// Reads an object, if it and its kind exist.
async fn read(
    requests: &Requests,
    kind: Child,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, PreviewError> {
    match requests.get(&paths::object(kind, namespace, name)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(PreviewError::NotListed(format!(
            "cannot read {} {namespace}/{name}: {error}",
            kind.as_str()
        ))),
    }
}

fn applied<T: DeserializeOwned + Slim>(value: &Value) -> Option<WatchEvent<T::Kept>> {
    slim::<T>(value).map(WatchEvent::Applied)
}

fn slim<T: DeserializeOwned + Slim>(value: &Value) -> Option<T::Kept> {
    let mut value = value.clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    let object: T = decode::from_value(value).ok()?;
    // The settings of the running operator are not known here.
    Some(object.slim(&PassedOn::default()))
}

/// A resource of a user as it would be cached; none if it cannot be decoded.
pub(super) fn cached(kind: Kind, value: &Value) -> Option<Value> {
    match kind {
        Kind::Machine => serde_json::to_value(slim::<Machine>(value)?).ok(),
        Kind::NetworkConfiguration => {
            serde_json::to_value(slim::<NetworkConfiguration>(value)?).ok()
        }
        Kind::MachineClass => serde_json::to_value(slim::<MachineClass>(value)?).ok(),
    }
}

/// NetworkConfigurations that a Machine attaches to.
pub(super) fn networks_of(value: &Value) -> Vec<Subject> {
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let networks = value["spec"]["networks"].as_array().into_iter().flatten();
    networks
        .filter_map(|network| network["networkName"].as_str())
        .map(|name| Subject::network(Key::new(namespace, name)))
        .collect()
}

async fn list(
    place: &Place,
    children: &str,
    watched: Watched,
    scope: WatchScope,
) -> Result<Listed, PreviewError> {
    let (kind, resource) = match watched {
        Watched::Machines => (Kind::Machine, resource::<Machine>()),
        Watched::Networks => (
            Kind::NetworkConfiguration,
            resource::<NetworkConfiguration>(),
        ),
        Watched::Classes => (Kind::MachineClass, resource::<MachineClass>()),
        _ => {
            let events = list_events(place, children, watched, scope).await;
            return events.map(Listed::Events);
        }
    };
    let client = &place.management;
    let api: Api<DynamicObject> = match &scope {
        WatchScope::Cluster => Api::all_with(client.clone(), &resource),
        WatchScope::Namespace(name) => Api::namespaced_with(client.clone(), name, &resource),
    };
    let changes = reflector(api, Config::default(), Random::seeded(0), |object| object);
    let progress = |change: &WatchEvent<DynamicObject>| Progress::of(change);
    let changes = collect_list(changes, progress, watched.name()).await;
    let changes = changes.map_err(PreviewError::NotListed)?;
    let objects = changes
        .into_iter()
        .filter_map(|change| match change {
            WatchEvent::Listed(object) => Some(object),
            _ => None,
        })
        .collect();
    Ok(Listed::Untrimmed(kind, scope, objects))
}

fn resource<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

async fn list_events(
    place: &Place,
    children: &str,
    watched: Watched,
    scope: WatchScope,
) -> Result<Vec<(WatchScope, KindEvent)>, PreviewError> {
    let client = match watched.location() {
        Location::Management => &place.management,
        Location::Workload => &place.workload,
    };
    let events = watched.start(client, children, &PassedOn::default(), &[scope], 0);
    let events = collect_list(events, |(_, event)| event.progress(), watched.name()).await;
    events.map_err(PreviewError::NotListed)
}
