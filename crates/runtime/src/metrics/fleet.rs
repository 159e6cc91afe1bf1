//! How long Machines take, and since when they wait.
//!
//! Times are told as seconds of the epoch, so that they need not be set again while they pass; a
//! series is there only while something waits.

use std::{collections::BTreeMap, sync::PoisonError, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{
    Metrics,
    labels::{Names, StorageClass},
    set, set_merged,
};

/// A guest from a disk that is there starts in seconds, one whose image is imported takes minutes.
const START: [f64; 12] = [
    5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
];

/// Claims of a storage class that are not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// How many.
    pub claims: i64,
    /// When the first of them was made, in seconds of the epoch.
    pub since: i64,
}

/// The labels that have a series.
#[derive(Debug, Default)]
pub(super) struct Shown {
    phases: Vec<Phase>,
    waits: Vec<Wait>,
    claims: Vec<StorageClass>,
    oldest_claims: Vec<StorageClass>,
    namespaces: Names,
    orphans: Vec<MachineNamespace>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Wait {
    waits_for: &'static str,
}

/// Not `namespace`: Prometheus has that label for the operator's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct MachineNamespace {
    machine_namespace: String,
}

#[derive(Clone, Debug)]
pub(super) struct Series {
    start_duration: Histogram,
    phase_oldest: Family<Phase, Gauge>,
    wait_oldest: Family<Wait, Gauge>,
    claims_pending: Family<StorageClass, Gauge>,
    claim_oldest: Family<StorageClass, Gauge>,
    orphaned_disks: Family<MachineNamespace, Gauge>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            start_duration: Histogram::new(START),
            phase_oldest: Family::default(),
            wait_oldest: Family::default(),
            claims_pending: Family::default(),
            claim_oldest: Family::default(),
            orphaned_disks: Family::default(),
        }
    }
}

impl Metrics {
    /// A guest runs for the first time, so long after its Machine was created.
    pub fn machine_started(&self, duration: Duration) {
        let started = &self.series.fleet.start_duration;
        started.observe(duration.as_secs_f64());
    }

    /// Shows since when the Machine that is longest in a phase is in it, in seconds of the epoch,
    /// of these phases and no others.
    pub fn set_oldest_in_phase(&self, since: &BTreeMap<&'static str, i64>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let since = since.iter().map(|(phase, since)| (Phase { phase }, *since));
        set(
            &self.series.fleet.phase_oldest,
            &mut shown.fleet.phases,
            since,
        );
    }

    /// Shows since when the Machine that has waited longest for something does so, in seconds of the
    /// epoch, for these things and no others.
    pub fn set_oldest_waiting(&self, since: &BTreeMap<&'static str, i64>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let since = since
            .iter()
            .map(|(waits_for, since)| (Wait { waits_for }, *since));
        set(
            &self.series.fleet.wait_oldest,
            &mut shown.fleet.waits,
            since,
        );
    }

    /// Shows these claims that are not bound, by storage class, and no others.
    pub fn set_pending_claims(&self, pending: &BTreeMap<String, Pending>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let super::Shown {
            storage_classes,
            fleet,
            ..
        } = &mut *shown;
        let pending: Vec<_> = pending
            .iter()
            .map(|(class, pending)| {
                let storage_class = storage_classes.shown(class);
                (StorageClass { storage_class }, *pending)
            })
            .collect();
        let counts = pending
            .iter()
            .map(|(class, pending)| (class.clone(), pending.claims));
        let since = pending
            .iter()
            .map(|(class, pending)| (class.clone(), pending.since));
        let series = &self.series.fleet;
        set(&series.claims_pending, &mut fleet.claims, counts);
        let oldest = &mut fleet.oldest_claims;
        set_merged(&series.claim_oldest, oldest, since, i64::min);
    }

    /// Shows these numbers of disks whose Machine is gone, by namespace, and no others.
    pub fn set_orphaned_disks(&self, counts: &BTreeMap<String, i64>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown {
            namespaces,
            orphans,
            ..
        } = &mut shown.fleet;
        namespaces.retain(|name| counts.contains_key(name));
        let counts = counts.iter().map(|(namespace, count)| {
            let machine_namespace = namespaces.shown(namespace);
            (MachineNamespace { machine_namespace }, *count)
        });
        set(&self.series.fleet.orphaned_disks, orphans, counts);
    }
}

impl Series {
    pub(super) fn register(&self, operator: &mut Registry) {
        operator.register(
            "machine_start_duration_seconds",
            "From the creation of a Machine until its guest ran for the first time",
            self.start_duration.clone(),
        );
        operator.register(
            "machine_phase_oldest_timestamp_seconds",
            "Since when the Machine that is longest in a phase is in it, and nothing of it has moved",
            self.phase_oldest.clone(),
        );
        operator.register(
            "machine_waiting_oldest_timestamp_seconds",
            "Since when the Machine that has waited longest for something does so",
            self.wait_oldest.clone(),
        );
        operator.register(
            "claims_pending",
            "Claims of Machines that are not bound",
            self.claims_pending.clone(),
        );
        operator.register(
            "claim_pending_oldest_timestamp_seconds",
            "When the oldest claim of a Machine that is not bound was made",
            self.claim_oldest.clone(),
        );
        operator.register(
            "orphaned_disks",
            "Claims and DataVolumes whose Machine is gone, and that are not retained",
            self.orphaned_disks.clone(),
        );
    }
}
