//! What `virt-operator --dump-install-strategy` gives: the objects that make up a release of KubeVirt.
//!
//! The synthetic one is our own. It is as small as it can be while everything that an installer has to
//! cope with is in it: the names and kinds of the real ones, and their mistakes (wrong `apiVersion`s,
//! a port that is listed twice, documents that come twice). From release 1.9 on it has other objects
//! than before, so that an upgrade adds and removes some.

mod documents;
mod rbac;
mod release;
mod webhooks;
mod workloads;

use std::{fmt, sync::Arc};

use serde_json::Value;

use self::release::Release;

/// Where the install strategies come from: of a version such as `v1.9.0` and the installation's
/// configuration, the documents in YAML, or nothing where there is no such release.
#[derive(Clone)]
pub struct Strategies(Arc<Source>);

type Source = dyn Fn(&str, &Value) -> Option<String> + Send + Sync;

impl Strategies {
    /// Those that a function gives.
    pub fn new(source: impl Fn(&str, &Value) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The strategy of a version.
    pub fn get(&self, version: &str, config: &Value) -> Option<String> {
        (self.0)(version, config)
    }
}

/// The synthetic ones.
impl Default for Strategies {
    fn default() -> Self {
        Self::new(synthetic_strategy)
    }
}

impl fmt::Debug for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strategies").finish_non_exhaustive()
    }
}

/// The install strategy of a release `v1.x.y`, for the configuration that the dump Job is given in
/// `TARGET_DEPLOYMENT_CONFIG`. There are no other releases.
pub fn synthetic_strategy(version: &str, config: &Value) -> Option<String> {
    let objects = synthetic_objects(version, config)?;
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object).ok()?);
    }
    Some(text)
}

/// The objects of that strategy, in their order.
pub fn synthetic_objects(version: &str, config: &Value) -> Option<Vec<Value>> {
    let release = Release::of(version, config)?;
    let mut objects = rbac::objects(&release);
    objects.extend(documents::objects(&release));
    objects.extend(webhooks::objects(&release));
    objects.extend(workloads::objects(&release));
    objects.extend(documents::closing(&release));
    Some(objects)
}

#[cfg(test)]
mod tests;
