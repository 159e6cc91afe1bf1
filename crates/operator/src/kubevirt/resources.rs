//! Selection of the KubeVirt resource to reconcile.

use std::sync::Arc;

use api::kubevirt::install::{self, KubeVirt};
use kube::ResourceExt as _;
use plan::kubevirt::observed::OtherKubeVirt;

use super::caches::Caches;

/// All KubeVirt resources; the first one is reconciled: in the operator's namespace, preferably with an
/// installation, otherwise the oldest. The plan reports an error on the others.
pub(super) fn in_order(caches: &Caches, namespace: &str) -> Vec<Arc<KubeVirt>> {
    let all = caches.kubevirts.iter();
    let mut all: Vec<Arc<KubeVirt>> = all.map(|(_, kubevirt)| Arc::clone(kubevirt)).collect();
    all.sort_by_cached_key(|kubevirt| {
        let is_elsewhere = kubevirt.namespace().as_deref() != Some(namespace);
        let created = kubevirt.creation_timestamp().map(|created| created.0);
        (
            is_elsewhere,
            !is_installed(kubevirt),
            created,
            kubevirt.name_any(),
        )
    });
    all
}

/// Summaries of the other KubeVirt resources, for the plan of one.
pub(super) fn others(caches: &Caches, kubevirt: &KubeVirt) -> Vec<OtherKubeVirt> {
    let all = caches.kubevirts.iter().map(|(_, other)| other);
    all.filter(|other| other.uid() != kubevirt.uid())
        .map(|other| OtherKubeVirt {
            namespace: other.namespace().unwrap_or_default(),
            name: other.name_any(),
            created: other.creation_timestamp(),
            installed: is_installed(other),
        })
        .collect()
}

/// Whether a KubeVirt resource has an installation.
fn is_installed(kubevirt: &KubeVirt) -> bool {
    let own = [install::FINALIZER, install::OLD_FINALIZER];
    let mut finalizers = kubevirt.finalizers().iter();
    finalizers.any(|finalizer| own.contains(&finalizer.as_str()))
}
