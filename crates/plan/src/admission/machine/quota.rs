//! Review of resource quotas.
//!
//! Reported as warnings, because quotas and usage change. Only a disk that grows beyond the quota's hard
//! limit is refused, because its size cannot be undone. CPU is left out, because the cluster decides what
//! KubeVirt requests per virtual CPU; of memory at least the guest's is needed. Quotas with scopes are left
//! out, because they may not apply.

use std::collections::BTreeMap;

use api::{PowerState, core::ResourceQuota};

use super::{
    Change, ReviewContext,
    disks::{newly_set_size, requested_size},
};
use crate::{
    Quantity,
    admission::Verdict,
    machine::{ResolvedDisk, surroundings::disks_of},
};

/// By the resource names of quotas.
type Needs = BTreeMap<String, Need>;

/// What a Machine needs of a resource.
struct Need {
    /// In addition to what it has.
    more: Quantity,
    /// In total, for disks.
    whole: Quantity,
    /// The field of an existing disk that the change expands.
    grown: Option<String>,
    /// Whether the resource is the size of disks.
    is_storage: bool,
}

impl Need {
    const NOTHING: Self = Self {
        more: Quantity::ZERO,
        whole: Quantity::ZERO,
        grown: None,
        is_storage: false,
    };
}

pub(super) fn check(change: &Change<'_>, context: &ReviewContext, verdict: &mut Verdict) {
    let Change { old, new, now, .. } = change;
    let mut needs = Needs::new();
    for disk in &now.disks {
        let claim = disks_of(new, &context.claims).find(|(name, _)| *name == disk.name);
        let has = claim.and_then(|(_, claim)| requested_size(claim));
        let grown = old
            .filter(|_| has.is_some_and(|has| disk.size > has))
            .and_then(|old| newly_set_size(old, new, &disk.name));
        storage(disk, has, grown.as_ref(), &mut needs);
    }
    // A Machine that no longer resolves keeps its size.
    if old.is_none() || change.resolves {
        compute(change, &mut needs);
    }
    for quota in &context.quotas {
        for (resource, need) in &needs {
            check_quota(quota, resource, need, verdict);
        }
    }
}

fn storage(disk: &ResolvedDisk, has: Option<Quantity>, grown: Option<&String>, needs: &mut Needs) {
    let class = disk.storage_class.as_deref();
    let of_class = |resource: &str| {
        class.map(|class| format!("{class}.storageclass.storage.k8s.io/{resource}"))
    };
    let total = Some("requests.storage".to_owned());
    for resource in [total, of_class("requests.storage")].into_iter().flatten() {
        let need = needs.entry(resource).or_insert(Need::NOTHING);
        let more = disk.size - has.unwrap_or(Quantity::ZERO);
        need.more = need.more + more.max(Quantity::ZERO);
        need.whole = need.whole + disk.size.max(has.unwrap_or(Quantity::ZERO));
        need.grown = need.grown.take().or_else(|| grown.cloned());
        need.is_storage = true;
    }
    if has.is_none() {
        let counted = ["persistentvolumeclaims", "count/persistentvolumeclaims"];
        let counted = counted.map(|resource| Some(resource.to_owned()));
        let counted = counted
            .into_iter()
            .chain([of_class("persistentvolumeclaims")]);
        for resource in counted.flatten() {
            add(needs, resource, Quantity::ONE);
        }
    }
}

fn compute(change: &Change<'_>, needs: &mut Needs) {
    let had = change.had.as_ref();
    if had.is_none() {
        add(
            needs,
            "count/virtualmachines.kubevirt.io".to_owned(),
            Quantity::ONE,
        );
    }
    if change.new.spec.power_state == Some(PowerState::Stopped) {
        return;
    }
    let running = had.filter(|had| had.power_state != PowerState::Stopped);
    if let Some(memory) = change.now.memory {
        let has = running.map_or(Quantity::ZERO, |running| running.memory);
        for resource in ["memory", "requests.memory", "limits.memory"] {
            add(needs, resource.to_owned(), memory - has);
        }
    }
    if running.is_none() {
        let counted = [
            "pods",
            "count/pods",
            "count/virtualmachineinstances.kubevirt.io",
        ];
        for resource in counted {
            add(needs, resource.to_owned(), Quantity::ONE);
        }
    }
}

fn add(needs: &mut Needs, resource: String, amount: Quantity) {
    if amount.is_positive() {
        let need = needs.entry(resource).or_insert(Need::NOTHING);
        need.more = need.more + amount;
    }
}

fn check_quota(quota: &ResourceQuota, resource: &str, need: &Need, verdict: &mut Verdict) {
    let amount = |amounts: &BTreeMap<String, String>| amounts.get(resource)?.parse().ok();
    let status = &quota.status;
    let Some(hard): Option<Quantity> = amount(&status.hard) else {
        return;
    };
    if !quota.spec.scopes.is_empty() || quota.spec.scope_selector.is_some() {
        return;
    }
    let name = quota.metadata.name.as_deref().unwrap_or_default();
    let Need {
        more, whole, grown, ..
    } = need;
    if let Some(field) = grown
        && *whole > hard
    {
        let message = format!(
            "ResourceQuota {name:?} has {hard} of {resource} in total, and the disks would need {whole}: ask for less, or have the quota raised first"
        );
        verdict.refuse(field, message);
        return;
    }
    let left = (hard - amount(&status.used).unwrap_or(Quantity::ZERO)).max(Quantity::ZERO);
    if *more > left {
        // The schema lets sizes only grow.
        let remedy = if need.is_storage {
            "make room in it, or have it raised"
        } else {
            "ask for less, or have the quota raised"
        };
        verdict.warn(format!(
            "spec: ResourceQuota {name:?} has {left} of {resource} left, and this needs {more}: {remedy}"
        ));
    }
}
