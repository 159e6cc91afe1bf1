//! Registration of metrics under a prefix, and the metrics that both operators have.

use std::hash::Hash;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};
use runtime::metrics::{CertificateMetrics, ProcessCollector};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// A registry with the metrics of the process.
pub(super) fn new_registry() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Part of a registry whose names have a prefix. The encoder appends `_total` to counters and a full
/// stop to help texts.
pub(super) struct Registrar<'r>(&'r mut Registry);

impl<'r> Registrar<'r> {
    pub(super) fn new(registry: &'r mut Registry, prefix: &str) -> Self {
        Self(registry.sub_registry_with_prefix(prefix))
    }

    /// Registers a metric.
    pub(super) fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Creates and registers a metric.
    pub(super) fn metric<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.add(name, help, M::default())
    }

    /// Creates and registers a histogram per label.
    pub(super) fn histograms<L>(
        &mut self,
        name: &str,
        help: &str,
        new: fn() -> Histogram,
    ) -> Family<L, Histogram>
    where
        Family<L, Histogram>: Metric,
        L: Clone + Hash + Eq,
    {
        self.add(name, help, Family::new_with_constructor(new))
    }

    pub(super) fn certificates(&mut self) -> CertificateMetrics {
        CertificateMetrics::registered(self.0)
    }

    pub(super) fn build_info(&mut self, version: &'static str) {
        let help = "Always 1, labelled with the version of the program";
        let build_info: Family<Build, Gauge> = self.metric("build_info", help);
        build_info.get_or_create(&Build { version }).set(1);
    }
}
