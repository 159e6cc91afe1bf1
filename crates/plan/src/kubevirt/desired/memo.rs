//! What was made last, so that it is not made again while nothing that it depends on has changed: the
//! objects of a release are megabytes of text, and a plan is made whenever a pod changes.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use api::kubevirt::install::KubeVirt;

use super::{Desired, DesiredError, Facts, desired};
use crate::kubevirt::{object::Fingerprint, strategy::Strategy, target::Target};

/// As many are remembered: what is asked for, and what runs while that cannot be had.
const KEPT: usize = 2;

/// What was made last. A clone remembers the same.
#[derive(Clone, Default)]
pub struct Memo {
    made: Arc<Mutex<Made>>,
}

type Made = Vec<(Fingerprint, Arc<Desired>)>;

impl Memo {
    /// The same as [`desired`].
    ///
    /// # Errors
    /// The same.
    pub fn desired(
        &self,
        kubevirt: &KubeVirt,
        target: &Target,
        strategy: &Strategy,
        facts: &Facts<'_>,
    ) -> Result<Arc<Desired>, DesiredError> {
        let key = key(kubevirt, target, strategy, facts);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(desired(kubevirt, target, strategy, facts)?);
        made.insert(0, (key, Arc::clone(&new)));
        made.truncate(KEPT);
        Ok(new)
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
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
