//! Install strategies: the objects of a KubeVirt release, as `virt-operator
//! --dump-install-strategy` prints them.
//!
//! The synthetic strategy is our own. It is minimal, but has everything that an installer must
//! handle: the names and kinds of real strategies, and their defects (wrong `apiVersion`s, a
//! duplicate port, duplicate documents). Its objects differ from release 1.9 on, so that an upgrade
//! adds and removes some.

mod documents;
mod rbac;
mod release;
mod webhooks;
mod workloads;

use std::{fmt, sync::Arc};

use serde_json::Value;

use self::release::Release;

/// Source of install strategies: from a version such as `v1.9.0` and the installation's
/// configuration to YAML documents, or `None` for an unknown release.
#[derive(Clone)]
pub struct Strategies(Arc<Source>);

type Source = dyn Fn(&str, &Value) -> Option<String> + Send + Sync;

impl Strategies {
    pub fn new(source: impl Fn(&str, &Value) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    pub fn get(&self, version: &str, config: &Value) -> Option<String> {
        (self.0)(version, config)
    }
}

/// The synthetic strategies.
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

/// The install strategy of a release `v1.x.y`, for the configuration that the dump Job gets in
/// `TARGET_DEPLOYMENT_CONFIG`. `None` for other versions.
pub fn synthetic_strategy(version: &str, config: &Value) -> Option<String> {
    let objects = synthetic_objects(version, config)?;
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object).ok()?);
    }
    Some(text)
}

/// The objects of that strategy, in order.
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
