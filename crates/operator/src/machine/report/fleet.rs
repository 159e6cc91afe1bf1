//! Metrics that are derived from objects: counts, ages and durations.
//!
//! They depend on the objects alone, so a standby or restarted replica shows the same as the leader.
//! A change costs the same for ten Machines and for ten thousand: counts are incremental, and ages are
//! ordered.

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use api::{
    Condition, Machine, Phase, Time,
    core::{ClaimPhase, ClaimStatus, ObservedClaim},
    kubevirt::{ObservedVirtualMachine, VirtualMachineStatus},
};
use jiff::Timestamp;
use plan::machine::is_being_deleted;
use runtime::cache::{CachedObject as _, Delta};
use serde::Deserialize;

use super::phase_name;
use crate::machine::{packed::Packed, watches::Watched};
use crate::metrics::{Metrics, PendingClaims};

/// Conditions whose transitions are progress of a Machine; the others do not affect whether it runs.
const PROGRESS_CONDITIONS: [&str; 5] = [
    "Ready",
    STORAGE_READY,
    "NetworkReady",
    "SpecValid",
    "VirtualMachineReady",
];

const STORAGE_READY: &str = "StorageReady";

/// Count by name and Unix time.
type Ages<K> = BTreeMap<(K, i64), i64>;

pub(super) struct Fleet {
    metrics: Metrics,
    machines: BTreeMap<(String, String), i64>,
    phases: Ages<&'static str>,
    waits: Ages<&'static str>,
    virtual_machines: BTreeMap<String, i64>,
    claims: BTreeMap<String, i64>,
    claim_ages: Ages<String>,
}

impl Fleet {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            machines: BTreeMap::new(),
            phases: Ages::new(),
            waits: Ages::new(),
            virtual_machines: BTreeMap::new(),
            claims: BTreeMap::new(),
            claim_ages: Ages::new(),
        }
    }

    pub(super) fn machines(&mut self, changed: &[Delta<Machine>]) {
        if changed.is_empty() {
            return;
        }
        for Delta { old, new, .. } in changed {
            let (old, new) = (old.as_deref(), new.as_deref());
            count(&mut self.machines, old.map(labels), new.map(labels));
            count(
                &mut self.phases,
                old.and_then(in_phase),
                new.and_then(in_phase),
            );
            count(&mut self.waits, old.and_then(waits), new.and_then(waits));
            if let (Some(old), Some(new)) = (old, new)
                && let Some(took) = start_duration(old, new)
            {
                self.metrics.machine_started(took);
            }
        }
        self.publish_machines();
    }

    fn publish_machines(&self) {
        self.metrics.set_machines(&self.machines);
        self.metrics.set_oldest_in_phase(&oldest(&self.phases));
        self.metrics.set_oldest_waiting(&oldest(&self.waits));
    }

    pub(super) fn virtual_machines(&mut self, changed: &[Delta<Packed<ObservedVirtualMachine>>]) {
        if changed.is_empty() {
            return;
        }
        for Delta { old, new, .. } in changed {
            count(
                &mut self.virtual_machines,
                old.as_deref().and_then(printable_status),
                new.as_deref().and_then(printable_status),
            );
        }
        self.metrics.set_virtual_machines(&self.virtual_machines);
    }

    pub(super) fn claims(&mut self, changed: &[Delta<Packed<ObservedClaim>>], now: Timestamp) {
        if changed.is_empty() {
            return;
        }
        for Delta { old, new, .. } in changed {
            let [old, new]: [Option<Claim>; 2] =
                [old, new].map(|claim| claim.as_ref().and_then(|claim| claim.read()));
            let [was, is] = [&old, &new].map(|claim| claim.as_ref().and_then(Claim::pending));
            let class = |pending: &Option<(String, i64)>| pending.clone().map(|(class, _)| class);
            count(&mut self.claims, class(&was), class(&is));
            count(&mut self.claim_ages, was, is);
            if let (Some(old), Some(new)) = (old, new)
                && !old.is_bound()
                && new.is_bound()
                && let Some(created) = &new.metadata.creation_timestamp
            {
                let took = now.duration_since(created.0);
                self.metrics
                    .storage_provisioned(&new.class(), took.try_into().unwrap_or_default());
            }
        }
        let since = oldest(&self.claim_ages);
        let pending = self.claims.iter().map(|(class, claims)| {
            let pending = PendingClaims {
                count: *claims,
                since: since.get(class).copied().unwrap_or_default(),
            };
            (class.clone(), pending)
        });
        self.metrics.set_pending_claims(&pending.collect());
    }

    /// Resets the metrics of a kind that is no longer served.
    pub(super) fn forget_kind(&mut self, watched: Watched) {
        match watched {
            Watched::Machines => {
                self.machines.clear();
                self.phases.clear();
                self.waits.clear();
                self.publish_machines();
            }
            Watched::VirtualMachines => {
                self.virtual_machines.clear();
                self.metrics.set_virtual_machines(&self.virtual_machines);
            }
            _ => {}
        }
    }
}

fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, i64>, old: Option<K>, new: Option<K>) {
    if old == new {
        return;
    }
    if let Some(old) = old
        && let Some(count) = counts.get_mut(&old)
    {
        *count -= 1;
        if *count == 0 {
            counts.remove(&old);
        }
    }
    if let Some(new) = new {
        *counts.entry(new).or_insert(0) += 1;
    }
}

/// Earliest time of each name, by range queries instead of a full scan.
fn oldest<K: Ord + Clone>(ages: &Ages<K>) -> BTreeMap<K, i64> {
    let mut found = BTreeMap::new();
    let mut next = ages.keys().next();
    while let Some((name, since)) = next {
        found.insert(name.clone(), *since);
        let after = Bound::Excluded((name.clone(), i64::MAX));
        next = ages.range((after, Bound::Unbounded)).next().map(|it| it.0);
    }
    found
}

fn labels(machine: &Machine) -> (String, String) {
    let spec = &machine.spec;
    let size = [&spec.template, &spec.instance_type, &spec.machine_class]
        .into_iter()
        .find_map(Option::as_deref);
    (
        phase_name(phase(machine)).to_owned(),
        size.unwrap_or("default").to_owned(),
    )
}

fn phase(machine: &Machine) -> Phase {
    let status = machine.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    phase.unwrap_or(Phase::Pending)
}

fn conditions(machine: &Machine) -> impl Iterator<Item = &Condition> {
    let status = machine.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter()
}

/// Phase of a Machine and the time of its last progress; none if the Machine is being deleted.
fn in_phase(machine: &Machine) -> Option<(&'static str, i64)> {
    if is_being_deleted(machine) {
        return None;
    }
    let transitions = conditions(machine)
        .filter(|condition| PROGRESS_CONDITIONS.contains(&condition.type_.as_str()))
        .map(|condition| &condition.last_transition_time);
    let since = transitions
        .chain(&machine.metadata.creation_timestamp)
        .max()?;
    Some((phase_name(phase(machine)), seconds(since)))
}

/// What a Machine is waiting for, and since when.
///
/// A stopped guest may wait for its disks forever, since some storage classes bind claims to the first
/// consumer; it is not counted.
fn waits(machine: &Machine) -> Option<(&'static str, i64)> {
    let deleted = machine.metadata.deletion_timestamp.as_ref();
    if let Some(deleted) = deleted.filter(|_| is_being_deleted(machine)) {
        return Some(("deletion", seconds(deleted)));
    }
    if !matches!(phase(machine), Phase::Creating | Phase::Running) {
        return None;
    }
    let mut conditions = conditions(machine);
    let storage = conditions.find(|condition| condition.type_ == STORAGE_READY)?;
    let is_pending = storage.status == "False";
    is_pending.then(|| ("storage", seconds(&storage.last_transition_time)))
}

/// Time from creation until the guest runs for the first time, if that is what changed. A Machine is
/// Creating until then; one that was created stopped has left that phase before and is not counted.
fn start_duration(old: &Machine, new: &Machine) -> Option<Duration> {
    let is_first = matches!(phase(old), Phase::Pending | Phase::Creating)
        && phase(new) == Phase::Running
        && old.uid() == new.uid();
    let mut conditions = conditions(new).filter(|_| is_first);
    let ready = conditions.find(|condition| condition.type_ == "Ready")?;
    let created = new.metadata.creation_timestamp.as_ref()?;
    let took = ready.last_transition_time.0.duration_since(created.0);
    took.try_into().ok()
}

fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

#[derive(Deserialize)]
struct StatusOnly<S> {
    status: S,
}

fn printable_status(vm: &Packed<ObservedVirtualMachine>) -> Option<String> {
    let vm: StatusOnly<VirtualMachineStatus> = vm.read()?;
    Some(vm.status.printable_status)
}

/// Fields of a claim that metrics depend on.
#[derive(Deserialize)]
struct Claim {
    metadata: ClaimMetadata,
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimMetadata {
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    storage_class_name: Option<String>,
}

impl Claim {
    fn is_bound(&self) -> bool {
        self.status.phase == ClaimPhase::Bound
    }

    fn class(&self) -> String {
        self.spec.storage_class_name.clone().unwrap_or_default()
    }

    /// StorageClass and creation time, if the claim is pending.
    fn pending(&self) -> Option<(String, i64)> {
        let is_pending = matches!(self.status.phase, ClaimPhase::Unset | ClaimPhase::Pending)
            && self.metadata.deletion_timestamp.is_none();
        let created = self.metadata.creation_timestamp.as_ref()?;
        is_pending.then(|| (self.class(), seconds(created)))
    }
}

#[cfg(test)]
mod tests;
