//! What is watched.

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

/// A CustomResourceDefinition, of which only the name matters.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// A ResourceQuota, of which only that it changes matters.
pub(super) type Quota = PartialObjectMeta<ResourceQuota>;

/// A KubeVirt resource, of which only whether it is being deleted matters.
pub(super) type Installation = PartialObjectMeta<KubeVirt>;

/// A kind that is watched.
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

/// What a watch tells.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "each is moved once, from the watch into the caches"
)]
pub(super) enum Told {
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

impl Told {
    /// How far the list has come that this is told of.
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

    /// The name in probes and logs: the plural that users know.
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

    /// The definition that it depends on, if it is not built in.
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

    /// Whether the operator is not ready without it.
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

    /// Whether it is a kind of our own. While one of these is not served, nothing is kept, but what
    /// is being deleted still finds its end.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Machines | Self::Networks | Self::Classes)
    }

    /// Whether it is watched in the whole cluster, whatever namespaces the operator keeps to: kinds
    /// without a namespace, and KubeVirt resources, which are in the namespace of KubeVirt.
    pub(super) fn is_of_the_cluster(self) -> bool {
        matches!(
            self,
            Self::Definitions | Self::Classes | Self::StorageClasses | Self::Installations
        )
    }

    /// Watches the kind in these namespaces (`""`: in all), each with its own connection.
    pub(super) fn start(
        self,
        client: &Client,
        scopes: &[String],
        seed: u64,
    ) -> BoxStream<'static, (String, Told)> {
        if self.is_of_the_cluster() {
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
    ) -> BoxStream<'static, (String, Told)> {
        let told = match self {
            Self::Definitions => metadata(Api::all(client.clone()), seed, Told::Definition),
            Self::Quotas => metadata(in_scope(client, scope), seed, Told::Quota),
            Self::Installations => metadata(Api::all(client.clone()), seed, Told::Installation),
            Self::Secrets => secrets(in_scope(client, scope), seed),
            Self::Classes => {
                objects::<MachineClass>(Api::all(client.clone()), None, seed, Told::Class)
            }
            Self::StorageClasses => {
                objects::<StorageClass>(Api::all(client.clone()), None, seed, Told::StorageClass)
            }
            Self::Machines => {
                let api: Api<Machine> = in_scope(client, scope);
                reflector(api, Config::default(), Random::seeded(seed), cached)
                    .map(Told::Machine)
                    .boxed()
            }
            Self::Networks => {
                objects::<NetworkConfiguration>(in_scope(client, scope), None, seed, Told::Network)
            }
            Self::Attachments => {
                ours::<NetworkAttachmentDefinition>(in_scope(client, scope), seed, Told::Attachment)
            }
            Self::VirtualMachines => {
                ours::<ObservedVirtualMachine>(in_scope(client, scope), seed, Told::VirtualMachine)
            }
            Self::Instances => {
                ours::<ObservedInstance>(in_scope(client, scope), seed, Told::Instance)
            }
            Self::Claims => ours::<ObservedClaim>(in_scope(client, scope), seed, Told::Claim),
            Self::DataVolumes => {
                ours::<ObservedDataVolume>(in_scope(client, scope), seed, Told::DataVolume)
            }
        };
        let scope = scope.to_owned();
        told.map(move |told| (scope.clone(), told)).boxed()
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

/// The metadata of the Secrets that carry our label.
fn secrets(api: Api<PartialObjectMeta<Secret>>, seed: u64) -> BoxStream<'static, Told> {
    let config = Config {
        label_selector: Some(our_label()),
        metadata_only: true,
        ..Config::default()
    };
    reflector(api, config, Random::seeded(seed), |object| {
        WatchedSecret::slim(&object)
    })
    .map(Told::Secret)
    .boxed()
}

fn our_label() -> String {
    format!("{}={}", labels::MANAGED_BY, labels::MANAGER)
}

/// The objects that carry our label.
fn ours<T>(
    api: Api<T>,
    seed: u64,
    told: fn(WatchEvent<T::Kept>) -> Told,
) -> BoxStream<'static, Told>
where
    T: Resource + Slim<Kept: Send> + DeserializeOwned + Send + 'static,
{
    objects(api, Some(our_label()), seed, told)
}

fn objects<T>(
    api: Api<T>,
    label_selector: Option<String>,
    seed: u64,
    told: fn(WatchEvent<T::Kept>) -> Told,
) -> BoxStream<'static, Told>
where
    T: Resource + Slim<Kept: Send> + DeserializeOwned + Send + 'static,
{
    let config = Config {
        label_selector,
        ..Config::default()
    };
    reflector(api, config, Random::seeded(seed), T::slim)
        .map(told)
        .boxed()
}

fn metadata<K>(
    api: Api<PartialObjectMeta<K>>,
    seed: u64,
    told: fn(WatchEvent<PartialObjectMeta<K>>) -> Told,
) -> BoxStream<'static, Told>
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
        .map(told)
        .boxed()
}
