//! Cache of comparisons without differences. Comparing all objects of a release is slow, and few change
//! between two plans.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::differences;
use crate::{
    kubevirt::object::{Fingerprint, Id, Live, Object},
    preview::Change,
};

/// Fingerprints of desired and live objects without differences. Clones share the entries.
#[derive(Clone, Default)]
pub struct ComparisonCache {
    entries: Arc<Mutex<Entries>>,
}

type Entries = BTreeMap<Id, (Fingerprint, Fingerprint)>;

impl ComparisonCache {
    /// Cached [`differences`].
    pub fn differences(&self, live: &Live, wanted: &Object) -> Vec<Change> {
        let compared = (wanted.fingerprint, live.fingerprint);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(&wanted.id) == Some(&compared) {
            return Vec::new();
        }
        let differences = differences(live, wanted);
        if differences.is_empty() {
            entries.insert(wanted.id.clone(), compared);
        } else {
            entries.remove(&wanted.id);
        }
        differences
    }
}

impl fmt::Debug for ComparisonCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComparisonCache").finish_non_exhaustive()
    }
}
