//! Objects by name, as far as they are known.
//!
//! A [`Cache`] holds what its watches tell, and what the server answered to our own writes, which is
//! known before a watch tells of it. Of two states of an object the one with the greater
//! resourceVersion is kept (versions that are not numbers are taken as they come), so what we wrote
//! is never hidden by an event that was still on its way, and an object whose deletion was confirmed
//! does not come back.
//!
//! A complete list replaces everything: what is not in it is dropped, except for what we wrote after
//! the list was made. Until the first one is complete the store is not [`synced`](Cache::synced),
//! and that something is not in it means nothing.
//!
//! An object that cannot be decoded keeps its last state, and is told by
//! [`undecodable`](Cache::undecodable).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Bound,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::reflector::{Identity, WatchEvent};

/// The name of an object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for objects of the cluster.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of that name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// What a store can hold.
pub trait CachedObject {
    /// Its name.
    fn key(&self) -> Key;
    /// What tells it from others that had its name.
    fn uid(&self) -> Option<&str>;
    /// The resourceVersion: zero, which no object has, if it is not a number.
    fn version(&self) -> u64;
}

impl<T: kube::Resource> CachedObject for T {
    fn key(&self) -> Key {
        Key::of(self.meta())
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn version(&self) -> u64 {
        let version = self.meta().resource_version.as_deref();
        version.map(parse_resource_version).unwrap_or_default()
    }
}

/// An object that is not what it was. When an object cannot be decoded any more, or for the first
/// time, both sides are the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Delta<T> {
    /// Which object.
    pub key: Key,
    /// What was known before; None if it was not known.
    pub old: Option<Arc<T>>,
    /// What is known now; None if it is gone.
    pub new: Option<Arc<T>>,
}

/// Objects of one kind, and where else they are named: `index` gives for each object under which
/// other things it is to be found.
#[derive(Debug)]
pub struct Cache<T, I = ()> {
    feeds: BTreeMap<Arc<str>, Feed>,
    objects: BTreeMap<Key, Entry<T>>,
    index: fn(&T) -> Vec<I>,
    indexed: BTreeSet<(I, Key)>,
    undecodable: BTreeMap<Key, Undecodable>,
    /// Uids whose deletion was confirmed before the watch has told of it.
    buried: BTreeMap<String, Key>,
}

/// What is known of one watch.
#[derive(Debug, Default)]
struct Feed {
    synced: bool,
    /// Lists that were begun. What carries a smaller number was not in the last one.
    lists: u32,
    /// The watch has told of everything up to this version.
    seen: u64,
}

#[derive(Debug)]
struct Entry<T> {
    object: Arc<T>,
    /// Zero if it is not a number.
    version: u64,
    list: u32,
    /// We wrote it, and no watch has told of it yet.
    assumed: bool,
}

#[derive(Debug)]
struct Undecodable {
    error: String,
    list: u32,
}

impl<T: CachedObject> Cache<T> {
    /// A store of what one watch of the whole cluster tells.
    pub fn new() -> Self {
        Self::indexed([""], |_| Vec::new())
    }
}

impl<T: CachedObject> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: CachedObject, I: Ord + Clone> Cache<T, I> {
    /// A store of what the watches of these namespaces tell, or, if the only one is `""`, the watch
    /// of the whole cluster.
    pub fn indexed<'a>(
        namespaces: impl IntoIterator<Item = &'a str>,
        index: fn(&T) -> Vec<I>,
    ) -> Self {
        Self {
            feeds: namespaces
                .into_iter()
                .map(|namespace| (namespace.into(), Feed::default()))
                .collect(),
            objects: BTreeMap::new(),
            index,
            indexed: BTreeSet::new(),
            undecodable: BTreeMap::new(),
            buried: BTreeMap::new(),
        }
    }

    /// Takes in what the watch of that namespace tells (`""`: of the whole cluster). Returns what
    /// is different now.
    pub fn apply(&mut self, namespace: &str, change: WatchEvent<T>) -> Vec<Delta<T>> {
        let Some(feed) = self.feeds.get_mut(namespace) else {
            return Vec::new();
        };
        match change {
            WatchEvent::ListStarted => {
                feed.lists = feed.lists.wrapping_add(1);
                // The list is made after this, so it does not show them.
                self.buried
                    .retain(|_, key| !namespace.is_empty() && *key.namespace != *namespace);
                Vec::new()
            }
            WatchEvent::Listed(object) => {
                let list = feed.lists;
                self.listed(object, list).into_iter().collect()
            }
            WatchEvent::ListCompleted { resource_version } => {
                let seen = parse_resource_version(&resource_version);
                feed.seen = seen;
                feed.synced = true;
                let list = feed.lists;
                self.drop_unlisted(namespace, list, seen)
            }
            WatchEvent::Applied(object) => {
                feed.seen = feed.seen.max(object.version());
                let list = feed.lists;
                self.put(object, list, false).into_iter().collect()
            }
            WatchEvent::Deleted(identity) => {
                feed.seen = feed
                    .seen
                    .max(parse_resource_version(&identity.resource_version));
                self.deleted(&identity).into_iter().collect()
            }
            WatchEvent::Undecodable { identity, error } => {
                let list = feed.lists;
                self.not_decoded(&identity, error, list)
                    .into_iter()
                    .collect()
            }
            WatchEvent::Failing(_) | WatchEvent::Recovered => Vec::new(),
        }
    }

    /// Takes in the server's answer to a write of ours.
    pub fn assume(&mut self, object: T) -> Option<Delta<T>> {
        let key = object.key();
        let feed = self.feeds.get(&key.namespace).or(self.feeds.get(""))?;
        let version = object.version();
        // The watch has told of this state already, and of its end.
        if version != 0 && version <= feed.seen && !self.objects.contains_key(&key) {
            return None;
        }
        self.put(object, feed.lists, true)
    }

    /// The server has said that the object with this uid does not exist any more. That it will be
    /// deleted once its finalizers are gone is not enough.
    pub fn assume_deleted(&mut self, key: &Key, uid: &str) -> Option<Delta<T>> {
        let held = self.objects.get(key)?;
        if held.object.uid() != Some(uid) {
            return None;
        }
        self.buried.insert(uid.to_owned(), key.clone());
        self.remove(key)
    }

    /// Whether all that exists is known.
    pub fn synced(&self) -> bool {
        self.feeds.values().all(|feed| feed.synced)
    }

    /// The object of that name.
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// Why the object of that name cannot be decoded, if so. What [`get`](Self::get) returns is
    /// then an older state of it, or nothing.
    pub fn undecodable(&self, key: &Key) -> Option<&str> {
        self.undecodable.get(key).map(|found| found.error.as_str())
    }

    /// All objects, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.objects.iter().map(|(key, entry)| (key, &entry.object))
    }

    /// The objects of a namespace, in the order of their names.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<T>)> + use<'a, T, I> {
        let first = Key::new(namespace, "");
        let namespace = first.namespace.clone();
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(key, entry)| (key, &entry.object))
    }

    /// The objects that the index has under that entry, in the order of their names.
    pub fn by_index<'a>(
        &'a self,
        entry: &I,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<T>)> + use<'a, T, I> {
        let first = (entry.clone(), Key::new("", ""));
        let entry = entry.clone();
        self.indexed
            .range(first..)
            .take_while(move |(found, _)| *found == entry)
            .filter_map(|(_, key)| self.objects.get(key).map(|entry| (key, &entry.object)))
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn listed(&mut self, object: T, list: u32) -> Option<Delta<T>> {
        let key = object.key();
        if let Some(held) = self.objects.get_mut(&key)
            && held.list != list
        {
            // What was known before the list was made cannot be newer than it, whatever the
            // numbers say: a restored cluster counts anew.
            if held.version != object.version() {
                held.version = 0;
            }
            held.list = list;
        }
        self.put(object, list, false)
    }

    fn put(&mut self, object: T, list: u32, assumed: bool) -> Option<Delta<T>> {
        let key = object.key();
        if let Some(uid) = object.uid()
            && self.buried.contains_key(uid)
        {
            return None;
        }
        let version = object.version();
        if !assumed {
            self.undecodable.remove(&key);
        }
        if let Some(held) = self.objects.get_mut(&key)
            && version != 0
            && version <= held.version
        {
            held.assumed &= assumed;
            return None;
        }
        let object = Arc::new(object);
        let entry = Entry {
            object: object.clone(),
            version,
            list,
            assumed,
        };
        let old = self.objects.insert(key.clone(), entry);
        let old = old.map(|entry| entry.object);
        self.reindex(&key, old.as_deref(), Some(&object));
        Some(Delta {
            key,
            old,
            new: Some(object),
        })
    }

    fn deleted(&mut self, identity: &Identity) -> Option<Delta<T>> {
        self.buried.remove(&identity.uid);
        let key = Key::new(&identity.namespace, &identity.name);
        let undecodable = self.undecodable.remove(&key).is_some();
        let version = parse_resource_version(&identity.resource_version);
        match self.objects.get(&key) {
            Some(held) if version != 0 && version < held.version => None,
            Some(_) => self.remove(&key),
            None => undecodable.then_some(Delta {
                key,
                old: None,
                new: None,
            }),
        }
    }

    fn not_decoded(&mut self, identity: &Identity, error: String, list: u32) -> Option<Delta<T>> {
        if identity.name.is_empty() {
            return None;
        }
        let key = Key::new(&identity.namespace, &identity.name);
        let held = self.objects.get_mut(&key).map(|entry| {
            entry.list = list;
            entry.object.clone()
        });
        self.undecodable
            .insert(key.clone(), Undecodable { error, list });
        Some(Delta {
            key,
            old: held.clone(),
            new: held,
        })
    }

    fn drop_unlisted(&mut self, namespace: &str, list: u32, seen: u64) -> Vec<Delta<T>> {
        let inside = |key: &Key| namespace.is_empty() || *key.namespace == *namespace;
        self.undecodable
            .retain(|key, found| !inside(key) || found.list == list);
        let first = Bound::Included(Key::new(namespace, ""));
        let gone: Vec<Key> = self
            .objects
            .range((first, Bound::Unbounded))
            .take_while(|(key, _)| inside(key))
            .filter(|(_, entry)| {
                entry.list != list || (entry.assumed && entry.version != 0 && entry.version <= seen)
            })
            .map(|(key, _)| key.clone())
            .collect();
        gone.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Delta<T>> {
        let (key, entry) = self.objects.remove_entry(key)?;
        self.reindex(&key, Some(&entry.object), None);
        Some(Delta {
            key,
            old: Some(entry.object),
            new: None,
        })
    }

    fn reindex(&mut self, key: &Key, old: Option<&T>, new: Option<&T>) {
        for entry in old.map(self.index).unwrap_or_default() {
            self.indexed.remove(&(entry, key.clone()));
        }
        for entry in new.map(self.index).unwrap_or_default() {
            self.indexed.insert((entry, key.clone()));
        }
    }
}

/// A resourceVersion as a number: zero, which no object has, if it is none.
pub fn parse_resource_version(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
