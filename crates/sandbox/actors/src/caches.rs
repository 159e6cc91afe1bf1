//! What the watches have told, and what our own writes were answered with.
//!
//! Each kind is watched once for all actors. An answer to a write is taken in at once, so that an
//! actor sees what it has just done, unless the watch has already gone past it: otherwise an
//! object that was deleted meanwhile would stay here for ever.

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

/// All objects of the watched kinds.
#[derive(Debug, Default)]
pub struct Caches {
    stores: BTreeMap<Kind, Store>,
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<Key, Object>,
    /// By the uid of their controller.
    children: BTreeMap<String, BTreeSet<Key>>,
    /// Pods by `spec.nodeName`, which is empty for those that have no node yet.
    by_node: BTreeMap<String, BTreeSet<Key>>,
    /// What the pods of each node ask for.
    tallies: BTreeMap<String, Tally>,
    /// How far the watch has come.
    seen: u64,
}

/// What a change replaced and what it put there.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub old: Option<Object>,
    pub new: Option<Object>,
}

impl Caches {
    /// Caches that hold these objects, for tests of decisions.
    pub fn of(objects: impl IntoIterator<Item = (Kind, Value)>) -> Self {
        let mut caches = Self::default();
        for (kind, object) in objects {
            caches.stores.entry(kind).or_default().insert(object.into());
        }
        caches
    }

    /// One object.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<&Object> {
        self.stores.get(&kind)?.objects.get(key)
    }

    /// One object by its namespace and name.
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.get(kind, &Key::new(namespace, name))
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.stores
            .get(&kind)
            .into_iter()
            .flat_map(|store| store.objects.values())
    }

    /// The objects of a kind in one namespace, by name.
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

    /// The pods that are bound to a node; those without one for an empty name.
    pub fn on_node<'a>(&'a self, kind: Kind, node: &str) -> impl Iterator<Item = &'a Object> {
        let store = self.stores.get(&kind);
        let keys = store.and_then(|store| store.by_node.get(node));
        keys.into_iter()
            .flatten()
            .filter_map(move |key| store?.objects.get(key))
    }

    /// What the pods of a node ask for together, without those that have come to their end.
    pub(crate) fn requested(&self, node: &str) -> Tally {
        let store = self.stores.get(&crate::kind::POD);
        store
            .and_then(|store| store.tallies.get(node))
            .cloned()
            .unwrap_or_default()
    }

    /// Whether the definition of a custom kind is there and served.
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

    /// Takes in what a watch or a list said. `None`: it says nothing new.
    pub(crate) fn observe(&mut self, kind: Kind, object: Value) -> Option<Change> {
        let store = self.stores.entry(kind).or_default();
        let version = version(&object);
        store.seen = store.seen.max(version);
        let old = store.objects.get(&Key::of(&object));
        if old.is_some_and(|old| self::version(old) > version) {
            return None;
        }
        Some(store.insert(object.into()))
    }

    /// Takes in a deletion that a watch told of.
    pub(crate) fn observe_deletion(&mut self, kind: Kind, object: &Value) -> Option<Change> {
        let store = self.stores.entry(kind).or_default();
        let version = version(object);
        store.seen = store.seen.max(version);
        let key = Key::of(object);
        let old = store.objects.get(&key)?;
        if self::version(old) > version && uid(old) != uid(object) {
            return None;
        }
        Some(store.remove(&key))
    }

    /// Takes in the answer to a write of ours.
    pub(crate) fn observe_answer(&mut self, kind: Kind, object: Value) -> Option<Change> {
        let store = self.stores.get_mut(&kind)?;
        (version(&object) > store.seen).then(|| store.insert(object.into()))
    }

    /// Shows a pod as bound before the watch says so, so that its node is not given away twice.
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
            take(&mut self.children, owner, key);
            if is_pod(old) {
                let node = text(old, "/spec/nodeName");
                take(&mut self.by_node, node, key);
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

fn take(index: &mut BTreeMap<String, BTreeSet<Key>>, under: &str, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}

/// Resource versions are compared as the API now promises they can be: as numbers.
fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}

/// Whether an object is one that the actors are to look at.
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
    fn an_answer_that_the_watch_has_passed_is_not_taken_in() {
        let mut caches = Caches::default();
        caches.observe(POD, pod("one", 5));
        caches.observe_deletion(POD, &pod("one", 8));
        assert!(caches.observe_answer(POD, pod("one", 7)).is_none());
        assert_eq!(caches.all(POD).count(), 0);
    }

    #[test]
    fn an_older_event_does_not_hide_our_own_write() {
        let mut caches = Caches::default();
        caches.observe(POD, pod("one", 5));
        caches.observe_answer(POD, pod("one", 9));
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
