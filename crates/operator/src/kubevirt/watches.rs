//! What is watched.

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
    reflector::{Config, WatchEvent, reflector, untyped_reflector},
};

use super::{
    kinds::{GroupKind, Resource, Scope},
    slim::{self, Secret, Slim},
};

/// The Lease whose holder says where virt-synchronization-controller listens.
pub(super) const SYNCHRONIZATION: &str = "virt-synchronization-controller";

/// A CustomResourceDefinition, of which only the name matters.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// A ServiceAccount, of which only the name matters.
pub(super) type Account = PartialObjectMeta<ServiceAccount>;

/// Something that is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    /// All KubeVirt resources.
    KubeVirts,
    /// The names of all definitions.
    Definitions,
    /// The pods of the operator's namespace, but for virtual machines.
    Pods,
    /// All nodes.
    Nodes,
    /// The service accounts of that name, which may be Prometheus'.
    Accounts(String),
    /// The operator's namespace.
    Namespace,
    /// The strategies in the cluster, without their text.
    Strategies,
    /// The Lease of virt-synchronization-controller.
    Lease,
    /// The objects of a kind that are labelled as managed.
    Objects(GroupKind),
}

/// What a watch tells.
#[derive(Debug)]
pub(super) enum Told {
    KubeVirt(Box<WatchEvent<KubeVirt>>),
    Definition(Box<WatchEvent<Definition>>),
    Pod(Box<WatchEvent<Slim<Pod>>>),
    Node(Box<WatchEvent<Slim<Node>>>),
    Account(Box<WatchEvent<Account>>),
    Object(Box<WatchEvent<Live>>),
    Secret(Box<WatchEvent<Secret>>),
}

impl Told {
    /// Whether it says that a watch is refused, and in which words.
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
    /// The name in logs: the plural that users know.
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

/// Watches in the operator's namespace or in the whole cluster.
#[derive(Clone)]
pub(super) struct Watches {
    client: Client,
    namespace: String,
}

impl Watches {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// Watches anything but objects of an installation, of which [`objects`](Self::objects) needs to
    /// know more.
    pub(super) fn start(&self, watched: &Watched, seed: u64) -> Option<BoxStream<'static, Told>> {
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
                told(
                    reflector(all, Config::default(), random, trim),
                    Told::KubeVirt,
                )
            }
            Watched::Definitions => {
                let all = Api::<Definition>::all(client);
                told(
                    reflector(all, metadata(), random, trimmed),
                    Told::Definition,
                )
            }
            Watched::Accounts(name) => {
                let config = Config {
                    field_selector: Some(format!("metadata.name={name}")),
                    ..metadata()
                };
                let all = Api::<Account>::all(client);
                told(reflector(all, config, random, trimmed), Told::Account)
            }
            Watched::Pods => {
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                let config = labelled("kubevirt.io notin (virt-launcher,hotplug-disk)");
                told(
                    untyped_reflector(client, path, config, random, slim::pod),
                    Told::Pod,
                )
            }
            Watched::Nodes => {
                let path = "/api/v1/nodes".to_owned();
                let config = Config::default();
                told(
                    untyped_reflector(client, path, config, random, slim::node),
                    Told::Node,
                )
            }
            Watched::Namespace => {
                let config = Config {
                    field_selector: Some(format!("metadata.name={namespace}")),
                    ..Config::default()
                };
                let decode = |text: &[u8]| slim::live("", "v1", "Namespace", text);
                let path = "/api/v1/namespaces".to_owned();
                told(
                    untyped_reflector(client, path, config, random, decode),
                    Told::Object,
                )
            }
            Watched::Strategies => {
                let config = Config {
                    label_selector: Some(install::STRATEGY.to_owned()),
                    ..metadata()
                };
                let decode = |text: &[u8]| slim::live("", "v1", "ConfigMap", text);
                let path = format!("/api/v1/namespaces/{namespace}/configmaps");
                told(
                    untyped_reflector(client, path, config, random, decode),
                    Told::Object,
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
                told(
                    untyped_reflector(client, path, config, random, decode),
                    Told::Object,
                )
            }
            Watched::Objects(_) => return None,
        })
    }

    /// Watches the objects of a kind that are labelled as managed, and all of OpenShift's security
    /// context constraints.
    pub(super) fn objects(&self, resource: &Resource, seed: u64) -> BoxStream<'static, Told> {
        let namespace = match resource.scope {
            Scope::Own => self.namespace.as_str(),
            Scope::Cluster | Scope::Everywhere => "",
        };
        let path = resource.collection(&resource.version, namespace);
        let (key, managers) = (
            install::MANAGED_BY,
            [install::MANAGER, install::OLD_MANAGER],
        );
        let mut selector = format!("{key} in ({})", managers.join(","));
        if resource.group.is_empty() && &*resource.kind == "ConfigMap" {
            // Their texts are large, and watched apart.
            selector = format!("{selector},!{}", install::STRATEGY);
        }
        let Resource {
            group,
            version,
            kind,
            ..
        } = resource.clone();
        // Among OpenShift's own constraints is one that old releases put their accounts into.
        let config = if &*group == "security.openshift.io" {
            Config::default()
        } else {
            labelled(&selector)
        };
        let random = Random::seeded(seed);
        if group.is_empty() && &*kind == "Secret" {
            let secrets =
                untyped_reflector(self.client.clone(), path, config, random, slim::secret);
            return told(secrets, Told::Secret);
        }
        let decode = move |text: &[u8]| slim::live(&group, &version, &kind, text);
        told(
            untyped_reflector(self.client.clone(), path, config, random, decode),
            Told::Object,
        )
    }
}

fn told<T: 'static>(
    changes: impl Stream<Item = WatchEvent<T>> + Send + 'static,
    told: fn(Box<WatchEvent<T>>) -> Told,
) -> BoxStream<'static, Told> {
    changes.map(move |change| told(Box::new(change))).boxed()
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
