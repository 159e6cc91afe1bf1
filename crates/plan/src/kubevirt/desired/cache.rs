//! Cache of desired states. The objects of a release are megabytes of text, and every change of a pod
//! leads to a plan.

use std::{collections::BTreeMap, fmt, sync::Arc};

use api::kubevirt::install::{KubeVirt, KubeVirtSpec};

use super::{Desired, DesiredError, Facts, Handlers, desired};
use crate::kubevirt::{object::Fingerprint, observed::Served, strategy::Strategy, target::Target};

/// The target, and the running version while the target is not available.
const CAPACITY: usize = 2;

#[derive(Default)]
pub struct DesiredCache {
    entries: Vec<(Input, Arc<Desired>)>,
}

impl DesiredCache {
    /// Cached [`desired`].
    ///
    /// # Errors
    /// Those of [`desired`].
    pub fn desired(
        &mut self,
        kubevirt: &KubeVirt,
        target: &Target,
        strategy: &Strategy,
        facts: &Facts<'_>,
    ) -> Result<Arc<Desired>, DesiredError> {
        let mut cached = self.entries.iter();
        let cached = cached.find(|(input, _)| input.is(kubevirt, target, strategy, facts));
        if let Some((_, desired)) = cached {
            return Ok(Arc::clone(desired));
        }
        let new = Arc::new(desired(kubevirt, target, strategy, facts)?);
        let input = Input::of(kubevirt, target, strategy, facts);
        self.entries.insert(0, (input, Arc::clone(&new)));
        self.entries.truncate(CAPACITY);
        Ok(new)
    }
}

impl fmt::Debug for DesiredCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DesiredCache").finish_non_exhaustive()
    }
}

/// Everything that [`desired`] depends on.
struct Input {
    spec: KubeVirtSpec,
    generation: Option<i64>,
    target: Target,
    objects: Vec<Fingerprint>,
    namespace: String,
    served: Served,
    schedulable_nodes: usize,
    bundles: BTreeMap<String, String>,
    handlers: Handlers,
}

impl Input {
    fn of(kubevirt: &KubeVirt, target: &Target, strategy: &Strategy, facts: &Facts<'_>) -> Self {
        let Facts {
            namespace,
            served,
            schedulable_nodes,
            bundles,
            handlers,
        } = facts;
        Self {
            spec: kubevirt.spec.clone(),
            generation: kubevirt.metadata.generation,
            target: target.clone(),
            objects: fingerprints(strategy).collect(),
            namespace: (*namespace).to_owned(),
            served: Served::clone(served),
            schedulable_nodes: *schedulable_nodes,
            bundles: bundles.clone(),
            handlers: *handlers,
        }
    }

    fn is(
        &self,
        kubevirt: &KubeVirt,
        target: &Target,
        strategy: &Strategy,
        facts: &Facts<'_>,
    ) -> bool {
        let Self {
            spec,
            generation,
            target: of_target,
            objects,
            namespace,
            served,
            schedulable_nodes,
            bundles,
            handlers,
        } = self;
        *spec == kubevirt.spec
            && *generation == kubevirt.metadata.generation
            && of_target == target
            && objects.iter().copied().eq(fingerprints(strategy))
            && *namespace == facts.namespace
            && served == facts.served
            && *schedulable_nodes == facts.schedulable_nodes
            && *bundles == facts.bundles
            && *handlers == facts.handlers
    }
}

fn fingerprints(strategy: &Strategy) -> impl Iterator<Item = Fingerprint> {
    strategy.objects.iter().map(|object| object.fingerprint)
}
