//! Watches of the Machine controller: one entry per kind.

use api::{
    Machine, MachineClass, NetworkConfiguration,
    cdi::ObservedDataVolume,
    core::{ObservedClaim, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine, install::KubeVirt},
    labels,
    multus::NetworkAttachmentDefinition,
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    api::core::v1::{ResourceQuota, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, Resource, core::PartialObjectMeta};
use runtime::{
    backoff::Random,
    reflector::{Config, WatchEvent, reflector},
};
use serde::de::DeserializeOwned;

use super::{
    packed::Packed,
    slim::{Slim, cached},
    watched_secret::WatchedSecret,
};
use crate::lists::Progress;

/// CustomResourceDefinition; only the name and the deletion timestamp are read.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// ResourceQuota; only the fact that it changed is used.
pub(super) type Quota = PartialObjectMeta<ResourceQuota>;

/// KubeVirt resource; only its deletion timestamp is read.
pub(super) type Installation = PartialObjectMeta<KubeVirt>;

/// Watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    Definitions,
    Machines,
    Networks,
    Classes,
    StorageClasses,
    Attachments,
    VirtualMachines,
    Instances,
    Claims,
    DataVolumes,
    Quotas,
    Installations,
    Secrets,
}

/// Event of one of the watches.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "each is moved once, from the watch into the caches"
)]
pub(super) enum KindEvent {
    Definition(WatchEvent<Definition>),
    Machine(WatchEvent<Machine>),
    Network(WatchEvent<NetworkConfiguration>),
    Class(WatchEvent<MachineClass>),
    StorageClass(WatchEvent<StorageClass>),
    Attachment(WatchEvent<NetworkAttachmentDefinition>),
    VirtualMachine(WatchEvent<Packed<ObservedVirtualMachine>>),
    Instance(WatchEvent<Packed<ObservedInstance>>),
    Claim(WatchEvent<Packed<ObservedClaim>>),
    DataVolume(WatchEvent<Packed<ObservedDataVolume>>),
    Quota(WatchEvent<Quota>),
    Installation(WatchEvent<Installation>),
    Secret(WatchEvent<WatchedSecret>),
}

impl KindEvent {
    /// Progress of the list that the event belongs to.
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Definition(change) => Progress::of(change),
            Self::Machine(change) => Progress::of(change),
            Self::Network(change) => Progress::of(change),
            Self::Class(change) => Progress::of(change),
            Self::StorageClass(change) => Progress::of(change),
            Self::Attachment(change) => Progress::of(change),
            Self::VirtualMachine(change) => Progress::of(change),
            Self::Instance(change) => Progress::of(change),
            Self::Claim(change) => Progress::of(change),
            Self::DataVolume(change) => Progress::of(change),
            Self::Quota(change) => Progress::of(change),
            Self::Installation(change) => Progress::of(change),
            Self::Secret(change) => Progress::of(change),
        }
    }
}

impl Watched {
    pub(super) const ALL: [Self; 13] = [
        Self::Definitions,
        Self::Machines,
        Self::Networks,
        Self::Classes,
        Self::StorageClasses,
        Self::Attachments,
        Self::VirtualMachines,
        Self::Instances,
        Self::Claims,
        Self::DataVolumes,
        Self::Quotas,
        Self::Installations,
        Self::Secrets,
    ];

    /// Plural resource name, for probes and logs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Definitions => "customresourcedefinitions",
            Self::Machines => "machines",
            Self::Networks => "networkconfigurations",
            Self::Classes => "machineclasses",
            Self::StorageClasses => "storageclasses",
            Self::Attachments => "network-attachment-definitions",
            Self::VirtualMachines => "virtualmachines",
            Self::Instances => "virtualmachineinstances",
            Self::Claims => "persistentvolumeclaims",
            Self::DataVolumes => "datavolumes",
            Self::Quotas => "resourcequotas",
            Self::Installations => "kubevirts",
            Self::Secrets => "secrets",
        }
    }

    /// CustomResourceDefinition of the kind; none if it is built in.
    pub(super) fn definition(self) -> Option<&'static str> {
        match self {
            Self::Machines => Some("machines.vitistack.io"),
            Self::Networks => Some("networkconfigurations.vitistack.io"),
            Self::Classes => Some("machineclasses.vitistack.io"),
            Self::Attachments => Some("network-attachment-definitions.k8s.cni.cncf.io"),
            Self::VirtualMachines => Some("virtualmachines.kubevirt.io"),
            Self::Instances => Some("virtualmachineinstances.kubevirt.io"),
            Self::DataVolumes => Some("datavolumes.cdi.kubevirt.io"),
            Self::Installations => Some("kubevirts.kubevirt.io"),
            Self::Definitions
            | Self::StorageClasses
            | Self::Claims
            | Self::Quotas
            | Self::Secrets => None,
        }
    }

    /// Whether the operator is unready without this kind.
    pub(super) fn is_required(self) -> bool {
        !matches!(
            self,
            Self::Attachments
                | Self::VirtualMachines
                | Self::Instances
                | Self::DataVolumes
                | Self::Installations
                | Self::Secrets
        )
    }

    /// Whether the kind is in the API group vitistack.io. While one of these is not served, only
    /// deletions are reconciled.
    pub(super) fn is_vitistack(self) -> bool {
        matches!(self, Self::Machines | Self::Networks | Self::Classes)
    }

    /// Whether the watch spans the cluster even if the operator is restricted to namespaces:
    /// cluster-scoped kinds, and KubeVirt resources, which are in KubeVirt's namespace.
    pub(super) fn is_cluster_wide(self) -> bool {
        matches!(
            self,
            Self::Definitions | Self::Classes | Self::StorageClasses | Self::Installations
        )
    }

    /// Watches the kind in these namespaces (`""`: all), with one connection each.
    pub(super) fn start(
        self,
        client: &Client,
        scopes: &[String],
        seed: u64,
    ) -> BoxStream<'static, (String, KindEvent)> {
        if self.is_cluster_wide() {
            return self.start_one(client, "", seed);
        }
        let streams = scopes
            .iter()
            .zip(seed..)
            .map(|(scope, seed)| self.start_one(client, scope, seed));
        stream::select_all(streams).boxed()
    }

    fn start_one(
        self,
        client: &Client,
        scope: &str,
        seed: u64,
    ) -> BoxStream<'static, (String, KindEvent)> {
        let events = match self {
            Self::Definitions => metadata(Api::all(client.clone()), seed, KindEvent::Definition),
            Self::Quotas => metadata(in_scope(client, scope), seed, KindEvent::Quota),
            Self::Installations => {
                metadata(Api::all(client.clone()), seed, KindEvent::Installation)
            }
            Self::Secrets => secrets(in_scope(client, scope), seed),
            Self::Classes => {
                objects::<MachineClass>(Api::all(client.clone()), None, seed, KindEvent::Class)
            }
            Self::StorageClasses => objects::<StorageClass>(
                Api::all(client.clone()),
                None,
                seed,
                KindEvent::StorageClass,
            ),
            Self::Machines => {
                let api: Api<Machine> = in_scope(client, scope);
                reflector(api, Config::default(), Random::seeded(seed), cached)
                    .map(KindEvent::Machine)
                    .boxed()
            }
            Self::Networks => objects::<NetworkConfiguration>(
                in_scope(client, scope),
                None,
                seed,
                KindEvent::Network,
            ),
            Self::Attachments => managed::<NetworkAttachmentDefinition>(
                in_scope(client, scope),
                seed,
                KindEvent::Attachment,
            ),
            Self::VirtualMachines => managed::<ObservedVirtualMachine>(
                in_scope(client, scope),
                seed,
                KindEvent::VirtualMachine,
            ),
            Self::Instances => {
                managed::<ObservedInstance>(in_scope(client, scope), seed, KindEvent::Instance)
            }
            Self::Claims => {
                managed::<ObservedClaim>(in_scope(client, scope), seed, KindEvent::Claim)
            }
            Self::DataVolumes => {
                managed::<ObservedDataVolume>(in_scope(client, scope), seed, KindEvent::DataVolume)
            }
        };
        let scope = scope.to_owned();
        events.map(move |event| (scope.clone(), event)).boxed()
    }
}

fn in_scope<T>(client: &Client, scope: &str) -> Api<T>
where
    T: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    if scope.is_empty() {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), scope)
    }
}

/// Watches the metadata of Secrets with the operator's label.
fn secrets(api: Api<PartialObjectMeta<Secret>>, seed: u64) -> BoxStream<'static, KindEvent> {
    let config = Config {
        label_selector: Some(managed_by_selector()),
        metadata_only: true,
        ..Config::default()
    };
    reflector(api, config, Random::seeded(seed), |object| {
        WatchedSecret::slim(&object)
    })
    .map(KindEvent::Secret)
    .boxed()
}

fn managed_by_selector() -> String {
    format!("{}={}", labels::MANAGED_BY, labels::MANAGER)
}

/// Watches objects with the operator's label.
fn managed<T>(
    api: Api<T>,
    seed: u64,
    event: fn(WatchEvent<T::Kept>) -> KindEvent,
) -> BoxStream<'static, KindEvent>
where
    T: Resource + Slim<Kept: Send> + DeserializeOwned + Send + 'static,
{
    objects(api, Some(managed_by_selector()), seed, event)
}

fn objects<T>(
    api: Api<T>,
    label_selector: Option<String>,
    seed: u64,
    event: fn(WatchEvent<T::Kept>) -> KindEvent,
) -> BoxStream<'static, KindEvent>
where
    T: Resource + Slim<Kept: Send> + DeserializeOwned + Send + 'static,
{
    let config = Config {
        label_selector,
        ..Config::default()
    };
    reflector(api, config, Random::seeded(seed), T::slim)
        .map(event)
        .boxed()
}

fn metadata<K>(
    api: Api<PartialObjectMeta<K>>,
    seed: u64,
    event: fn(WatchEvent<PartialObjectMeta<K>>) -> KindEvent,
) -> BoxStream<'static, KindEvent>
where
    PartialObjectMeta<K>: Resource + DeserializeOwned + Send + 'static,
{
    let config = Config {
        metadata_only: true,
        ..Config::default()
    };
    let slim = |mut object: PartialObjectMeta<K>| {
        object.metadata.managed_fields = None;
        object.metadata.annotations = None;
        object.metadata.labels = None;
        object
    };
    reflector(api, config, Random::seeded(seed), slim)
        .map(event)
        .boxed()
}
