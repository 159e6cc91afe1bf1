//! Objects that were found to be as wanted. To compare the objects of a release takes a while, and
//! hardly any of them changes between two plans.

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

/// Objects that were found to be as wanted, and what was compared. A clone remembers the same.
#[derive(Clone, Default)]
pub struct ComparisonCache {
    found: Arc<Mutex<Found>>,
}

type Found = BTreeMap<Id, (Fingerprint, Fingerprint)>;

impl ComparisonCache {
    /// The same as [`differences`].
    pub fn differences(&self, live: &Live, wanted: &Object) -> Vec<Change> {
        let compared = (wanted.fingerprint, live.fingerprint);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.get(&wanted.id) == Some(&compared) {
            return Vec::new();
        }
        let differences = differences(live, wanted);
        if differences.is_empty() {
            found.insert(wanted.id.clone(), compared);
        } else {
            found.remove(&wanted.id);
        }
        differences
    }
}

impl fmt::Debug for ComparisonCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComparisonCache").finish_non_exhaustive()
    }
}
