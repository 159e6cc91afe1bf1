//! Watches of the KubeVirt controller: a table of the kinds that it watches itself, and the kinds of
//! install strategies.

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
    definition::DEFINITION,
    kinds::{GroupKind, Kinds, Resource, Scope},
    slim::{self, Secret},
};
use crate::kind_events::impl_kind_events;

/// Lease whose holder identity is the address of virt-synchronization-controller.
const SYNCHRONIZATION: &str = "virt-synchronization-controller";

/// Default service account of Prometheus.
const PROMETHEUS_ACCOUNT: &str = "prometheus-k8s";

/// CustomResourceDefinition; only the name and the deletion timestamp are read.
pub(super) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// ServiceAccount; only the name is read.
pub(super) type Account = PartialObjectMeta<ServiceAccount>;

/// Where the objects of a kind are cached, and how they are watched.
enum CachedAs {
    /// In a cache of its own, as a type.
    Typed(fn(&Watches, Random) -> BoxStream<'static, KindEvent>),
    /// As JSON, with the objects of the installation. Needs no code but its entry in the table.
    Json {
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        /// Path of the objects, and which of them are watched.
        source: fn(&Watches) -> (String, Config),
    },
}

/// Properties of a kind that the controller watches itself.
struct WatchedKind {
    /// Plural resource name, for logs.
    name: &'static str,
    /// CustomResourceDefinition of the kind; none if it is built in.
    definition: Option<&'static str>,
    /// Whether no KubeVirt resource is known without this kind, so that none can report that its watch is
    /// refused.
    is_essential: bool,
    cached_as: CachedAs,
}

/// Declares the events of watches, with the type of the cached object, and the watched kinds.
macro_rules! watched_kinds {
    (
        events { $($event:ident($object:ty),)* }
        kinds { $($(#[$doc:meta])* $watched:ident = $kind:expr;)* }
    ) => {
        /// Watched kind.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Watched {
            $($(#[$doc])* $watched,)*
            /// Objects of a kind of an install strategy, with the managed-by label of KubeVirt.
            Objects(GroupKind),
        }

        impl Watched {
            /// Kinds of the table.
            pub(super) const OWN: [Self; [$(stringify!($watched)),*].len()] = [$(Self::$watched),*];

            fn kind(&self) -> Option<WatchedKind> {
                match self {
                    $(Self::$watched => Some($kind),)*
                    Self::Objects(_) => None,
                }
            }
        }

        /// Event of one of the watches.
        #[derive(Debug)]
        pub(super) enum KindEvent {
            $($event(Box<WatchEvent<$object>>),)*
        }

        impl KindEvent {
            /// Message of a watch that is refused for missing permission.
            pub(super) fn refusal(&self) -> Option<&str> {
                match self {
                    $(Self::$event(change) => refusal(change),)*
                }
            }
        }

        impl_kind_events!(KindEvent: $($event),*);
    };
}

watched_kinds! {
    events {
        KubeVirt(KubeVirt),
        Definition(Definition),
        Pod(Trimmed<Pod>),
        Node(Trimmed<Node>),
        Account(Account),
        Object(Live),
        Secret(Secret),
    }
    kinds {
        KubeVirts = WatchedKind {
            name: "kubevirts",
            definition: Some(DEFINITION),
            is_essential: true,
            cached_as: CachedAs::Typed(|watches, random| {
                let all = Api::<KubeVirt>::all(watches.client.clone());
                let trim = |mut kubevirt: KubeVirt| {
                    kubevirt.metadata.managed_fields = None;
                    kubevirt
                };
                let changes = reflector(all, Config::default(), random, trim);
                events(changes, KindEvent::KubeVirt)
            }),
        };
        /// Metadata of all CustomResourceDefinitions.
        Definitions = WatchedKind {
            name: "customresourcedefinitions",
            definition: None,
            is_essential: true,
            cached_as: CachedAs::Typed(|watches, random| {
                let all = Api::<Definition>::all(watches.client.clone());
                events(reflector(all, metadata(), random, trimmed), KindEvent::Definition)
            }),
        };
        /// Pods of the operator's namespace, except those of virtual machines.
        Pods = WatchedKind {
            name: "pods",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Typed(|watches, random| {
                let path = format!("/api/v1/namespaces/{}/pods", watches.namespace);
                let config = labelled("kubevirt.io notin (virt-launcher,hotplug-disk)");
                let client = watches.client.clone();
                let changes = untyped_reflector(client, path, config, random, slim::pod);
                events(changes, KindEvent::Pod)
            }),
        };
        Nodes = WatchedKind {
            name: "nodes",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Typed(|watches, random| {
                let path = "/api/v1/nodes".to_owned();
                let client = watches.client.clone();
                let changes =
                    untyped_reflector(client, path, Config::default(), random, slim::node);
                events(changes, KindEvent::Node)
            }),
        };
        /// The operator's namespace.
        Namespace = WatchedKind {
            name: "namespaces",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Json {
                group: "",
                version: "v1",
                kind: "Namespace",
                source: |watches| ("/api/v1/namespaces".to_owned(), named(&watches.namespace)),
            },
        };
        /// ConfigMaps with install strategies, metadata only.
        Strategies = WatchedKind {
            name: "strategies",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Json {
                group: "",
                version: "v1",
                kind: "ConfigMap",
                source: |watches| {
                    let path = format!("/api/v1/namespaces/{}/configmaps", watches.namespace);
                    let config = Config {
                        metadata_only: true,
                        ..labelled(install::STRATEGY)
                    };
                    (path, config)
                },
            },
        };
        /// Lease of virt-synchronization-controller.
        Lease = WatchedKind {
            name: "leases",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Json {
                group: "coordination.k8s.io",
                version: "v1",
                kind: "Lease",
                source: |watches| {
                    let group = "/apis/coordination.k8s.io/v1";
                    let path = format!("{group}/namespaces/{}/leases", watches.namespace);
                    (path, named(SYNCHRONIZATION))
                },
            },
        };
        /// Service accounts with the name of Prometheus' account, in all namespaces.
        Accounts = WatchedKind {
            name: "serviceaccounts of Prometheus",
            definition: None,
            is_essential: false,
            cached_as: CachedAs::Typed(|watches, random| {
                let all = Api::<Account>::all(watches.client.clone());
                let config = Config {
                    metadata_only: true,
                    ..named(&watches.prometheus_account)
                };
                events(reflector(all, config, random, trimmed), KindEvent::Account)
            }),
        };
    }
}

fn refusal<T>(change: &WatchEvent<T>) -> Option<&str> {
    match change {
        WatchEvent::Failing(failure) if failure.code == Some(403) => Some(&failure.summary),
        _ => None,
    }
}

impl Watched {
    /// Plural resource name, for logs; of a kind of an install strategy its kind.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Objects((_, kind)) => kind,
            own => own.kind().map_or("", |kind| kind.name),
        }
    }

    /// CustomResourceDefinition of a kind of the table; none if it is built in.
    pub(super) fn definition(&self) -> Option<&'static str> {
        self.kind()?.definition
    }

    /// Whether no KubeVirt resource is known without this kind.
    pub(super) fn is_essential(&self) -> bool {
        self.kind().is_some_and(|kind| kind.is_essential)
    }

    /// Group and kind of objects that are cached as JSON.
    pub(super) fn group_kind(&self) -> Option<(&str, &str)> {
        if let Self::Objects((group, kind)) = self {
            return Some((group, kind));
        }
        match self.kind()?.cached_as {
            CachedAs::Json { group, kind, .. } => Some((group, kind)),
            CachedAs::Typed(_) => None,
        }
    }
}

/// Factory of watches, in the operator's namespace or in the whole cluster.
#[derive(Clone)]
pub(super) struct Watches {
    client: Client,
    namespace: String,
    prometheus_account: String,
}

impl Watches {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self {
            client,
            namespace,
            prometheus_account: PROMETHEUS_ACCOUNT.to_owned(),
        }
    }

    /// Sets the service account of Prometheus to the one that the KubeVirt resource names, or the default.
    /// Returns whether it changed; then [`Watched::Accounts`] has to be started again.
    pub(super) fn set_prometheus_account(&mut self, named: Option<&str>) -> bool {
        let account = named
            .filter(|account| !account.is_empty())
            .unwrap_or(PROMETHEUS_ACCOUNT);
        let is_changed = self.prometheus_account != account;
        account.clone_into(&mut self.prometheus_account);
        is_changed
    }

    /// Watches a kind. None if it is a kind of an install strategy that the API server does not list.
    pub(super) fn start(
        &self,
        watched: &Watched,
        kinds: &Kinds,
        seed: u64,
    ) -> Option<BoxStream<'static, KindEvent>> {
        let random = Random::seeded(seed);
        if let Watched::Objects((group, kind)) = watched {
            return Some(self.objects(kinds.resource(group, kind)?, random));
        }
        Some(match watched.kind()?.cached_as {
            CachedAs::Typed(start) => start(self, random),
            CachedAs::Json {
                group,
                version,
                kind,
                source,
            } => {
                let (path, config) = source(self);
                let decode = move |text: &[u8]| slim::live(group, version, kind, text);
                let client = self.client.clone();
                let changes = untyped_reflector(client, path, config, random, decode);
                events(changes, KindEvent::Object)
            }
        })
    }

    /// Watches the managed objects of a kind. Of SecurityContextConstraints all are watched.
    fn objects(&self, resource: &Resource, random: Random) -> BoxStream<'static, KindEvent> {
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

/// The object with this name.
fn named(name: &str) -> Config {
    Config {
        field_selector: Some(format!("metadata.name={name}")),
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
