//! What is known of the cluster, fed by watches and by the answers to our own writes.
//!
//! Objects of an installation are kept in one map, as the plan reads them; which state of one is
//! the newest is the business of a store a watch, which holds no more than names and versions.

use std::collections::{BTreeMap, BTreeSet};

use api::kubevirt::install::KubeVirt;
use plan::kubevirt::{
    Id, Live,
    observed::{Node, Pod},
};
use runtime::{
    cache::{Cache, Delta, Key},
    reflector::WatchEvent,
};
use serde_json::Value;

use super::{
    slim::Slim,
    watches::{Account, Definition, Told, Watched},
};

/// What is known of the cluster.
pub(super) struct Caches {
    pub(super) kubevirts: Cache<KubeVirt>,
    definitions: Cache<Definition>,
    accounts: Cache<Account>,
    pod_store: Cache<Slim<Pod>>,
    node_store: Cache<Slim<Node>>,
    /// Which objects a watch has told of, and in which versions.
    told: BTreeMap<Watched, Cache<Slim<()>>>,
    objects: BTreeMap<Id, Live>,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
}

impl Caches {
    pub(super) fn new() -> Self {
        Self {
            kubevirts: Cache::new(),
            definitions: Cache::new(),
            accounts: Cache::new(),
            pod_store: Cache::new(),
            node_store: Cache::new(),
            told: BTreeMap::new(),
            objects: BTreeMap::new(),
            pods: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// The objects of the installation.
    pub(super) fn objects(&self) -> &BTreeMap<Id, Live> {
        &self.objects
    }

    pub(super) fn pods(&self) -> &[Pod] {
        &self.pods
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether there is a definition, be it that it is being deleted.
    pub(super) fn has_definition(&self, name: &str) -> bool {
        self.definitions.get(&Key::new("", name)).is_some()
    }

    /// Whether objects of a definition can be asked for.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        let Some(definition) = self.definitions.get(&Key::new("", name)) else {
            return false;
        };
        let ours = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let is_established = self.objects.get(&ours).is_none_or(|live| {
            let value = live.value();
            let conditions = value["status"]["conditions"].as_array();
            conditions.is_some_and(|conditions| {
                let mut conditions = conditions.iter();
                conditions.any(|found| found["type"] == "Established" && found["status"] == "True")
            })
        });
        definition.metadata.deletion_timestamp.is_none() && is_established
    }

    /// Namespaces that have an account of the name that was asked for, as `namespace/account`.
    pub(super) fn accounts(&self) -> BTreeSet<String> {
        self.accounts
            .iter()
            .map(|(key, _)| key.to_string())
            .collect()
    }

    /// Whether everything is known of what is watched.
    pub(super) fn is_synced(&self, watched: &Watched) -> bool {
        match watched {
            Watched::KubeVirts => self.kubevirts.synced(),
            Watched::Definitions => self.definitions.synced(),
            Watched::Accounts(_) => self.accounts.synced(),
            Watched::Pods => self.pod_store.synced(),
            Watched::Nodes => self.node_store.synced(),
            Watched::Namespace | Watched::Strategies | Watched::Lease | Watched::Objects(_) => {
                self.told.get(watched).is_some_and(Cache::synced)
            }
        }
    }

    /// Forgets what is no longer watched.
    pub(super) fn forget(&mut self, watched: &Watched) {
        match watched {
            Watched::KubeVirts => self.kubevirts = Cache::new(),
            Watched::Definitions => self.definitions = Cache::new(),
            Watched::Accounts(_) => self.accounts = Cache::new(),
            Watched::Pods => {
                self.pod_store = Cache::new();
                self.pods.clear();
            }
            Watched::Nodes => {
                self.node_store = Cache::new();
                self.nodes.clear();
            }
            Watched::Namespace | Watched::Strategies | Watched::Lease => {
                self.told.remove(watched);
            }
            Watched::Objects(kind) => {
                self.told.remove(watched);
                self.objects
                    .retain(|id, _| id.group != kind.0 || id.kind != kind.1);
            }
        }
    }

    /// Takes in what a watch tells. Says whether a plan could be another one now.
    pub(super) fn told(&mut self, watched: &Watched, told: Told) -> bool {
        match told {
            Told::KubeVirt(change) => {
                is_list(&change) | !self.kubevirts.apply("", *change).is_empty()
            }
            Told::Definition(change) => {
                is_list(&change) | !self.definitions.apply("", *change).is_empty()
            }
            Told::Account(change) => {
                is_list(&change) | !self.accounts.apply("", *change).is_empty()
            }
            Told::Pod(change) => {
                let ended = is_list(&change);
                let matters = matter(&self.pod_store.apply("", *change));
                if matters {
                    self.pods = kept(&self.pod_store);
                }
                matters | ended
            }
            Told::Node(change) => {
                let ended = is_list(&change);
                let matters = matter(&self.node_store.apply("", *change));
                if matters {
                    self.nodes = kept(&self.node_store);
                }
                matters | ended
            }
            Told::Object(change) => self.object(watched, *change),
            Told::Secret(change) => self.object(watched, change.map(|secret| secret.live)),
        }
    }

    fn object(&mut self, watched: &Watched, change: WatchEvent<Live>) -> bool {
        let ended = is_list(&change);
        let mut live = None;
        let change = change.map(|brought| {
            let slim = Slim::of(&brought);
            live = Some(brought);
            slim
        });
        let store = self.told.entry(watched.clone()).or_default();
        let differences = store.apply("", change);
        self.settle(watched, differences, live) | ended
    }

    /// Takes in the API server's answer to a write of ours.
    pub(super) fn answered(&mut self, live: Live) {
        let watched = watched_as(&live);
        let store = self.told.entry(watched.clone()).or_default();
        let difference = store.assume(Slim::of(&live));
        self.settle(&watched, difference.into_iter().collect(), Some(live));
    }

    /// The API server says that an object is gone.
    pub(super) fn gone(&mut self, id: &Id, uid: &str) {
        let Some(live) = self.objects.get(id).filter(|live| &*live.uid == uid) else {
            return;
        };
        let watched = watched_as(live);
        let store = self.told.entry(watched).or_default();
        store.assume_deleted(&Key::new(&id.namespace, &id.name), uid);
        self.objects.remove(id);
    }

    /// Takes in the API server's answer to a write to the KubeVirt resource itself.
    pub(super) fn answered_kubevirt(&mut self, value: Value) {
        if let Ok(mut kubevirt) = decode::from_value::<KubeVirt>(value) {
            kubevirt.metadata.managed_fields = None;
            self.kubevirts.assume(kubevirt);
        }
    }

    /// The API server says that a KubeVirt resource is gone.
    pub(super) fn kubevirt_gone(&mut self, uid: &str) {
        let is_it = |kubevirt: &KubeVirt| kubevirt.metadata.uid.as_deref() == Some(uid);
        let all = self.kubevirts.iter();
        let found: Vec<Key> = all
            .filter(|(_, kubevirt)| is_it(kubevirt))
            .map(|(key, _)| key.clone())
            .collect();
        for key in found {
            self.kubevirts.assume_deleted(&key, uid);
        }
    }

    /// Takes in the API server's answer to a write to a node.
    pub(super) fn answered_node(&mut self, node: Slim<Node>) {
        if self.node_store.assume(node).is_some() {
            self.nodes = kept(&self.node_store);
        }
    }

    /// Brings the objects to where the store says they are.
    fn settle(
        &mut self,
        watched: &Watched,
        differences: Vec<Delta<Slim<()>>>,
        mut live: Option<Live>,
    ) -> bool {
        let mut matters = false;
        for Delta { key, new, .. } in differences {
            let found = live.take_if(|live| live.id.name == key.name);
            match (new, found) {
                (Some(_), Some(live)) => {
                    let fingerprint = live.fingerprint;
                    let old = self.objects.insert(live.id.clone(), live);
                    // A Lease is renewed every other second.
                    matters |= *watched != Watched::Lease
                        || old.is_none_or(|old| old.fingerprint != fingerprint);
                }
                // What does not fit its type stays what it was.
                (Some(_), None) => {}
                (None, _) => {
                    matters |= self.objects.remove(&id_of(watched, &key)).is_some();
                }
            }
        }
        matters
    }
}

fn id_of(watched: &Watched, key: &Key) -> Id {
    let (group, kind) = match watched {
        Watched::Objects((group, kind)) => (&**group, &**kind),
        Watched::Strategies => ("", "ConfigMap"),
        Watched::Lease => ("coordination.k8s.io", "Lease"),
        _ => ("", "Namespace"),
    };
    Id::new(group, kind, &key.namespace, &key.name)
}

/// Which watch tells of an object.
fn watched_as(live: &Live) -> Watched {
    let id = &live.id;
    if id.is("", "Namespace") {
        Watched::Namespace
    } else if id.is("", "ConfigMap") && live.labels.contains_key(api::kubevirt::install::STRATEGY) {
        Watched::Strategies
    } else {
        Watched::Objects((id.group.clone(), id.kind.clone()))
    }
}

/// Whether a list is complete, with which a plan may become possible.
fn is_list<T>(change: &WatchEvent<T>) -> bool {
    matches!(change, WatchEvent::ListCompleted { .. })
}

fn kept<T: Clone>(store: &Cache<Slim<T>>) -> Vec<T> {
    store.iter().map(|(_, slim)| slim.kept.clone()).collect()
}

/// Whether what is kept of objects is another than it was: kubelets write to nodes and pods all
/// the time.
fn matter<T: PartialEq>(differences: &[Delta<Slim<T>>]) -> bool {
    let mut differences = differences.iter();
    differences.any(|Delta { old, new, .. }| {
        old.as_ref().map(|slim| &slim.kept) != new.as_ref().map(|slim| &slim.kept)
    })
}
