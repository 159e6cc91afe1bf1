//! Watches of the Machine controller: one entry per kind.

use api::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
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
use plan::machine::{PassedOn, RemoteCluster};
use runtime::{
    backoff::Random,
    cache::WatchScope,
    reflector::{Config, WatchEvent, WatchFailure, reflector},
};
use serde::de::DeserializeOwned;

use super::{
    packed::Packed,
    slim::{Slim, cached},
    watched_secret::{WatchedSecret, watched_secret},
};
use crate::kind_events::impl_kind_events;

/// CustomResourceDefinition; only the name and the deletion timestamp are read.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// ResourceQuota; only the fact that it changed is used.
pub(super) type Quota = PartialObjectMeta<ResourceQuota>;

/// KubeVirt resource; only its deletion timestamp is read.
pub(super) type Installation = PartialObjectMeta<KubeVirt>;

/// Where a kind is defined.
#[derive(Clone, Copy)]
enum Definer {
    Kubernetes,
    /// CustomResourceDefinition of the API group vitistack.io.
    Vitistack(&'static str),
    /// CustomResourceDefinition of KubeVirt, CDI, Multus or another operator of the Viti stack.
    Other(&'static str),
}

/// Cluster that a kind is watched in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// The cluster of the Machines.
    Management,
    /// The cluster of their virtual machines, which may be the same.
    Workload,
}

/// Where objects are watched.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) client: Client,
    pub(super) scope: WatchScope,
    /// Selects the objects of Machines.
    pub(super) children: String,
    /// Labels and annotations of users that are kept.
    pub(super) passed_on: PassedOn,
}

/// Properties of a watched kind.
struct WatchedKind {
    /// Plural resource name, for probes and logs.
    name: &'static str,
    definer: Definer,
    /// Whether the operator is unready without this kind.
    is_required: bool,
    /// Whether the watch spans the cluster even if the operator is restricted to namespaces:
    /// cluster-scoped kinds, and KubeVirt resources, which are in KubeVirt's namespace.
    is_cluster_wide: bool,
    location: Location,
    start: fn(Source, u64) -> BoxStream<'static, KindEvent>,
}

/// Declares the watched kinds: the variant of [`Watched`], the variant of [`KindEvent`] with the type of
/// the cached object, and the [`WatchedKind`].
macro_rules! watched_kinds {
    ($($watched:ident: $event:ident($object:ty) = $kind:expr;)*) => {
        /// Watched kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Watched {
            $($watched,)*
        }

        /// Event of one of the watches.
        #[derive(Debug)]
        #[expect(
            clippy::large_enum_variant,
            reason = "each is moved once, from the watch into the caches"
        )]
        pub(super) enum KindEvent {
            $($event(WatchEvent<$object>),)*
        }

        impl_kind_events!(KindEvent: $($event),*);

        impl KindEvent {
            /// Whether the watch failed or works again, if the event says so.
            pub(super) fn health(&self) -> Option<Result<(), &WatchFailure>> {
                match self {
                    $(Self::$event(change) => change.health(),)*
                }
            }
        }

        impl Watched {
            pub(super) const ALL: [Self; [$(Self::$watched),*].len()] = [$(Self::$watched),*];

            fn kind(self) -> WatchedKind {
                match self {
                    $(Self::$watched => $kind,)*
                }
            }
        }
    };
}

watched_kinds! {
    Definitions: Definition(Definition) = WatchedKind {
        name: "customresourcedefinitions",
        definer: Definer::Kubernetes,
        is_required: true,
        is_cluster_wide: true,
        location: Location::Management,
        start: |source, seed| metadata(Api::all(source.client), seed, KindEvent::Definition),
    };
    RemoteDefinitions: RemoteDefinition(Definition) = WatchedKind {
        name: "customresourcedefinitions of the cluster",
        definer: Definer::Kubernetes,
        is_required: false,
        is_cluster_wide: true,
        location: Location::Workload,
        start: |source, seed| metadata(Api::all(source.client), seed, KindEvent::RemoteDefinition),
    };
    Configs: Config(KubevirtConfig) = WatchedKind {
        name: "kubevirtconfigs",
        definer: Definer::Other("kubevirtconfigs.vitistack.io"),
        is_required: false,
        is_cluster_wide: true,
        location: Location::Management,
        start: |source, seed| {
            objects::<KubevirtConfig>(Api::all(source.client), None, seed, KindEvent::Config)
        },
    };
    Machines: Machine(Machine) = WatchedKind {
        name: "machines",
        definer: Definer::Vitistack("machines.vitistack.io"),
        is_required: true,
        is_cluster_wide: false,
        location: Location::Management,
        start: machines,
    };
    Networks: Network(NetworkConfiguration) = WatchedKind {
        name: "networkconfigurations",
        definer: Definer::Vitistack("networkconfigurations.vitistack.io"),
        is_required: true,
        is_cluster_wide: false,
        location: Location::Management,
        start: |source, seed| {
            objects::<NetworkConfiguration>(in_scope(&source), None, seed, KindEvent::Network)
        },
    };
    NetworkNamespaces: NetworkNamespace(NetworkNamespace) = WatchedKind {
        name: "networknamespaces",
        definer: Definer::Other("networknamespaces.vitistack.io"),
        is_required: false,
        is_cluster_wide: false,
        location: Location::Management,
        start: |source, seed| {
            objects::<NetworkNamespace>(
                in_scope(&source),
                None,
                seed,
                KindEvent::NetworkNamespace,
            )
        },
    };
    Classes: Class(MachineClass) = WatchedKind {
        name: "machineclasses",
        definer: Definer::Vitistack("machineclasses.vitistack.io"),
        is_required: true,
        is_cluster_wide: true,
        location: Location::Management,
        start: |source, seed| {
            objects::<MachineClass>(Api::all(source.client), None, seed, KindEvent::Class)
        },
    };
    StorageClasses: StorageClass(StorageClass) = WatchedKind {
        name: "storageclasses",
        definer: Definer::Kubernetes,
        is_required: true,
        is_cluster_wide: true,
        location: Location::Workload,
        start: |source, seed| {
            objects::<StorageClass>(Api::all(source.client), None, seed, KindEvent::StorageClass)
        },
    };
    Attachments: Attachment(NetworkAttachmentDefinition) = WatchedKind {
        name: "network-attachment-definitions",
        definer: Definer::Other("network-attachment-definitions.k8s.cni.cncf.io"),
        is_required: false,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| {
            // Machines also use definitions of VLANs that someone else created.
            objects::<NetworkAttachmentDefinition>(
                in_scope(&source),
                None,
                seed,
                KindEvent::Attachment,
            )
        },
    };
    VirtualMachines: VirtualMachine(Packed<ObservedVirtualMachine>) = WatchedKind {
        name: "virtualmachines",
        definer: Definer::Other("virtualmachines.kubevirt.io"),
        is_required: false,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| {
            managed::<ObservedVirtualMachine>(&source, seed, KindEvent::VirtualMachine)
        },
    };
    Instances: Instance(Packed<ObservedInstance>) = WatchedKind {
        name: "virtualmachineinstances",
        definer: Definer::Other("virtualmachineinstances.kubevirt.io"),
        is_required: false,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| {
            managed::<ObservedInstance>(&source, seed, KindEvent::Instance)
        },
    };
    Claims: Claim(Packed<ObservedClaim>) = WatchedKind {
        name: "persistentvolumeclaims",
        definer: Definer::Kubernetes,
        is_required: true,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| {
            managed::<ObservedClaim>(&source, seed, KindEvent::Claim)
        },
    };
    DataVolumes: DataVolume(Packed<ObservedDataVolume>) = WatchedKind {
        name: "datavolumes",
        definer: Definer::Other("datavolumes.cdi.kubevirt.io"),
        is_required: false,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| {
            managed::<ObservedDataVolume>(&source, seed, KindEvent::DataVolume)
        },
    };
    Quotas: Quota(Quota) = WatchedKind {
        name: "resourcequotas",
        definer: Definer::Kubernetes,
        is_required: true,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| metadata(in_scope(&source), seed, KindEvent::Quota),
    };
    Installations: Installation(Installation) = WatchedKind {
        name: "kubevirts",
        definer: Definer::Other("kubevirts.kubevirt.io"),
        is_required: false,
        is_cluster_wide: true,
        location: Location::Workload,
        start: |source, seed| metadata(Api::all(source.client), seed, KindEvent::Installation),
    };
    Secrets: Secret(WatchedSecret) = WatchedKind {
        name: "secrets",
        definer: Definer::Kubernetes,
        is_required: false,
        is_cluster_wide: false,
        location: Location::Workload,
        start: |source, seed| secrets(&source, seed),
    };
}

impl Watched {
    /// Plural resource name, for probes and logs.
    pub(super) fn name(self) -> &'static str {
        self.kind().name
    }

    /// CustomResourceDefinition of the kind; none if it is built in.
    pub(super) fn definition(self) -> Option<&'static str> {
        match self.kind().definer {
            Definer::Kubernetes => None,
            Definer::Vitistack(name) | Definer::Other(name) => Some(name),
        }
    }

    /// Whether the operator is unready without this kind.
    pub(super) fn is_required(self) -> bool {
        self.kind().is_required
    }

    /// Whether the kind is in the API group vitistack.io. While one of these is not served, only
    /// deletions are reconciled.
    pub(super) fn is_vitistack(self) -> bool {
        matches!(self.kind().definer, Definer::Vitistack(_))
    }

    /// Whether the watch spans the cluster even if the operator is restricted to namespaces.
    pub(super) fn is_cluster_wide(self) -> bool {
        self.kind().is_cluster_wide
    }

    pub(super) fn location(self) -> Location {
        self.kind().location
    }

    /// Watches the kind in these scopes, with one connection each.
    pub(super) fn start(
        self,
        client: &Client,
        children: &str,
        passed_on: &PassedOn,
        scopes: &[WatchScope],
        seed: u64,
    ) -> BoxStream<'static, (WatchScope, KindEvent)> {
        let source = |scope: &WatchScope| Source {
            client: client.clone(),
            scope: scope.clone(),
            children: children.to_owned(),
            passed_on: passed_on.clone(),
        };
        if self.is_cluster_wide() {
            return self.start_one(source(&WatchScope::Cluster), seed);
        }
        let streams = scopes
            .iter()
            .zip(seed..)
            .map(|(scope, seed)| self.start_one(source(scope), seed));
        stream::select_all(streams).boxed()
    }

    fn start_one(self, source: Source, seed: u64) -> BoxStream<'static, (WatchScope, KindEvent)> {
        let scope = source.scope.clone();
        let events = (self.kind().start)(source, seed);
        events.map(move |event| (scope.clone(), event)).boxed()
    }
}

fn in_scope<T>(source: &Source) -> Api<T>
where
    T: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    let client = source.client.clone();
    match &source.scope {
        WatchScope::Cluster => Api::all(client),
        WatchScope::Namespace(namespace) => Api::namespaced(client, namespace),
    }
}

/// Selector of the objects of Machines, in their own cluster or in another.
pub(super) fn children_of(cluster: Option<&RemoteCluster>) -> String {
    let managed_by = format!("{}={}", labels::MANAGED_BY, labels::MANAGER);
    let Some(cluster) = cluster else {
        // Those of Machines in another cluster belong to the operator there.
        return format!("{managed_by},!{}", labels::WORKLOAD_CLUSTER);
    };
    let managed_from = cluster.managed_from.as_deref().unwrap_or_default();
    format!(
        "{managed_by},{}={},{}={managed_from}",
        labels::WORKLOAD_CLUSTER,
        cluster.name,
        labels::MANAGED_FROM
    )
}

/// Watches Machines; large cloud-init data is left out.
fn machines(source: Source, seed: u64) -> BoxStream<'static, KindEvent> {
    let api = in_scope(&source);
    let keep = move |machine| cached(machine, &source.passed_on);
    reflector(api, Config::default(), Random::seeded(seed), keep)
        .map(KindEvent::Machine)
        .boxed()
}

/// Watches the metadata of Secrets with the operator's label.
fn secrets(source: &Source, seed: u64) -> BoxStream<'static, KindEvent> {
    let api: Api<PartialObjectMeta<Secret>> = in_scope(source);
    let config = Config {
        label_selector: Some(source.children.clone()),
        metadata_only: true,
        ..Config::default()
    };
    reflector(api, config, Random::seeded(seed), |object| {
        watched_secret(&object.metadata)
    })
    .map(KindEvent::Secret)
    .boxed()
}

/// Watches objects with the operator's label.
fn managed<T>(
    source: &Source,
    seed: u64,
    event: fn(WatchEvent<T::Kept>) -> KindEvent,
) -> BoxStream<'static, KindEvent>
where
    T: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Slim<Kept: Send>
        + DeserializeOwned
        + Send
        + 'static,
{
    trimmed(
        in_scope::<T>(source),
        Some(source.children.clone()),
        source.passed_on.clone(),
        seed,
        event,
    )
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
    trimmed(api, label_selector, PassedOn::none(), seed, event)
}

fn trimmed<T>(
    api: Api<T>,
    label_selector: Option<String>,
    passed_on: PassedOn,
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
    let slim = move |object: T| object.slim(&passed_on);
    reflector(api, config, Random::seeded(seed), slim)
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
