//! Objects and watch events of one resource.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::RevisionUnavailable;
use crate::object;

/// Stored object: serialized without `apiVersion` and `kind`, which depend on the requested
/// version, plus the fields that selectors and the garbage collector need.
#[derive(Debug)]
pub struct Stored {
    pub key: Arc<str>,
    pub revision: u64,
    pub uid: Box<str>,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub owners: Box<[Box<str>]>,
    pub body: Bytes,
    parsed: OnceLock<Arc<Value>>,
}

impl Stored {
    pub(super) fn new(key: &Arc<str>, revision: u64, mut object: Value) -> Self {
        if let Value::Object(map) = &mut object {
            map.remove("apiVersion");
            map.remove("kind");
        }
        object::set_meta(&mut object, "resourceVersion", revision.to_string().into());
        Self {
            key: key.clone(),
            revision,
            uid: object::meta(&object, "uid").into(),
            labels: object::labels(&object)
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            owners: object::owners(&object)
                .filter_map(|owner| owner.get("uid")?.as_str())
                .map(Into::into)
                .collect(),
            // Shrinks the buffer to its length.
            body: serde_json::to_vec(&object)
                .unwrap_or_default()
                .into_boxed_slice()
                .into(),
            parsed: OnceLock::new(),
        }
    }

    /// Without `apiVersion` and `kind`.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Cached parse result, for objects that nearly every request reads: namespaces, roles,
    /// webhooks.
    pub fn parsed(&self) -> &Arc<Value> {
        self.parsed.get_or_init(|| Arc::new(self.value()))
    }

    /// Empty for cluster scope.
    pub fn namespace(&self) -> &str {
        self.key
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(name, _)| name.as_ref() == key)
            .map(|(_, value)| value.as_ref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub change: Change,
    /// The object after the write, or its last state.
    pub object: Arc<Stored>,
    pub previous: Option<Arc<Stored>>,
}

impl Event {
    fn size(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |one| one.body.len());
        self.object.body.len() + previous
    }
}

/// Size limit of the events of a table.
const MAX_HISTORY_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Table {
    pub objects: BTreeMap<Arc<str>, Arc<Stored>>,
    pub changed: watch::Sender<u64>,
    history_log: VecDeque<Event>,
    size: usize,
    /// Whether the resource is no longer served: watches drain the events and end.
    pub closed: bool,
    /// Events up to this revision are dropped.
    compacted_revision: u64,
}

impl Table {
    pub fn new(revision: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changed: watch::Sender::new(revision),
            history_log: VecDeque::new(),
            size: 0,
            closed: false,
            compacted_revision: revision,
        }
    }

    pub fn range(&self, prefix: &str) -> Vec<Arc<Stored>> {
        if prefix.is_empty() {
            return self.objects.values().cloned().collect();
        }
        self.objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub fn range_at(
        &self,
        prefix: &str,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, RevisionUnavailable> {
        if revision < self.compacted_revision {
            return Err(RevisionUnavailable::TooOld(self.compacted_revision));
        }
        let mut objects: BTreeMap<&str, &Arc<Stored>> = BTreeMap::new();
        // The oldest event after the revision has the state at the revision.
        for event in self
            .history_log
            .iter()
            .rev()
            .take_while(|event| event.object.revision > revision)
        {
            let key = event.object.key.as_ref();
            match &event.previous {
                Some(previous) => {
                    objects.insert(key, previous);
                }
                None => {
                    objects.remove(key);
                }
            }
        }
        objects.extend(
            self.objects
                .iter()
                .filter(|(_, object)| object.revision <= revision)
                .map(|(key, object)| (key.as_ref(), object)),
        );
        Ok(objects
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect())
    }

    /// At most `limit` events after a revision, and the last revision if there are more.
    pub fn events_after(
        &self,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Event>, Option<u64>), RevisionUnavailable> {
        if revision < self.compacted_revision {
            return Err(RevisionUnavailable::TooOld(self.compacted_revision));
        }
        let from = self
            .history_log
            .partition_point(|event| event.object.revision <= revision);
        let to = self.history_log.len().min(from.saturating_add(limit));
        let events: Vec<Event> = self.history_log.range(from..to).cloned().collect();
        let reached = events
            .last()
            .filter(|_| to < self.history_log.len())
            .map(|event| event.object.revision);
        Ok((events, reached))
    }

    pub fn apply(
        &mut self,
        stored: Arc<Stored>,
        previous: Option<Arc<Stored>>,
        change: Change,
        history: usize,
    ) {
        if change == Change::Deleted {
            self.objects.remove(&stored.key);
        } else {
            self.objects.insert(stored.key.clone(), stored.clone());
        }
        let revision = stored.revision;
        let event = Event {
            change,
            object: stored,
            previous,
        };
        self.size += event.size();
        self.history_log.push_back(event);
        while self.history_log.len() > history || self.size > MAX_HISTORY_BYTES {
            let Some(dropped) = self.history_log.pop_front() else {
                break;
            };
            self.size -= dropped.size();
            self.compacted_revision = dropped.object.revision;
        }
        self.changed.send_replace(revision);
    }

    pub fn compact(&mut self, revision: u64) {
        self.history_log.clear();
        self.size = 0;
        self.compacted_revision = revision;
    }
}
