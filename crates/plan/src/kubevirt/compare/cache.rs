//! Cache of comparisons without differences. Comparing all objects of a release is slow, and few change
//! between two plans.

use std::{collections::BTreeMap, fmt};

use super::differences;
use crate::{
    kubevirt::object::{Fingerprint, Id, Live, Object},
    preview::Change,
};

/// Fingerprints of desired and live objects without differences.
#[derive(Default)]
pub struct ComparisonCache {
    entries: BTreeMap<Id, (Fingerprint, Fingerprint)>,
}

impl ComparisonCache {
    /// Cached [`differences`].
    pub fn differences(&mut self, live: &Live, wanted: &Object) -> Vec<Change> {
        let compared = (wanted.fingerprint, live.fingerprint);
        if self.entries.get(&wanted.id) == Some(&compared) {
            return Vec::new();
        }
        let differences = differences(live, wanted);
        if differences.is_empty() {
            self.entries.insert(wanted.id.clone(), compared);
        } else {
            self.entries.remove(&wanted.id);
        }
        differences
    }
}

impl fmt::Debug for ComparisonCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComparisonCache").finish_non_exhaustive()
    }
}
