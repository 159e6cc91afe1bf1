//! Where the objects are: one table for each resource, and one revision for all of them.
//!
//! Every write gets the next revision, which becomes the object's `resourceVersion`. A table keeps
//! its newest events, up to a number and a size, from which watches read at their own pace: a write
//! costs the same however many watches there are, and a watch that falls too far behind is told so
//! instead of filling the memory. The same events give lists at an older revision, so that a list read page by page is of
//! one moment.

mod journal;
mod table;
#[cfg(test)]
mod tests;
mod write_log;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::{Notify, watch};

pub use journal::{Journal, JournalError, Line};
use table::Table;
pub use table::{Change, Event, Stored};
pub use write_log::{LoggedWrite, WriteLog};

use crate::{object, quota};

/// The name of a table: a resource of a group, whatever its versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId {
    /// The API group, empty for core.
    pub group: Arc<str>,
    /// The resource's plural.
    pub resource: Arc<str>,
}

impl TableId {
    /// The table of a resource.
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_ref() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// One object of one table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The table.
    pub table: TableId,
    /// The key in it: `namespace/name`, or the name alone.
    pub key: Arc<str>,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precondition {
    /// Nothing of that name.
    Absent,
    /// The object at exactly this revision.
    Revision(u64),
}

/// What a write leaves.
#[derive(Debug)]
pub enum Write {
    /// The object as given.
    Put(Value),
    /// Nothing; the last state of the object is given for those who watch.
    Remove(Value),
}

/// The table does not hold what the write expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreconditionFailed {
    /// Whether there is an object of that name.
    pub exists: bool,
}

/// What the controllers inside the server should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkItem {
    /// The object was written or is gone, and is a controller's business.
    Object(ObjectId),
    /// An object with this uid is gone, and others name it as their owner.
    DeletedOwner(String),
}

/// A part of a table at one revision.
#[derive(Debug)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// The objects, in the order of their keys.
    pub objects: Vec<Arc<Stored>>,
}

/// What has happened in a table.
#[derive(Debug)]
pub struct EventBatch {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The revision up to which they reach.
    pub revision: u64,
    /// Whether nothing more will happen.
    pub closed: bool,
}

/// The revision asked for is no longer, or not yet, to be had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RevisionUnavailable {
    /// Its events have been dropped. The oldest that is left is given.
    TooOld(u64),
    /// It has not been reached. The newest is given.
    TooNew(u64),
}

/// All objects of the cluster.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    work_available: Notify,
    history: usize,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    tables: BTreeMap<TableId, Table>,
    children: BTreeMap<Box<str>, BTreeSet<ObjectId>>,
    /// Owners that wait until their children are gone, by uid.
    waiting_owners: BTreeMap<Box<str>, ObjectId>,
    /// Namespaces that wait until they are empty.
    terminating_namespaces: BTreeSet<Box<str>>,
    /// The keys of quotas, by namespace.
    quotas: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
    work_queue: VecDeque<WorkItem>,
    queued: BTreeSet<WorkItem>,
    journal: Option<Journal>,
    write_log: Option<WriteLog>,
}

impl Store {
    /// An empty store whose tables keep `history` events each.
    pub fn new(history: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                revision: 1,
                tables: BTreeMap::new(),
                children: BTreeMap::new(),
                waiting_owners: BTreeMap::new(),
                terminating_namespaces: BTreeSet::new(),
                quotas: BTreeMap::new(),
                work_queue: VecDeque::new(),
                queued: BTreeSet::new(),
                journal: None,
                write_log: None,
            }),
            work_available: Notify::new(),
            history,
        }
    }

    /// Nothing that is done under the lock can leave it half done, so a poisoned lock is as good.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// The object, if there is one.
    pub fn get(&self, table: &TableId, key: &str) -> Option<Arc<Stored>> {
        self.lock().tables.get(table)?.objects.get(key).cloned()
    }

    /// The objects whose keys begin with `prefix`, at the newest revision.
    pub fn list(&self, table: &TableId, prefix: &str) -> Snapshot {
        let inner = self.lock();
        Snapshot {
            revision: inner.revision,
            objects: inner
                .tables
                .get(table)
                .map(|table| table.range(prefix))
                .unwrap_or_default(),
        }
    }

    /// The objects whose keys begin with `prefix`, as they were at `revision`.
    pub fn list_at(
        &self,
        table: &TableId,
        prefix: &str,
        revision: u64,
    ) -> Result<Snapshot, RevisionUnavailable> {
        let inner = self.lock();
        if revision > inner.revision {
            return Err(RevisionUnavailable::TooNew(inner.revision));
        }
        let objects = match inner.tables.get(table) {
            Some(table) => table.range_at(prefix, revision)?,
            None => Vec::new(),
        };
        Ok(Snapshot { revision, objects })
    }

    /// How many objects a table has.
    pub fn count(&self, table: &TableId) -> usize {
        self.lock()
            .tables
            .get(table)
            .map_or(0, |table| table.objects.len())
    }

    /// Writes, if the table holds what is expected. The answer is the object as written, or as it
    /// was last seen.
    pub fn commit(
        &self,
        id: &ObjectId,
        precondition: Precondition,
        write: Write,
    ) -> Result<Arc<Stored>, PreconditionFailed> {
        let mut inner = self.lock();
        let stored = inner.commit(id, precondition, write, self.history)?;
        if !inner.work_queue.is_empty() {
            self.work_available.notify_one();
        }
        Ok(stored)
    }

    /// Makes a table known, so that watches of it can begin before it holds anything.
    pub fn open(&self, table: &TableId) -> watch::Receiver<u64> {
        let mut inner = self.lock();
        let revision = inner.revision;
        let table = inner
            .tables
            .entry(table.clone())
            .or_insert_with(|| Table::new(revision));
        table.closed = false;
        table.changed.subscribe()
    }

    /// Closes a table that is not served any more: its watches end when they have seen all.
    pub fn close(&self, table: &TableId) {
        let mut inner = self.lock();
        let revision = inner.revision;
        if let Some(table) = inner.tables.get_mut(table) {
            table.closed = true;
            table.changed.send_replace(revision);
        }
    }

    /// What has happened in a table since `revision`: at most the first `limit` events.
    pub fn events_after(
        &self,
        table: &TableId,
        revision: u64,
        limit: usize,
    ) -> Result<EventBatch, RevisionUnavailable> {
        let inner = self.lock();
        let Some(table) = inner.tables.get(table) else {
            return Ok(EventBatch {
                events: Vec::new(),
                revision,
                closed: true,
            });
        };
        let (events, cut) = table.events_after(revision, limit)?;
        Ok(EventBatch {
            events,
            revision: cut.unwrap_or(inner.revision),
            closed: table.closed && cut.is_none(),
        })
    }

    /// Drops all events, as a compaction of etcd does: older revisions are gone from then on.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        for table in inner.tables.values_mut() {
            table.compact(revision);
        }
    }

    /// The objects that name `uid` as an owner.
    pub fn children(&self, uid: &str) -> Vec<ObjectId> {
        self.lock()
            .children
            .get(uid)
            .map(|children| children.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Waits for something that the controllers should look at.
    pub async fn next_work_item(&self) -> WorkItem {
        loop {
            let notified = self.work_available.notified();
            if let Some(next) = self.pop_work_item() {
                return next;
            }
            notified.await;
        }
    }

    /// Has the controllers look at something again.
    pub fn requeue(&self, item: WorkItem) {
        self.lock().queue(item);
        self.work_available.notify_one();
    }

    fn pop_work_item(&self) -> Option<WorkItem> {
        let mut inner = self.lock();
        let next = inner.work_queue.pop_front()?;
        inner.queued.remove(&next);
        Some(next)
    }

    /// Every object, for a new journal.
    pub fn lines(&self) -> Vec<Line> {
        let inner = self.lock();
        let objects = inner.tables.iter().flat_map(|(id, table)| {
            table
                .objects
                .values()
                .map(|stored| Line::put(id.clone(), stored.clone()))
        });
        std::iter::once(Line::reached(inner.revision))
            .chain(objects)
            .collect()
    }

    /// From now on every write is also written to `journal`.
    pub fn journal_to(&self, journal: Journal) {
        self.lock().journal = Some(journal);
    }

    /// From now on every write is also kept in the record.
    pub fn write_log(&self) -> WriteLog {
        self.lock().write_log.get_or_insert_default().clone()
    }

    /// Puts back what a journal held. For a store that is still empty.
    pub fn restore(&self, lines: Vec<Line>) {
        let mut inner = self.lock();
        for line in lines {
            inner.restore(line);
        }
    }

    /// Ends the journal, after everything is in it.
    pub fn close_journal(&self) -> Result<(), JournalError> {
        let journal = self.lock().journal.take();
        journal.map_or(Ok(()), Journal::close)
    }
}

impl Inner {
    fn commit(
        &mut self,
        id: &ObjectId,
        precondition: Precondition,
        write: Write,
        history: usize,
    ) -> Result<Arc<Stored>, PreconditionFailed> {
        let revision = self.revision + 1;
        let before = self.revision;
        let table = self
            .tables
            .entry(id.table.clone())
            .or_insert_with(|| Table::new(before));
        let previous = table.objects.get(&id.key).cloned();
        let fits = match (precondition, &previous) {
            (Precondition::Absent, None) => true,
            (Precondition::Revision(revision), Some(previous)) => previous.revision == revision,
            _ => false,
        };
        if !fits {
            return Err(PreconditionFailed {
                exists: previous.is_some(),
            });
        }
        self.revision = revision;
        let (object, change) = match write {
            Write::Put(object) => {
                let change = if previous.is_some() {
                    Change::Modified
                } else {
                    Change::Added
                };
                (object, change)
            }
            Write::Remove(object) => (object, Change::Deleted),
        };
        let terminating = object::is_terminating(&object);
        let needs_reconcile =
            terminating || object::owners(&object).next().is_some() || has_controller(&id.table);
        self.index_owners(
            id,
            previous.as_deref(),
            (change != Change::Deleted).then_some(&object),
        );
        self.index_waiting_owners(id, &object, terminating && change != Change::Deleted);
        let stored = Arc::new(Stored::new(&id.key, revision, object));
        if let Some(table) = self.tables.get_mut(&id.table) {
            table.apply(stored.clone(), previous, change, history);
        }
        if change == Change::Deleted {
            if self.children.contains_key(&stored.uid) {
                self.queue(WorkItem::DeletedOwner(stored.uid.to_string()));
            }
            if has_controller(&id.table) {
                self.queue(WorkItem::Object(id.clone()));
            }
            if self.terminating_namespaces.contains(stored.namespace()) {
                self.queue(WorkItem::Object(namespace(stored.namespace())));
            }
        } else if needs_reconcile {
            self.queue(WorkItem::Object(id.clone()));
        }
        self.index_quotas(id, change == Change::Deleted);
        if change == Change::Deleted || (change == Change::Modified && quota::may_shrink(&id.table))
        {
            self.queue_quotas(id);
        }
        if let Some(write_log) = &self.write_log {
            write_log.push(&id.table, change, &stored);
        }
        if let Some(journal) = &self.journal {
            journal.write(match change {
                Change::Deleted => Line::removed(id.table.clone(), &stored),
                Change::Added | Change::Modified => Line::put(id.table.clone(), stored.clone()),
            });
        }
        Ok(stored)
    }

    fn queue(&mut self, item: WorkItem) {
        if self.queued.insert(item.clone()) {
            self.work_queue.push_back(item);
        }
    }

    /// Keeps the index of owners: only objects that have or had owners cost anything.
    fn index_owners(&mut self, id: &ObjectId, previous: Option<&Stored>, object: Option<&Value>) {
        if let Some(previous) = previous {
            for owner in &previous.owners {
                if let Some(children) = self.children.get_mut(owner) {
                    children.remove(id);
                    if children.is_empty() {
                        self.children.remove(owner);
                    }
                }
                if let Some(waiting_owners) = self.waiting_owners.get(owner).cloned() {
                    self.queue(WorkItem::Object(waiting_owners));
                }
            }
        }
        for uid in object
            .into_iter()
            .flat_map(object::owners)
            .filter_map(|owner| owner.get("uid")?.as_str())
        {
            self.children
                .entry(uid.into())
                .or_default()
                .insert(id.clone());
        }
    }

    fn index_waiting_owners(&mut self, id: &ObjectId, object: &Value, terminating: bool) {
        let uid = object::meta(object, "uid");
        if terminating && object::finalizers(object).any(|one| one == FOREGROUND) {
            self.waiting_owners.insert(uid.into(), id.clone());
        } else {
            self.waiting_owners.remove(uid);
        }
        if id.table.group.is_empty() && id.table.resource.as_ref() == "namespaces" {
            if terminating {
                self.terminating_namespaces.insert(id.key.as_ref().into());
            } else {
                self.terminating_namespaces.remove(id.key.as_ref());
            }
        }
    }

    fn index_quotas(&mut self, id: &ObjectId, gone: bool) {
        if id.table != *quota::TABLE {
            return;
        }
        let namespace = quota::namespace_of(&id.key);
        if !gone {
            let quotas = self.quotas.entry(namespace.into()).or_default();
            quotas.insert(id.key.clone());
        } else if let Some(quotas) = self.quotas.get_mut(namespace) {
            quotas.remove(&id.key);
        }
    }

    /// Something in a namespace may count for less: its quotas are to be counted again.
    fn queue_quotas(&mut self, id: &ObjectId) {
        if self.quotas.is_empty() {
            return;
        }
        let quotas = self.quotas.get(quota::namespace_of(&id.key)).cloned();
        for key in quotas.into_iter().flatten() {
            self.queue(WorkItem::Object(ObjectId {
                table: quota::TABLE.clone(),
                key,
            }));
        }
    }

    fn restore(&mut self, line: Line) {
        self.revision = self.revision.max(line.revision);
        if line.key.is_empty() {
            return;
        }
        let id = ObjectId {
            table: line.table,
            key: line.key,
        };
        let table = self
            .tables
            .entry(id.table.clone())
            .or_insert_with(|| Table::new(0));
        let previous = table.objects.remove(&id.key);
        table.compact(line.revision);
        let stored = line
            .object
            .map(|object| Arc::new(Stored::new(&id.key, line.revision, object)));
        if let Some(stored) = &stored {
            table.objects.insert(id.key.clone(), stored.clone());
        }
        let value = stored.map(|stored| stored.value());
        self.index_quotas(&id, value.is_none());
        self.index_owners(&id, previous.as_deref(), value.as_ref());
        if let Some(value) = &value {
            let terminating = object::is_terminating(value);
            self.index_waiting_owners(&id, value, terminating);
            if terminating || has_controller(&id.table) {
                self.queue(WorkItem::Object(id));
            }
        }
    }
}

/// The finalizer under which what an object owns goes first.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Whether controllers look at every write to a table.
fn has_controller(table: &TableId) -> bool {
    matches!(
        (table.group.as_ref(), table.resource.as_ref()),
        ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("rbac.authorization.k8s.io", "clusterroles")
            | ("", "resourcequotas")
    )
}

fn namespace(name: &str) -> ObjectId {
    ObjectId {
        table: TableId::new("", "namespaces"),
        key: name.into(),
    }
}
