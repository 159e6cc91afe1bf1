//! What a Machine needs of the quotas of its namespace.
//!
//! Told as warnings only: quotas change, and others may have taken what is left by the time it is
//! needed. CPU is left out, because what KubeVirt asks for a virtual CPU is the cluster's choice; of
//! memory at least the guest's is needed. Quotas with scopes may not count it, and are left out too.

use std::collections::BTreeMap;

use api::{Machine, PowerState, core::ResourceQuota};

use super::Facts;
use crate::{
    Quantity,
    admission::Verdict,
    machine::{ResolvedMachine, surroundings::disks_of},
};

/// By the names that quotas have for resources.
type Needs = BTreeMap<String, Quantity>;

pub(super) fn check(
    before: Option<&ResolvedMachine>,
    (new, now): (&Machine, &ResolvedMachine),
    facts: &Facts,
    verdict: &mut Verdict,
) {
    let mut needs = Needs::new();
    for disk in &now.disks {
        let claim = disks_of(new, &facts.claims).find(|(name, _)| *name == disk.name);
        let has: Option<Quantity> =
            claim.and_then(|(_, claim)| claim.spec.resources.requests.storage.parse().ok());
        let class = disk.storage_class.as_deref();
        storage(
            disk.size - has.unwrap_or(Quantity::ZERO),
            has.is_none(),
            class,
            &mut needs,
        );
    }
    compute(before, now, &mut needs);
    for quota in &facts.quotas {
        for (resource, need) in &needs {
            tell(quota, resource, *need, verdict);
        }
    }
}

fn storage(size: Quantity, is_new: bool, class: Option<&str>, needs: &mut Needs) {
    let of_class = |resource: &str| {
        class.map(|class| format!("{class}.storageclass.storage.k8s.io/{resource}"))
    };
    let total = Some("requests.storage".to_owned());
    for resource in [total, of_class("requests.storage")].into_iter().flatten() {
        add(needs, resource, size);
    }
    if is_new {
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

fn compute(before: Option<&ResolvedMachine>, now: &ResolvedMachine, needs: &mut Needs) {
    if before.is_none() {
        add(
            needs,
            "count/virtualmachines.kubevirt.io".to_owned(),
            Quantity::ONE,
        );
    }
    if now.power_state == PowerState::Stopped {
        return;
    }
    let running = before.filter(|before| before.power_state != PowerState::Stopped);
    let has = running.map_or(Quantity::ZERO, |running| running.memory);
    for resource in ["memory", "requests.memory", "limits.memory"] {
        add(needs, resource.to_owned(), now.memory - has);
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
        let need = needs.entry(resource).or_insert(Quantity::ZERO);
        *need = *need + amount;
    }
}

fn tell(quota: &ResourceQuota, resource: &str, need: Quantity, verdict: &mut Verdict) {
    let amount = |amounts: &BTreeMap<String, String>| amounts.get(resource)?.parse().ok();
    let status = &quota.status;
    let Some(hard): Option<Quantity> = amount(&status.hard) else {
        return;
    };
    if !quota.spec.scopes.is_empty() || quota.spec.scope_selector.is_some() {
        return;
    }
    let left = (hard - amount(&status.used).unwrap_or(Quantity::ZERO)).max(Quantity::ZERO);
    if need > left {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        verdict.warn(format!(
            "spec: ResourceQuota {name:?} has {left} of {resource} left, and this needs {need}: ask for less, or have the quota raised"
        ));
    }
}
