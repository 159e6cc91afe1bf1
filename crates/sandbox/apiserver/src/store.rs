//! Object storage and watch cache: one table per resource, one revision for all.
//!
//! Every write gets the next revision, which becomes the object's `resourceVersion`. Each table
//! keeps its newest events, bounded by number and size. Watches read them at their own speed: a
//! write costs the same however many watches there are, and a watch that falls behind gets `410
//! Gone` instead of using up memory. The same events serve lists at an older revision, so a
//! paginated list is consistent.

mod indexes;
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

/// A resource of a group, independent of its versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId {
    /// Empty for core.
    pub group: Arc<str>,
    /// Plural name.
    pub resource: Arc<str>,
}

impl TableId {
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    pub table: TableId,
    /// `namespace/name`, or the name alone.
    pub key: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precondition {
    /// The object does not exist.
    Absent,
    /// The object is at this revision.
    Revision(u64),
}

#[derive(Debug)]
pub enum Write {
    /// Create or replace.
    Put(Value),
    /// Delete; watches receive this last state.
    Remove(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreconditionFailed {
    pub exists: bool,
}

/// Work item of the built-in controllers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkItem {
    /// The object was written or deleted.
    Object(ObjectId),
    /// The object with this UID is deleted and has children.
    DeletedOwner(String),
}

/// Consistent list at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub revision: u64,
    /// Ordered by key.
    pub objects: Vec<Arc<Stored>>,
}

#[derive(Debug)]
pub struct EventBatch {
    /// Oldest first.
    pub events: Vec<Event>,
    /// Revision that the batch reaches.
    pub revision: u64,
    /// Whether the table is closed and fully read.
    pub closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RevisionUnavailable {
    /// Compacted; contains the oldest revision left.
    TooOld(u64),
    /// Not reached yet; contains the newest revision.
    TooNew(u64),
}

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
    /// Owners in foreground deletion, by UID.
    waiting_owners: BTreeMap<Box<str>, ObjectId>,
    terminating_namespaces: BTreeSet<Box<str>>,
    /// Quota keys by namespace.
    quotas: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
    work_queue: VecDeque<WorkItem>,
    queued: BTreeSet<WorkItem>,
    journal: Option<Journal>,
    write_log: Option<WriteLog>,
}

impl Store {
    /// `history` is the number of events that each table keeps.
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

    /// No critical section can leave the state inconsistent, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn get(&self, table: &TableId, key: &str) -> Option<Arc<Stored>> {
        self.lock().tables.get(table)?.objects.get(key).cloned()
    }

    /// Lists objects by key prefix at the newest revision.
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

    /// Lists objects by key prefix at `revision`.
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

    pub fn count(&self, table: &TableId) -> usize {
        self.lock()
            .tables
            .get(table)
            .map_or(0, |table| table.objects.len())
    }

    /// Writes if the precondition is met. Returns the stored object, or its last state on delete.
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

    /// Creates a table if necessary, so that it can be watched while empty.
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

    /// Closes a table that is no longer served: its watches end after the last event.
    pub fn close(&self, table: &TableId) {
        let mut inner = self.lock();
        let revision = inner.revision;
        if let Some(table) = inner.tables.get_mut(table) {
            table.closed = true;
            table.changed.send_replace(revision);
        }
    }

    /// Events after `revision`, at most `limit`.
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

    /// Drops all events, like an etcd compaction.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        for table in inner.tables.values_mut() {
            table.compact(revision);
        }
    }

    /// Objects that have `uid` as owner.
    pub fn children(&self, uid: &str) -> Vec<ObjectId> {
        self.lock()
            .children
            .get(uid)
            .map(|children| children.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Waits for the next work item of the controllers.
    pub async fn next_work_item(&self) -> WorkItem {
        loop {
            let notified = self.work_available.notified();
            if let Some(next) = self.pop_work_item() {
                return next;
            }
            notified.await;
        }
    }

    /// Puts a work item back into the queue.
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

    /// All objects, to start a journal.
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

    /// Appends every write from now on to `journal`.
    pub fn journal_to(&self, journal: Journal) {
        self.lock().journal = Some(journal);
    }

    /// Starts the write log, or returns the running one.
    pub fn write_log(&self) -> WriteLog {
        self.lock().write_log.get_or_insert_default().clone()
    }

    /// Loads a journal into an empty store.
    pub fn restore(&self, lines: Vec<Line>) {
        let mut inner = self.lock();
        for line in lines {
            inner.restore(line);
        }
    }

    /// Closes the journal after all writes are in it.
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

/// Finalizer of foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Whether a controller reconciles every write to the table.
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
