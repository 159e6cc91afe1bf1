//! Cache of desired states. The objects of a release are megabytes of text, and every change of a pod
//! leads to a plan.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use api::kubevirt::install::KubeVirt;

use super::{Desired, DesiredError, Facts, desired};
use crate::kubevirt::{object::Fingerprint, strategy::Strategy, target::Target};

/// The target, and the running version while the target is not available.
const CAPACITY: usize = 2;

/// Cache of desired states, shared by its clones.
#[derive(Clone, Default)]
pub struct DesiredCache {
    entries: Arc<Mutex<Entries>>,
}

type Entries = Vec<(Fingerprint, Arc<Desired>)>;

impl DesiredCache {
    /// Cached [`desired`].
    ///
    /// # Errors
    /// Those of [`desired`].
    pub fn desired(
        &self,
        kubevirt: &KubeVirt,
        target: &Target,
        strategy: &Strategy,
        facts: &Facts<'_>,
    ) -> Result<Arc<Desired>, DesiredError> {
        let key = key(kubevirt, target, strategy, facts);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = entries.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(desired(kubevirt, target, strategy, facts)?);
        entries.insert(0, (key, Arc::clone(&new)));
        entries.truncate(CAPACITY);
        Ok(new)
    }
}

impl fmt::Debug for DesiredCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DesiredCache").finish_non_exhaustive()
    }
}

/// A fingerprint of everything that [`desired`] depends on.
fn key(
    kubevirt: &KubeVirt,
    target: &Target,
    strategy: &Strategy,
    facts: &Facts<'_>,
) -> Fingerprint {
    let spec = serde_json::to_string(&kubevirt.spec).unwrap_or_default();
    let generation = kubevirt.metadata.generation;
    let objects: Vec<_> = strategy
        .objects
        .iter()
        .map(|object| object.fingerprint)
        .collect();
    Fingerprint::of(&format!(
        "{spec} {generation:?} {target:?} {facts:?} {objects:?}"
    ))
}
