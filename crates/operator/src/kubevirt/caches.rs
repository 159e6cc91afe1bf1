//! Caches of the KubeVirt controller, updated by watch events and by the answers to the operator's own
//! writes.
//!
//! Objects of an installation are in one map, as the plan reads them. One store per watch, with keys and
//! versions only, decides which state of an object is the newest.

use std::collections::{BTreeMap, BTreeSet};

use api::kubevirt::install::KubeVirt;
use plan::kubevirt::{
    Id, Live,
    observed::{Node, Pod},
};
use runtime::{
    cache::{Cache, CachedObject, Delta, Key, Trimmed, WatchScope},
    reflector::WatchEvent,
};
use serde_json::Value;

use super::{
    slim::version_of,
    watches::{Account, Definition, KindEvent, Watched},
};

pub(super) struct Caches {
    pub(super) kubevirts: Cache<KubeVirt>,
    definitions: Cache<Definition>,
    accounts: Cache<Account>,
    pods: TrimmedCache<Pod>,
    nodes: TrimmedCache<Node>,
    /// Keys and versions of the objects of each watch.
    versions: BTreeMap<Watched, Cache<Trimmed<()>>>,
    objects: BTreeMap<Id, Live>,
}

/// Cache of trimmed objects, with a list of them for the plan.
struct TrimmedCache<T> {
    store: Cache<Trimmed<T>>,
    objects: Vec<T>,
}

impl<T: Clone + PartialEq> TrimmedCache<T> {
    fn new() -> Self {
        Self {
            store: Cache::new(),
            objects: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.store.clear();
        self.objects.clear();
    }

    /// Applies a watch event. Returns whether the plan may have changed: kubelets update other fields of
    /// nodes and pods all the time.
    fn apply(&mut self, change: WatchEvent<Trimmed<T>>) -> bool {
        let ended = is_list(&change);
        let differences = self.store.apply(&WatchScope::Cluster, change);
        let is_relevant = differences.iter().any(|Delta { old, new, .. }| {
            let [old, new] = [old, new].map(|side| side.as_ref().map(|trimmed| &trimmed.object));
            old != new
        });
        if is_relevant {
            self.update_objects();
        }
        is_relevant | ended
    }

    fn update_objects(&mut self) {
        let all = self.store.iter();
        self.objects = all.map(|(_, trimmed)| trimmed.object.clone()).collect();
    }
}

impl Caches {
    pub(super) fn new() -> Self {
        Self {
            kubevirts: Cache::new(),
            definitions: Cache::new(),
            accounts: Cache::new(),
            pods: TrimmedCache::new(),
            nodes: TrimmedCache::new(),
            versions: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Objects of the installation.
    pub(super) fn objects(&self) -> &BTreeMap<Id, Live> {
        &self.objects
    }

    pub(super) fn pods(&self) -> &[Pod] {
        &self.pods.objects
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes.objects
    }

    /// Whether a CustomResourceDefinition exists, even if it is being deleted.
    pub(super) fn has_definition(&self, name: &str) -> bool {
        self.definitions.get(&Key::new("", name)).is_some()
    }

    /// Whether a CustomResourceDefinition is served.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        let Some(definition) = self.definitions.get(&Key::new("", name)) else {
            return false;
        };
        let id = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let is_established = self.objects.get(&id).is_none_or(|live| {
            let value = live.value();
            let conditions = value["status"]["conditions"].as_array();
            conditions.is_some_and(|conditions| {
                let mut conditions = conditions.iter();
                conditions.any(|found| found["type"] == "Established" && found["status"] == "True")
            })
        });
        definition.metadata.deletion_timestamp.is_none() && is_established
    }

    /// Watched service accounts, as `namespace/name`.
    pub(super) fn accounts(&self) -> BTreeSet<String> {
        self.accounts
            .iter()
            .map(|(key, _)| key.to_string())
            .collect()
    }

    pub(super) fn is_synced(&self, watched: &Watched) -> bool {
        match watched {
            Watched::KubeVirts => self.kubevirts.synced(),
            Watched::Definitions => self.definitions.synced(),
            Watched::Accounts => self.accounts.synced(),
            Watched::Pods => self.pods.store.synced(),
            Watched::Nodes => self.nodes.store.synced(),
            json => self.versions.get(json).is_some_and(Cache::synced),
        }
    }

    /// Drops the objects of a stopped watch.
    pub(super) fn forget(&mut self, watched: &Watched) {
        match watched {
            Watched::KubeVirts => self.kubevirts.clear(),
            Watched::Definitions => self.definitions.clear(),
            Watched::Accounts => self.accounts.clear(),
            Watched::Pods => self.pods.clear(),
            Watched::Nodes => self.nodes.clear(),
            json => {
                self.versions.remove(json);
            }
        }
        if let Watched::Objects((group, kind)) = watched {
            self.objects
                .retain(|id, _| id.group != *group || id.kind != *kind);
        }
    }

    /// Applies a watch event. Returns whether the plan may have changed.
    pub(super) fn on_event(&mut self, watched: &Watched, event: KindEvent) -> bool {
        match event {
            KindEvent::KubeVirt(change) => apply(&mut self.kubevirts, *change),
            KindEvent::Definition(change) => apply(&mut self.definitions, *change),
            KindEvent::Account(change) => apply(&mut self.accounts, *change),
            KindEvent::Pod(change) => self.pods.apply(*change),
            KindEvent::Node(change) => self.nodes.apply(*change),
            KindEvent::Object(change) => self.object(watched, *change),
            KindEvent::Secret(change) => self.object(watched, change.map(|secret| secret.live)),
        }
    }

    fn object(&mut self, watched: &Watched, change: WatchEvent<Live>) -> bool {
        let ended = is_list(&change);
        let mut live = None;
        let change = change.map(|brought| {
            let version = version_of(&brought);
            live = Some(brought);
            version
        });
        let store = self.versions.entry(watched.clone()).or_default();
        let differences = store.apply(&WatchScope::Cluster, change);
        self.update_objects(watched, differences, live) | ended
    }

    /// Applies the API server's answer to a write.
    pub(super) fn on_answer(&mut self, live: Live) {
        let watched = watched_as(&live);
        let store = self.versions.entry(watched.clone()).or_default();
        let difference = store.assume(version_of(&live));
        self.update_objects(&watched, difference.into_iter().collect(), Some(live));
    }

    /// Removes an object that is gone according to the API server's answer.
    pub(super) fn on_gone(&mut self, id: &Id, uid: &str) {
        let Some(live) = self.objects.get(id).filter(|live| &*live.uid == uid) else {
            return;
        };
        let watched = watched_as(live);
        let store = self.versions.entry(watched).or_default();
        store.assume_deleted(&Key::new(&id.namespace, &id.name), uid);
        self.objects.remove(id);
    }

    /// Applies the API server's answer to a write to a KubeVirt resource.
    pub(super) fn on_kubevirt_answer(&mut self, value: Value) {
        if let Ok(mut kubevirt) = decode::from_value::<KubeVirt>(value) {
            kubevirt.metadata.managed_fields = None;
            self.kubevirts.assume(kubevirt);
        }
    }

    /// Removes a KubeVirt resource that is gone according to the API server's answer.
    pub(super) fn on_kubevirt_gone(&mut self, uid: &str) {
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

    /// Applies the API server's answer to a write to a node.
    pub(super) fn on_node_answer(&mut self, node: Trimmed<Node>) {
        if self.nodes.store.assume(node).is_some() {
            self.nodes.update_objects();
        }
    }

    /// Updates the objects with the differences of the store. Returns whether the plan may have changed.
    fn update_objects(
        &mut self,
        watched: &Watched,
        differences: Vec<Delta<Trimmed<()>>>,
        mut live: Option<Live>,
    ) -> bool {
        let mut is_relevant = false;
        for Delta { key, new, .. } in differences {
            let found = live.take_if(|live| live.id.name == key.name);
            match (new, found) {
                (Some(_), Some(live)) => {
                    let fingerprint = live.fingerprint;
                    let old = self.objects.insert(live.id.clone(), live);
                    // A Lease is renewed every two seconds.
                    is_relevant |= *watched != Watched::Lease
                        || old.is_none_or(|old| old.fingerprint != fingerprint);
                }
                // An object that cannot be decoded keeps its previous state.
                (Some(_), None) => {}
                (None, _) => {
                    is_relevant |= self.objects.remove(&id_of(watched, &key)).is_some();
                }
            }
        }
        is_relevant
    }
}

fn id_of(watched: &Watched, key: &Key) -> Id {
    let (group, kind) = watched.group_kind().unwrap_or_default();
    Id::new(group, kind, &key.namespace, &key.name)
}

/// Watch that delivers an object.
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

/// Whether a list is complete, so that a plan may become possible.
fn is_list<T>(change: &WatchEvent<T>) -> bool {
    matches!(change, WatchEvent::ListCompleted { .. })
}

/// Applies a watch event to the cache of a type. Returns whether the plan may have changed.
fn apply<T: CachedObject>(cache: &mut Cache<T>, change: WatchEvent<T>) -> bool {
    is_list(&change) | !cache.apply(&WatchScope::Cluster, change).is_empty()
}
