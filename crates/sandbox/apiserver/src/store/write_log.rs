//! The stream of all writes, kept in memory: for tests that judge a run by everything that
//! happened in it. Compaction does not touch it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::time::Instant;

use super::{Change, Stored, TableId};

/// One write to the store.
#[derive(Clone)]
pub struct LoggedWrite {
    /// When it was committed.
    pub at: Instant,
    table: TableId,
    change: Change,
    stored: Arc<Stored>,
}

impl LoggedWrite {
    /// The revision that the write got.
    pub fn revision(&self) -> u64 {
        self.stored.revision
    }

    /// The API group of the resource, empty for core.
    pub fn group(&self) -> &str {
        &self.table.group
    }

    /// The resource's plural.
    pub fn resource(&self) -> &str {
        &self.table.resource
    }

    /// `namespace/name`, or the name alone.
    pub fn key(&self) -> &str {
        &self.stored.key
    }

    /// Whether the object was removed.
    pub fn is_deletion(&self) -> bool {
        self.change == Change::Deleted
    }

    /// Whether the object was created.
    pub fn is_creation(&self) -> bool {
        self.change == Change::Added
    }

    /// The object after the write, or its last state, without `apiVersion` and `kind`.
    pub fn object(&self) -> Value {
        self.stored.value()
    }
}

impl fmt::Debug for LoggedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Objects may hold Secrets.
        write!(f, "{:?} {} {}", self.change, self.table, self.stored.key)
    }
}

/// All writes since the record began, in the order of their revisions. Clones are one record.
#[derive(Clone, Debug, Default)]
pub struct WriteLog(Arc<Mutex<Vec<LoggedWrite>>>);

impl WriteLog {
    /// What was written up to now.
    pub fn entries(&self) -> Vec<LoggedWrite> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn push(&self, table: &TableId, change: Change, stored: &Arc<Stored>) {
        let entry = LoggedWrite {
            at: Instant::now(),
            table: table.clone(),
            change,
            stored: stored.clone(),
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(entry);
    }
}
