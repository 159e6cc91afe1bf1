//! Caches of all watched kinds, shared by all actors.
//!
//! Fed by watch events and by the responses to the actors' own writes, so that an actor observes its
//! write at once. A response older than the watch is ignored: it could bring back an object that has
//! been deleted since, for good.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    Kind,
    object::{Key, Object, controller, is_true, namespace, text, uid},
    pods::{is_finished, requests::Tally},
};

#[derive(Debug, Default)]
pub struct Caches {
    stores: BTreeMap<Kind, Store>,
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<Key, Object>,
    /// Keys by the UID of the controller.
    children: BTreeMap<String, BTreeSet<Key>>,
    /// Pods by `spec.nodeName`; under "" those without a node.
    by_node: BTreeMap<String, BTreeSet<Key>>,
    /// Resource requests of the pods of each node.
    tallies: BTreeMap<String, Tally>,
    /// Highest resource version that the watch has delivered.
    watched_version: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Change {
    pub old: Option<Object>,
    pub new: Option<Object>,
}

impl Caches {
    /// Caches of these objects, for tests.
    pub fn of(objects: impl IntoIterator<Item = (Kind, Value)>) -> Self {
        let mut caches = Self::default();
        for (kind, object) in objects {
            caches.stores.entry(kind).or_default().insert(object.into());
        }
        caches
    }

    pub fn get(&self, kind: Kind, key: &Key) -> Option<&Object> {
        self.stores.get(&kind)?.objects.get(key)
    }

    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.get(kind, &Key::new(namespace, name))
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.stores
            .get(&kind)
            .into_iter()
            .flat_map(|store| store.objects.values())
    }

    /// The objects of a kind in one namespace, ordered by name.
    pub fn within<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Object> {
        self.stores.get(&kind).into_iter().flat_map(move |store| {
            store
                .objects
                .range(Key::new(namespace, "")..)
                .take_while(move |(key, _)| key.namespace == namespace)
                .map(|(_, object)| object)
        })
    }

    /// The objects of a kind whose controller is `owner`.
    pub fn children<'a>(&'a self, kind: Kind, owner: &Value) -> impl Iterator<Item = &'a Object> {
        let store = self.stores.get(&kind);
        let keys = store.and_then(|store| store.children.get(uid(owner)));
        keys.into_iter()
            .flatten()
            .filter_map(move |key| store?.objects.get(key))
    }

    /// The pods bound to a node; with an empty name, those without a node.
    pub fn on_node<'a>(&'a self, kind: Kind, node: &str) -> impl Iterator<Item = &'a Object> {
        let store = self.stores.get(&kind);
        let keys = store.and_then(|store| store.by_node.get(node));
        keys.into_iter()
            .flatten()
            .filter_map(move |key| store?.objects.get(key))
    }

    /// Sum of the resource requests of a node's unfinished pods.
    pub(crate) fn requested(&self, node: &str) -> Tally {
        let store = self.stores.get(&crate::kind::POD);
        store
            .and_then(|store| store.tallies.get(node))
            .cloned()
            .unwrap_or_default()
    }

    /// Whether the CustomResourceDefinition of a custom kind is established.
    pub(crate) fn is_established(&self, kind: Kind) -> bool {
        self.get(crate::kind::DEFINITION, &Key::cluster(kind.definition()))
            .is_some_and(|definition| is_true(definition, "Established"))
    }

    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        self.stores
            .get(&kind)
            .map(|store| store.objects.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Stores an object from a watch or list. `None` if the cache has a newer one.
    pub(crate) fn observe(&mut self, kind: Kind, object: Value) -> Option<Change> {
        let store = self.stores.entry(kind).or_default();
        let version = version(&object);
        store.watched_version = store.watched_version.max(version);
        let old = store.objects.get(&Key::of(&object));
        if old.is_some_and(|old| self::version(old) > version) {
            return None;
        }
        Some(store.insert(object.into()))
    }

    /// Removes an object that a watch reports as deleted.
    pub(crate) fn observe_deletion(&mut self, kind: Kind, object: &Value) -> Option<Change> {
        let store = self.stores.entry(kind).or_default();
        let version = version(object);
        store.watched_version = store.watched_version.max(version);
        let key = Key::of(object);
        let old = store.objects.get(&key)?;
        if self::version(old) > version && uid(old) != uid(object) {
            return None;
        }
        Some(store.remove(&key))
    }

    /// Stores the response to a write, unless the watch is ahead of it.
    pub(crate) fn observe_response(&mut self, kind: Kind, object: Value) -> Option<Change> {
        let store = self.stores.get_mut(&kind)?;
        (version(&object) > store.watched_version).then(|| store.insert(object.into()))
    }

    /// Shows a pod as bound before the watch does, so that its node is not filled twice.
    pub(crate) fn assume_bound(&mut self, kind: Kind, key: &Key, node: &str) -> Option<Change> {
        let store = self.stores.get_mut(&kind)?;
        let mut object = Value::clone(store.objects.get(key)?);
        crate::object::merge(
            &mut object,
            &serde_json::json!({"spec": {"nodeName": node}}),
        );
        Some(store.insert(object.into()))
    }

    pub(crate) fn forget(&mut self, kind: Kind, key: &Key) -> Option<Change> {
        let store = self.stores.get_mut(&kind)?;
        store.objects.contains_key(key).then(|| store.remove(key))
    }
}

impl Store {
    fn insert(&mut self, object: Object) -> Change {
        let key = Key::of(&object);
        let old = self.remove(&key).old;
        if let Some(owner) = controller(&object) {
            let owner = text(owner, "/uid").to_owned();
            self.children.entry(owner).or_default().insert(key.clone());
        }
        if is_pod(&object) {
            let node = text(&object, "/spec/nodeName").to_owned();
            if !is_finished(&object) {
                self.tallies.entry(node.clone()).or_default().add(&object);
            }
            self.by_node.entry(node).or_default().insert(key.clone());
        }
        self.objects.insert(key, Arc::clone(&object));
        Change {
            old,
            new: Some(object),
        }
    }

    fn remove(&mut self, key: &Key) -> Change {
        let old = self.objects.remove(key);
        if let Some(old) = &old {
            let owner = controller(old).map_or("", |owner| text(owner, "/uid"));
            remove_from_index(&mut self.children, owner, key);
            if is_pod(old) {
                let node = text(old, "/spec/nodeName");
                remove_from_index(&mut self.by_node, node, key);
                if !is_finished(old)
                    && let Some(tally) = self.tallies.get_mut(node)
                {
                    tally.remove(old);
                }
            }
        }
        Change { old, new: None }
    }
}

fn is_pod(object: &Value) -> bool {
    object.pointer("/spec/containers").is_some()
}

fn remove_from_index(index: &mut BTreeMap<String, BTreeSet<Key>>, under: &str, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}

/// The resource version as a number: Kubernetes allows comparing versions of one kind.
fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}

/// Whether an object is in one of the namespaces that the actors work in.
pub(crate) fn is_within(namespaces: Option<&BTreeSet<String>>, kind: Kind, object: &Value) -> bool {
    let Some(namespaces) = namespaces else {
        return true;
    };
    if kind == crate::kind::VOLUME {
        return namespaces.contains(text(object, "/spec/claimRef/namespace"));
    }
    if kind == crate::kind::NAMESPACE {
        return namespaces.contains(crate::object::name(object));
    }
    !kind.namespaced || namespaces.contains(namespace(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::POD;

    fn pod(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": version.to_string()}})
    }

    #[test]
    fn a_response_older_than_the_watch_is_ignored() {
        let mut caches = Caches::default();
        caches.observe(POD, pod("one", 5));
        caches.observe_deletion(POD, &pod("one", 8));
        assert!(caches.observe_response(POD, pod("one", 7)).is_none());
        assert_eq!(caches.all(POD).count(), 0);
    }

    #[test]
    fn an_older_watch_event_does_not_replace_the_response_to_a_write() {
        let mut caches = Caches::default();
        caches.observe(POD, pod("one", 5));
        caches.observe_response(POD, pod("one", 9));
        assert!(caches.observe(POD, pod("one", 7)).is_none());
        assert_eq!(version(caches.find(POD, "a", "one").unwrap()), 9);
    }

    #[test]
    fn indexes_follow_their_objects() {
        let mut caches = Caches::default();
        let owner = json!({"metadata": {"uid": "o"}});
        let mut child = pod("one", 1);
        child["metadata"]["ownerReferences"] = json!([{"uid": "o", "controller": true}]);
        child["spec"] = json!({"nodeName": "n", "containers": []});
        caches.observe(POD, child);
        assert_eq!(caches.children(POD, &owner).count(), 1);
        assert_eq!(caches.on_node(POD, "n").count(), 1);
        caches.observe(POD, pod("one", 2));
        assert_eq!(caches.children(POD, &owner).count(), 0);
        assert_eq!(caches.on_node(POD, "n").count(), 0);
        assert_eq!(caches.within(POD, "a").count(), 1);
    }
}
