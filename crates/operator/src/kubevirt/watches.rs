//! Watches of the KubeVirt controller.

use api::kubevirt::install::{self, KubeVirt};
use futures::{
    StreamExt as _,
    stream::{BoxStream, Stream},
};
use k8s_openapi::{
    api::core::v1::ServiceAccount,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, core::PartialObjectMeta};
use plan::kubevirt::{
    Live,
    observed::{Node, Pod},
};
use runtime::{
    backoff::Random,
    cache::Trimmed,
    reflector::{Config, WatchEvent, reflector, untyped_reflector},
};

use super::{
    kinds::{GroupKind, Resource, Scope},
    slim::{self, Secret},
};

/// Lease whose holder identity is the address of virt-synchronization-controller.
pub(super) const SYNCHRONIZATION: &str = "virt-synchronization-controller";

/// CustomResourceDefinition; only the name and the deletion timestamp are read.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// ServiceAccount; only the name is read.
pub(super) type Account = PartialObjectMeta<ServiceAccount>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    KubeVirts,
    /// Metadata of all CustomResourceDefinitions.
    Definitions,
    /// Pods of the operator's namespace, except those of virtual machines.
    Pods,
    Nodes,
    /// Service accounts with this name, in all namespaces: Prometheus.
    Accounts(String),
    /// The operator's namespace.
    Namespace,
    /// ConfigMaps with install strategies, metadata only.
    Strategies,
    /// Lease of virt-synchronization-controller.
    Lease,
    /// Objects of a kind with the managed-by label of KubeVirt.
    Objects(GroupKind),
}

/// Event of one of the watches.
#[derive(Debug)]
pub(super) enum KindEvent {
    KubeVirt(Box<WatchEvent<KubeVirt>>),
    Definition(Box<WatchEvent<Definition>>),
    Pod(Box<WatchEvent<Trimmed<Pod>>>),
    Node(Box<WatchEvent<Trimmed<Node>>>),
    Account(Box<WatchEvent<Account>>),
    Object(Box<WatchEvent<Live>>),
    Secret(Box<WatchEvent<Secret>>),
}

impl KindEvent {
    /// Message of a watch that is refused for missing permission.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self {
            Self::KubeVirt(change) => refusal(change),
            Self::Definition(change) => refusal(change),
            Self::Pod(change) => refusal(change),
            Self::Node(change) => refusal(change),
            Self::Account(change) => refusal(change),
            Self::Object(change) => refusal(change),
            Self::Secret(change) => refusal(change),
        }
    }
}

fn refusal<T>(change: &WatchEvent<T>) -> Option<&str> {
    match change {
        WatchEvent::Failing(failure) if failure.code == Some(403) => Some(&failure.summary),
        _ => None,
    }
}

impl Watched {
    /// Plural resource name, for logs.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::KubeVirts => "kubevirts",
            Self::Definitions => "customresourcedefinitions",
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Accounts(_) => "serviceaccounts of Prometheus",
            Self::Namespace => "namespaces",
            Self::Strategies => "strategies",
            Self::Lease => "leases",
            Self::Objects((_, kind)) => kind,
        }
    }
}

/// Factory of watches, in the operator's namespace or in the whole cluster.
#[derive(Clone)]
pub(super) struct Watches {
    client: Client,
    namespace: String,
}

impl Watches {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// Starts any watch except [`Watched::Objects`], which [`objects`](Self::objects) starts.
    pub(super) fn start(
        &self,
        watched: &Watched,
        seed: u64,
    ) -> Option<BoxStream<'static, KindEvent>> {
        let random = Random::seeded(seed);
        let client = self.client.clone();
        let namespace = &self.namespace;
        Some(match watched {
            Watched::KubeVirts => {
                let trim = |mut kubevirt: KubeVirt| {
                    kubevirt.metadata.managed_fields = None;
                    kubevirt
                };
                let all = Api::<KubeVirt>::all(client);
                events(
                    reflector(all, Config::default(), random, trim),
                    KindEvent::KubeVirt,
                )
            }
            Watched::Definitions => {
                let all = Api::<Definition>::all(client);
                events(
                    reflector(all, metadata(), random, trimmed),
                    KindEvent::Definition,
                )
            }
            Watched::Accounts(name) => {
                let config = Config {
                    field_selector: Some(format!("metadata.name={name}")),
                    ..metadata()
                };
                let all = Api::<Account>::all(client);
                events(reflector(all, config, random, trimmed), KindEvent::Account)
            }
            Watched::Pods => {
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                let config = labelled("kubevirt.io notin (virt-launcher,hotplug-disk)");
                events(
                    untyped_reflector(client, path, config, random, slim::pod),
                    KindEvent::Pod,
                )
            }
            Watched::Nodes => {
                let path = "/api/v1/nodes".to_owned();
                let config = Config::default();
                events(
                    untyped_reflector(client, path, config, random, slim::node),
                    KindEvent::Node,
                )
            }
            Watched::Namespace => {
                let config = Config {
                    field_selector: Some(format!("metadata.name={namespace}")),
                    ..Config::default()
                };
                let decode = |text: &[u8]| slim::live("", "v1", "Namespace", text);
                let path = "/api/v1/namespaces".to_owned();
                events(
                    untyped_reflector(client, path, config, random, decode),
                    KindEvent::Object,
                )
            }
            Watched::Strategies => {
                let config = Config {
                    label_selector: Some(install::STRATEGY.to_owned()),
                    ..metadata()
                };
                let decode = |text: &[u8]| slim::live("", "v1", "ConfigMap", text);
                let path = format!("/api/v1/namespaces/{namespace}/configmaps");
                events(
                    untyped_reflector(client, path, config, random, decode),
                    KindEvent::Object,
                )
            }
            Watched::Lease => {
                let config = Config {
                    field_selector: Some(format!("metadata.name={SYNCHRONIZATION}")),
                    ..Config::default()
                };
                let group = "coordination.k8s.io";
                let decode = move |text: &[u8]| slim::live(group, "v1", "Lease", text);
                let path = format!("/apis/{group}/v1/namespaces/{namespace}/leases");
                events(
                    untyped_reflector(client, path, config, random, decode),
                    KindEvent::Object,
                )
            }
            Watched::Objects(_) => return None,
        })
    }

    /// Watches the managed objects of a kind. Of SecurityContextConstraints all are watched.
    pub(super) fn objects(&self, resource: &Resource, seed: u64) -> BoxStream<'static, KindEvent> {
        let namespace = match resource.scope {
            Scope::Own => Some(self.namespace.as_str()),
            Scope::Cluster | Scope::Everywhere => None,
        };
        let path = resource.collection(&resource.version, namespace);
        let (key, managers) = (
            install::MANAGED_BY,
            [install::MANAGER, install::OLD_MANAGER],
        );
        let mut selector = format!("{key} in ({})", managers.join(","));
        if resource.group.is_empty() && &*resource.kind == "ConfigMap" {
            // Large; `Watched::Strategies` watches their metadata.
            selector = format!("{selector},!{}", install::STRATEGY);
        }
        let Resource {
            group,
            version,
            kind,
            ..
        } = resource.clone();
        // Old releases added their accounts to one of OpenShift's own constraints.
        let config = if &*group == "security.openshift.io" {
            Config::default()
        } else {
            labelled(&selector)
        };
        let random = Random::seeded(seed);
        if group.is_empty() && &*kind == "Secret" {
            let secrets =
                untyped_reflector(self.client.clone(), path, config, random, slim::secret);
            return events(secrets, KindEvent::Secret);
        }
        let decode = move |text: &[u8]| slim::live(&group, &version, &kind, text);
        events(
            untyped_reflector(self.client.clone(), path, config, random, decode),
            KindEvent::Object,
        )
    }
}

fn events<T: 'static>(
    changes: impl Stream<Item = WatchEvent<T>> + Send + 'static,
    event: fn(Box<WatchEvent<T>>) -> KindEvent,
) -> BoxStream<'static, KindEvent> {
    changes.map(move |change| event(Box::new(change))).boxed()
}

fn labelled(selector: &str) -> Config {
    Config {
        label_selector: Some(selector.to_owned()),
        ..Config::default()
    }
}

fn metadata() -> Config {
    Config {
        metadata_only: true,
        ..Config::default()
    }
}

fn trimmed<K>(mut object: PartialObjectMeta<K>) -> PartialObjectMeta<K> {
    object.metadata.managed_fields = None;
    object.metadata.annotations = None;
    object.metadata.labels = None;
    object
}
