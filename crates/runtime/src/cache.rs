//! Cache of the objects of one kind, fed by reflectors and by the answers to our own writes.
//!
//! Of two states of an object the one with the greater resourceVersion is kept (resourceVersions that
//! are not numbers are kept in the order of arrival). So a late watch event never hides our own
//! write, and an object whose deletion was confirmed does not come back.
//!
//! A complete list replaces all objects except those written after the list was made. Until the first
//! list is complete the cache is not [`synced`](Cache::synced), and a missing object proves nothing.
//!
//! An object that does not decode keeps its last state.

mod trimmed;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroU64,
    ops::Bound,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use trimmed::Trimmed;

use crate::reflector::{Identity, WatchEvent};

/// Namespace and name of an object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

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

/// Namespaces of a watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchScope {
    /// All namespaces, and cluster-scoped objects.
    Cluster,
    Namespace(Arc<str>),
}

impl WatchScope {
    pub fn namespace(name: &str) -> Self {
        Self::Namespace(name.into())
    }

    /// One watch for each namespace; without any, one of the whole cluster.
    pub fn of_namespaces(namespaces: &[String]) -> Vec<Self> {
        match namespaces {
            [] => vec![Self::Cluster],
            namespaces => namespaces
                .iter()
                .map(|name| Self::namespace(name))
                .collect(),
        }
    }

    /// Whether a watch of this scope delivers the objects of a namespace.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(name) => **name == *namespace,
        }
    }
}

/// An object that a [`Cache`] can store.
pub trait CachedObject {
    fn key(&self) -> Key;
    fn uid(&self) -> Option<&str>;
    /// See [`parse_resource_version`].
    fn version(&self) -> Option<NonZeroU64>;
}

impl<T: kube::Resource> CachedObject for T {
    fn key(&self) -> Key {
        Key::of(self.meta())
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn version(&self) -> Option<NonZeroU64> {
        parse_resource_version(self.meta().resource_version.as_deref()?)
    }
}

/// Change of a cached object. Both sides are the same for an object that does not decode.
#[derive(Debug, PartialEq, Eq)]
pub struct Delta<T> {
    pub key: Key,
    /// `None` if the object was not cached.
    pub old: Option<Arc<T>>,
    /// `None` if the object is gone.
    pub new: Option<Arc<T>>,
}

/// Objects of one kind, with an index: `index` returns the index values of an object.
#[derive(Debug)]
pub struct Cache<T, I = ()> {
    watches: BTreeMap<WatchScope, Watch>,
    objects: BTreeMap<Key, Entry<T>>,
    index: fn(&T) -> Vec<I>,
    indexed: BTreeSet<(I, Key)>,
    /// Objects that do not decode, with the number of the list that had them.
    undecodable: BTreeMap<Key, u32>,
    /// UIDs whose deletion was confirmed before the watch delivered it.
    tombstones: BTreeMap<String, Key>,
}

#[derive(Debug, Default)]
struct Watch {
    synced: bool,
    /// Number of lists that were started. Entries with a smaller number are not in the last one.
    lists: u32,
    /// All events up to this resourceVersion were delivered.
    delivered: Option<NonZeroU64>,
}

#[derive(Debug)]
struct Entry<T> {
    object: Arc<T>,
    /// Unknown also if the object may be older than its version suggests.
    version: Option<NonZeroU64>,
    list: u32,
    /// Written by us, and not yet delivered by a watch.
    assumed: bool,
}

impl<T: CachedObject> Cache<T> {
    /// A cache for one watch of the whole cluster.
    pub fn new() -> Self {
        Self::indexed([WatchScope::Cluster], |_| Vec::new())
    }
}

impl<T: CachedObject> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: CachedObject, I: Ord + Clone> Cache<T, I> {
    /// A cache for watches of these scopes.
    pub fn indexed(scopes: impl IntoIterator<Item = WatchScope>, index: fn(&T) -> Vec<I>) -> Self {
        Self {
            watches: scopes
                .into_iter()
                .map(|scope| (scope, Watch::default()))
                .collect(),
            objects: BTreeMap::new(),
            index,
            indexed: BTreeSet::new(),
            undecodable: BTreeMap::new(),
            tombstones: BTreeMap::new(),
        }
    }

    /// Forgets everything, as when its kind is no longer served.
    pub fn clear(&mut self) {
        let scopes: Vec<_> = self.watches.keys().cloned().collect();
        *self = Self::indexed(scopes, self.index);
    }

    /// Applies an event of the watch of that scope. Returns the changes that it made.
    pub fn apply(&mut self, scope: &WatchScope, event: WatchEvent<T>) -> Vec<Delta<T>> {
        let Some(watch) = self.watches.get_mut(scope) else {
            return Vec::new();
        };
        match event {
            WatchEvent::ListStarted => {
                watch.lists = watch.lists.wrapping_add(1);
                // The list is made after these deletions, so it does not contain them.
                self.tombstones
                    .retain(|_, key| !scope.covers(&key.namespace));
                Vec::new()
            }
            WatchEvent::Listed(object) => {
                let list = watch.lists;
                self.listed(object, list).into_iter().collect()
            }
            WatchEvent::ListCompleted { resource_version } => {
                let version = parse_resource_version(&resource_version);
                watch.delivered = version;
                watch.synced = true;
                let list = watch.lists;
                self.drop_unlisted(scope, list, version)
            }
            WatchEvent::Applied(object) => {
                watch.delivered = watch.delivered.max(object.version());
                let list = watch.lists;
                self.put(object, list, false).into_iter().collect()
            }
            WatchEvent::Deleted(identity) => {
                watch.delivered = watch
                    .delivered
                    .max(parse_resource_version(&identity.resource_version));
                self.deleted(&identity).into_iter().collect()
            }
            WatchEvent::Undecodable { identity, .. } => {
                let list = watch.lists;
                self.not_decoded(&identity, list).into_iter().collect()
            }
            WatchEvent::Failing(_) | WatchEvent::Recovered => Vec::new(),
        }
    }

    /// Adds the API server's answer to a write of ours, before the watch delivers it.
    pub fn assume(&mut self, object: T) -> Option<Delta<T>> {
        let key = object.key();
        let of_namespace = WatchScope::Namespace(Arc::clone(&key.namespace));
        let watch = self.watches.get(&of_namespace);
        let watch = watch.or_else(|| self.watches.get(&WatchScope::Cluster))?;
        let version = object.version();
        // The watch has delivered this state already, and its deletion.
        if version.is_some() && version <= watch.delivered && !self.objects.contains_key(&key) {
            return None;
        }
        self.put(object, watch.lists, true)
    }

    /// Removes an object whose deletion the API server has confirmed. A deletionTimestamp is not
    /// enough: finalizers may keep the object.
    pub fn assume_deleted(&mut self, key: &Key, uid: &str) -> Option<Delta<T>> {
        let cached = self.objects.get(key)?;
        if cached.object.uid() != Some(uid) {
            return None;
        }
        self.tombstones.insert(uid.to_owned(), key.clone());
        self.remove(key)
    }

    /// Whether the first list of every watch is complete.
    pub fn synced(&self) -> bool {
        self.watches.values().all(|watch| watch.synced)
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// All objects, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.objects.iter().map(|(key, entry)| (key, &entry.object))
    }

    /// The objects with that index value, ordered by key.
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

    fn listed(&mut self, object: T, list: u32) -> Option<Delta<T>> {
        let key = object.key();
        if let Some(cached) = self.objects.get_mut(&key)
            && cached.list != list
        {
            // The list is newer than what was cached before it, even if its resourceVersion is
            // smaller: a restored cluster starts over.
            if cached.version != object.version() {
                cached.version = None;
            }
            cached.list = list;
        }
        self.put(object, list, false)
    }

    fn put(&mut self, object: T, list: u32, assumed: bool) -> Option<Delta<T>> {
        let key = object.key();
        if let Some(uid) = object.uid()
            && self.tombstones.contains_key(uid)
        {
            return None;
        }
        let version = object.version();
        if !assumed {
            self.undecodable.remove(&key);
        }
        if let Some(cached) = self.objects.get_mut(&key)
            && version.is_some()
            && version <= cached.version
        {
            cached.assumed &= assumed;
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
        self.tombstones.remove(&identity.uid);
        let key = Key::new(&identity.namespace, &identity.name);
        let undecodable = self.undecodable.remove(&key).is_some();
        let version = parse_resource_version(&identity.resource_version);
        match self.objects.get(&key) {
            Some(cached) if version.is_some() && version < cached.version => None,
            Some(_) => self.remove(&key),
            None => undecodable.then_some(Delta {
                key,
                old: None,
                new: None,
            }),
        }
    }

    fn not_decoded(&mut self, identity: &Identity, list: u32) -> Option<Delta<T>> {
        if identity.name.is_empty() {
            return None;
        }
        let key = Key::new(&identity.namespace, &identity.name);
        let cached = self.objects.get_mut(&key).map(|entry| {
            entry.list = list;
            entry.object.clone()
        });
        self.undecodable.insert(key.clone(), list);
        Some(Delta {
            key,
            old: cached.clone(),
            new: cached,
        })
    }

    fn drop_unlisted(
        &mut self,
        scope: &WatchScope,
        list: u32,
        version: Option<NonZeroU64>,
    ) -> Vec<Delta<T>> {
        let inside = |key: &Key| scope.covers(&key.namespace);
        self.undecodable
            .retain(|key, listed| !inside(key) || *listed == list);
        let first = match scope {
            WatchScope::Cluster => Bound::Unbounded,
            WatchScope::Namespace(namespace) => Bound::Included(Key::new(namespace, "")),
        };
        let gone: Vec<Key> = self
            .objects
            .range((first, Bound::Unbounded))
            .take_while(|(key, _)| inside(key))
            .filter(|(_, entry)| {
                entry.list != list
                    || (entry.assumed && entry.version.is_some() && entry.version <= version)
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

/// A resourceVersion as a number, for comparisons; none if it is not a number. No object has the
/// version zero, which means any version in requests.
pub fn parse_resource_version(resource_version: &str) -> Option<NonZeroU64> {
    resource_version.parse().ok()
}

#[cfg(test)]
mod tests;
