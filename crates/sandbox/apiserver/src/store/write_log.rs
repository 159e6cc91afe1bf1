//! In-memory log of all writes, for tests that check a whole run. Not subject to compaction.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::time::Instant;

use super::{Change, Stored, TableId};

#[derive(Clone)]
pub struct LoggedWrite {
    /// Time of the commit.
    pub at: Instant,
    table: TableId,
    change: Change,
    stored: Arc<Stored>,
}

impl LoggedWrite {
    pub fn revision(&self) -> u64 {
        self.stored.revision
    }

    /// Empty for core.
    pub fn group(&self) -> &str {
        &self.table.group
    }

    /// Plural name.
    pub fn resource(&self) -> &str {
        &self.table.resource
    }

    pub fn key(&self) -> &str {
        &self.stored.key
    }

    pub fn is_deletion(&self) -> bool {
        self.change == Change::Deleted
    }

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
        // Objects may contain Secrets.
        write!(f, "{:?} {} {}", self.change, self.table, self.stored.key)
    }
}

/// All writes since the log was started, in order. Clones share one log.
#[derive(Clone, Debug, Default)]
pub struct WriteLog(Arc<Mutex<Vec<LoggedWrite>>>);

impl WriteLog {
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
