//! Bounded label values: names that users choose, such as those of storage classes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Number of names that get a series of their own.
pub const MAX_NAMES: usize = 100;

/// Label value that all further names share.
pub const OTHER: &str = "other";

/// Names that have a series of their own: the first [`MAX_NAMES`] that were used. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct BoundedNames(Arc<Mutex<BTreeSet<String>>>);

impl BoundedNames {
    /// The label value for `name`: itself, or [`OTHER`].
    pub fn label(&self, name: &str) -> String {
        let mut names = self.names();
        if names.contains(name) {
            return name.to_owned();
        }
        if names.len() >= MAX_NAMES {
            return OTHER.to_owned();
        }
        names.insert(name.to_owned());
        name.to_owned()
    }

    /// Drops names that are no longer in use, to make room. Only for gauges: counters and histograms
    /// keep their series.
    pub fn retain(&self, in_use: impl Fn(&str) -> bool) {
        self.names().retain(|name| in_use(name));
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
