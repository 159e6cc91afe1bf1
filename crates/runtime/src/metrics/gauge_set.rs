//! Gauges by labels that are replaced as a whole.

use std::{
    collections::BTreeMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric, family::Family, gauge::Gauge},
};

/// Gauges of one name. Labels without a value have no series. Clones share their values.
#[derive(Clone, Debug)]
pub struct GaugeSet<L: Clone + Eq + Hash> {
    family: Family<L, Gauge>,
    labels: Arc<Mutex<Vec<L>>>,
}

impl<L: Clone + Eq + Hash> Default for GaugeSet<L> {
    fn default() -> Self {
        Self {
            family: Family::default(),
            labels: Arc::default(),
        }
    }
}

impl<L> GaugeSet<L>
where
    L: Clone + Eq + Ord + Hash + EncodeLabelSet + fmt::Debug + Send + Sync + 'static,
{
    /// Replaces all values. Values of equal labels are added up.
    pub fn replace(&self, values: impl IntoIterator<Item = (L, i64)>) {
        self.replace_merged(values, i64::saturating_add);
    }

    /// Replaces all values. `merge` combines values of equal labels.
    pub fn replace_merged(
        &self,
        values: impl IntoIterator<Item = (L, i64)>,
        merge: fn(i64, i64) -> i64,
    ) {
        self.replace_part(values, merge, |_| true);
    }

    /// Replaces the values whose labels belong to one part of the set, such as those of one cluster.
    pub fn replace_part(
        &self,
        values: impl IntoIterator<Item = (L, i64)>,
        merge: fn(i64, i64) -> i64,
        is_replaced: impl Fn(&L) -> bool,
    ) {
        let mut merged: BTreeMap<L, i64> = BTreeMap::new();
        for (labels, value) in values {
            merged
                .entry(labels)
                .and_modify(|sum| *sum = merge(*sum, value))
                .or_insert(value);
        }
        let mut current = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        current.retain(|labels| {
            let is_kept = !is_replaced(labels);
            if !is_kept && !merged.contains_key(labels) {
                self.family.remove(labels);
            }
            is_kept
        });
        for (labels, value) in merged {
            self.family.get_or_create(&labels).set(value);
            current.push(labels);
        }
    }
}

impl<L: Clone + Eq + Hash + EncodeLabelSet> EncodeMetric for GaugeSet<L> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        <Gauge as TypedMetric>::TYPE
    }

    fn is_empty(&self) -> bool {
        self.family.is_empty()
    }
}
