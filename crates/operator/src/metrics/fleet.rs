//! Start durations of Machines, and the time since when others wait.
//!
//! Waits are exposed as Unix timestamps of their start, so they need no update while time passes. A
//! series exists only while something waits.

use std::{collections::BTreeMap, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
};
use runtime::metrics::GaugeSet;

use super::{Cluster, Metrics, StorageClass, register::Registrar};

/// A guest starts in seconds from an existing disk, and in minutes when its image is imported.
const START_BUCKETS: [f64; 12] = [
    5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
];

/// Claims of a storage class that are not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingClaims {
    pub count: i64,
    /// Creation of the oldest one, in Unix seconds.
    pub since: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Wait {
    waits_for: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

/// Not `namespace`: Prometheus sets that label to the operator's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct MachineNamespace {
    machine_namespace: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug)]
pub(super) struct Series {
    start_duration: Family<Cluster, Histogram>,
    phase_oldest: GaugeSet<Phase>,
    wait_oldest: GaugeSet<Wait>,
    claims_pending: GaugeSet<StorageClass>,
    claim_oldest: GaugeSet<StorageClass>,
    orphaned_disks: GaugeSet<MachineNamespace>,
}

impl Metrics {
    /// Counts a guest that runs for the first time, this long after its Machine was created.
    pub fn machine_started(&self, duration: Duration) {
        let started = &self.series.fleet.start_duration;
        let started = started.get_or_create(&self.cluster);
        started.observe(duration.as_secs_f64());
    }

    /// Replaces, by phase, since when the Machine that has been in it for longest is in it, in Unix
    /// seconds.
    pub fn set_oldest_in_phase(&self, since: &BTreeMap<&'static str, i64>) {
        let since = since.iter().map(|(phase, since)| {
            let cluster = self.cluster.clone();
            (Phase { phase, cluster }, *since)
        });
        let is_own = |labels: &Phase| labels.cluster == self.cluster;
        let oldest = &self.series.fleet.phase_oldest;
        oldest.replace_part(since, i64::min, is_own);
    }

    /// Replaces, by what Machines wait for, since when the one that has waited for longest waits, in
    /// Unix seconds.
    pub fn set_oldest_waiting(&self, since: &BTreeMap<&'static str, i64>) {
        let since = since.iter().map(|(waits_for, since)| {
            let cluster = self.cluster.clone();
            (Wait { waits_for, cluster }, *since)
        });
        let is_own = |labels: &Wait| labels.cluster == self.cluster;
        let oldest = &self.series.fleet.wait_oldest;
        oldest.replace_part(since, i64::min, is_own);
    }

    /// Replaces the claims that are not bound, by storage class.
    pub fn set_pending_claims(&self, pending: &BTreeMap<String, PendingClaims>) {
        let pending: Vec<_> = pending
            .iter()
            .map(|(class, pending)| {
                let storage_class = self.names.storage_classes.label(class);
                let cluster = self.cluster.clone();
                let labels = StorageClass {
                    storage_class,
                    cluster,
                };
                (labels, *pending)
            })
            .collect();
        let counts = pending
            .iter()
            .map(|(class, pending)| (class.clone(), pending.count));
        let since = pending
            .iter()
            .map(|(class, pending)| (class.clone(), pending.since));
        let series = &self.series.fleet;
        let is_own = |labels: &StorageClass| labels.cluster == self.cluster;
        let pending = &series.claims_pending;
        pending.replace_part(counts, i64::saturating_add, is_own);
        series.claim_oldest.replace_part(since, i64::min, is_own);
    }

    /// Replaces the numbers of disks whose Machine is gone, by namespace.
    pub fn set_orphaned_disks(&self, counts: &BTreeMap<String, i64>) {
        let namespaces = &self.names.machine_namespaces;
        namespaces.retain(|name| counts.contains_key(name));
        let counts = counts.iter().map(|(namespace, count)| {
            let labels = MachineNamespace {
                machine_namespace: namespaces.label(namespace),
                cluster: self.cluster.clone(),
            };
            (labels, *count)
        });
        let is_own = |labels: &MachineNamespace| labels.cluster == self.cluster;
        let disks = &self.series.fleet.orphaned_disks;
        disks.replace_part(counts, i64::saturating_add, is_own);
    }
}

impl Series {
    pub(super) fn new(operator: &mut Registrar<'_>) -> Self {
        Self {
            start_duration: {
                let durations: Family<Cluster, Histogram> = operator.histograms(
                    "machine_start_duration_seconds",
                    "Time from the creation of a Machine until its guest runs for the first time",
                    || Histogram::new(START_BUCKETS),
                );
                drop(durations.get_or_create(&Cluster::default()));
                durations
            },
            phase_oldest: operator.metric(
                "machine_phase_oldest_timestamp_seconds",
                "Since when the Machine that has been in a phase for longest is in it without progress",
            ),
            wait_oldest: operator.metric(
                "machine_waiting_oldest_timestamp_seconds",
                "Since when the Machine that has waited for longest waits",
            ),
            claims_pending: operator
                .metric("claims_pending", "Claims of Machines that are not bound"),
            claim_oldest: operator.metric(
                "claim_pending_oldest_timestamp_seconds",
                "Creation of the oldest claim of a Machine that is not bound",
            ),
            orphaned_disks: operator.metric(
                "orphaned_disks",
                "Claims and DataVolumes whose Machine is gone and that are not retained",
            ),
        }
    }
}
