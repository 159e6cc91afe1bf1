//! What is counted, and how Prometheus reads it.
//!
//! Names, types and labels of the first six are the reference's. Guaranteed: a metric does not get
//! more series without end as the cluster grows. What the program names is a `&'static str`; of
//! what others name (templates, storage classes, networks) the first [`DISTINCT`] have a series of
//! their own, and all further ones share the one named [`OTHER`].

mod certificates;
mod exposition;
mod fleet;
mod installation;
mod labels;
mod process;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

pub use certificates::Validity;
pub use fleet::Pending;
pub use installation::{Installation, InstallationMetrics};
use labels::{
    Admission, ApiRequest, Build, Controller, ControllerError, ControllerResult, Machine, Names,
    Network, StorageClass, Verb, VirtualMachine,
};

/// How many names of one kind have a series of their own.
pub const DISTINCT: usize = 100;

/// The name under which all further ones are counted.
pub const OTHER: &str = "other";

/// Content type of what [`Metrics::expose`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most reconciles take milliseconds; one that waits for a slow API server takes its timeout.
const RECONCILIATION: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// Binding an empty volume takes seconds, the import of a large image the better part of an hour.
const STORAGE: [f64; 12] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];

/// Most answers come within milliseconds; a call that gets none ends with its timeout of 15 seconds.
const REQUEST: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];

/// All metrics of the process. A clone counts into the same series.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    names: Arc<Mutex<Shown>>,
    series: Series,
}

/// The names of others that have a series of their own.
#[derive(Debug, Default)]
struct Shown {
    templates: Names,
    statuses: Names,
    storage_classes: Names,
    networks: Names,
    resources: Names,
    machines: Vec<Machine>,
    virtual_machines: Vec<VirtualMachine>,
    fleet: fleet::Shown,
    certificates: certificates::Shown,
}

#[derive(Clone, Debug)]
struct Series {
    machines: Family<Machine, Gauge>,
    reconciliation_duration: Family<Controller, Histogram>,
    reconciliation_errors: Family<ControllerError, Counter>,
    virtual_machines: Family<VirtualMachine, Gauge>,
    storage_provisioning_duration: Family<StorageClass, Histogram>,
    network_configuration_errors: Family<Network, Counter>,
    reconciliations: Family<ControllerResult, Counter>,
    slow_reconciliations: Family<Controller, Counter>,
    api_requests: Family<ApiRequest, Counter>,
    api_request_duration: Family<Verb, Histogram>,
    fleet: fleet::Series,
    admission_requests: Family<Admission, Counter>,
    queue_depth: Gauge,
    leader: Gauge,
    certificates: certificates::Series,
    build_info: Family<Build, Gauge>,
}

impl Metrics {
    /// Metrics of the program's `version`, with nothing counted yet.
    pub fn new(version: &'static str) -> Self {
        let series = Series {
            machines: Family::default(),
            reconciliation_duration: Family::new_with_constructor(|| {
                Histogram::new(RECONCILIATION)
            }),
            reconciliation_errors: Family::default(),
            virtual_machines: Family::default(),
            storage_provisioning_duration: Family::new_with_constructor(|| Histogram::new(STORAGE)),
            network_configuration_errors: Family::default(),
            reconciliations: Family::default(),
            slow_reconciliations: Family::default(),
            api_requests: Family::default(),
            api_request_duration: Family::new_with_constructor(|| Histogram::new(REQUEST)),
            fleet: fleet::Series::default(),
            admission_requests: Family::default(),
            queue_depth: Gauge::default(),
            leader: Gauge::default(),
            certificates: certificates::Series::default(),
            build_info: Family::default(),
        };
        series.build_info.get_or_create(&Build { version }).set(1);
        Self {
            registry: Arc::new(series.registry()),
            names: Arc::default(),
            series,
        }
    }

    /// A reconcile by `controller` ended with `result` and took `duration`.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, duration: Duration) {
        self.series
            .reconciliations
            .get_or_create(&ControllerResult { controller, result })
            .inc();
        self.series
            .reconciliation_duration
            .get_or_create(&Controller { controller })
            .observe(duration.as_secs_f64());
    }

    /// A reconcile by `controller` computed for so long that everything else had to wait for it.
    pub fn slow_reconcile(&self, controller: &'static str) {
        self.series
            .slow_reconciliations
            .get_or_create(&Controller { controller })
            .inc();
    }

    /// A reconcile by `controller` met an error of this type.
    pub fn error(&self, controller: &'static str, error_type: &'static str) {
        self.series
            .reconciliation_errors
            .get_or_create(&ControllerError {
                controller,
                error_type,
            })
            .inc();
    }

    /// Shows these numbers of machines, by phase and template, and no others.
    pub fn set_machines(&self, counts: &BTreeMap<(String, String), i64>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown {
            templates,
            machines,
            ..
        } = &mut *shown;
        let used: BTreeSet<&str> = counts.keys().map(|(_, template)| &**template).collect();
        templates.retain(|name| used.contains(name));
        let counts = counts.iter().map(|((phase, template), count)| {
            let labels = Machine {
                phase: phase.clone(),
                template: templates.shown(template),
            };
            (labels, *count)
        });
        set(&self.series.machines, machines, counts);
    }

    /// Shows these numbers of VirtualMachines, by status, and no others.
    pub fn set_virtual_machines(&self, counts: &BTreeMap<String, i64>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown {
            statuses,
            virtual_machines,
            ..
        } = &mut *shown;
        statuses.retain(|name| counts.contains_key(name));
        let counts = counts.iter().map(|(status, count)| {
            let labels = VirtualMachine {
                status: statuses.shown(status),
            };
            (labels, *count)
        });
        set(&self.series.virtual_machines, virtual_machines, counts);
    }

    /// A volume of this class was provisioned in `duration`.
    pub fn storage_provisioned(&self, storage_class: &str, duration: Duration) {
        let storage_class = self.name(|shown| shown.storage_classes.shown(storage_class));
        self.series
            .storage_provisioning_duration
            .get_or_create(&StorageClass { storage_class })
            .observe(duration.as_secs_f64());
    }

    /// This network could not be configured.
    pub fn network_error(&self, network_name: &str) {
        let network_name = self.name(|shown| shown.networks.shown(network_name));
        self.series
            .network_configuration_errors
            .get_or_create(&Network { network_name })
            .inc();
    }

    /// The API server answered a request with `code`, or not at all, after so long.
    pub fn api_request(
        &self,
        verb: &'static str,
        resource: &str,
        code: Option<u16>,
        took: Duration,
    ) {
        self.series
            .api_request_duration
            .get_or_create(&Verb { verb })
            .observe(took.as_secs_f64());
        let resource = self.name(|shown| shown.resources.shown(resource));
        // As client-go's own counter of requests calls it.
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.series
            .api_requests
            .get_or_create(&ApiRequest {
                verb,
                resource,
                code,
            })
            .inc();
    }

    /// A webhook was asked about a change to `resource` and came to `verdict`.
    pub fn admission(&self, resource: &'static str, verdict: &'static str) {
        self.series
            .admission_requests
            .get_or_create(&Admission { resource, verdict })
            .inc();
    }

    /// So many objects wait to be reconciled.
    pub fn set_queue_depth(&self, depth: usize) {
        self.series
            .queue_depth
            .set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// Whether this process is the one that acts.
    pub fn set_leader(&self, leads: bool) {
        self.series.leader.set(i64::from(leads));
    }

    /// Shows how long these certificates are valid, by their Secrets, and no others.
    pub fn set_certificates(&self, certificates: &BTreeMap<String, Validity>) {
        let mut shown = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.series
            .certificates
            .set(&mut shown.certificates, certificates);
    }

    /// All series in the text format that every Prometheus reads ([`CONTENT_TYPE`]).
    pub fn expose(&self) -> String {
        exposition::text(&self.registry)
    }

    fn name(&self, of: impl FnOnce(&mut Shown) -> String) -> String {
        of(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes `family` show the sums of `counts`, and forgets of `before` what is not among them.
fn set<L>(family: &Family<L, Gauge>, before: &mut Vec<L>, counts: impl Iterator<Item = (L, i64)>)
where
    L: Clone + Eq + Ord + std::hash::Hash,
{
    set_merged(family, before, counts, i64::saturating_add);
}

/// The same, where labels that come more than once show what `merge` makes of their values.
fn set_merged<L>(
    family: &Family<L, Gauge>,
    before: &mut Vec<L>,
    values: impl Iterator<Item = (L, i64)>,
    merge: fn(i64, i64) -> i64,
) where
    L: Clone + Eq + Ord + std::hash::Hash,
{
    let mut merged: BTreeMap<L, i64> = BTreeMap::new();
    for (labels, value) in values {
        merged
            .entry(labels)
            .and_modify(|held| *held = merge(*held, value))
            .or_insert(value);
    }
    for labels in before.drain(..) {
        if !merged.contains_key(&labels) {
            family.remove(&labels);
        }
    }
    for (labels, value) in merged {
        family.get_or_create(&labels).set(value);
        before.push(labels);
    }
}

impl Series {
    /// Counters get their `_total` from the encoder, and all descriptions their full stop.
    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let operator = registry.sub_registry_with_prefix("kubevirt_operator");
        operator.register(
            "machines_total",
            "Machines by phase and template",
            self.machines.clone(),
        );
        operator.register(
            "reconciliation_duration_seconds",
            "How long reconciles took",
            self.reconciliation_duration.clone(),
        );
        operator.register(
            "reconciliation_errors",
            "Errors that reconciles met",
            self.reconciliation_errors.clone(),
        );
        operator.register(
            "virtual_machines_total",
            "VirtualMachines of Machines by status",
            self.virtual_machines.clone(),
        );
        operator.register(
            "storage_provisioning_duration_seconds",
            "From the request for a volume until it was bound and filled",
            self.storage_provisioning_duration.clone(),
        );
        operator.register(
            "network_configuration_errors",
            "Networks that could not be configured",
            self.network_configuration_errors.clone(),
        );
        operator.register(
            "reconciliations",
            "Reconciles by result",
            self.reconciliations.clone(),
        );
        operator.register(
            "slow_reconciliations",
            "Reconciles that computed for longer than 50 ms",
            self.slow_reconciliations.clone(),
        );
        operator.register(
            "api_requests",
            "Requests to the API server by the code of its answer",
            self.api_requests.clone(),
        );
        operator.register(
            "api_request_duration_seconds",
            "How long the API server took to answer, watches until they began",
            self.api_request_duration.clone(),
        );
        self.fleet.register(operator);
        operator.register(
            "admission_requests",
            "Changes that webhooks were asked about",
            self.admission_requests.clone(),
        );
        operator.register(
            "queue_depth",
            "Objects that wait to be reconciled",
            self.queue_depth.clone(),
        );
        operator.register(
            "leader",
            "Whether this process is the one that acts",
            self.leader.clone(),
        );
        self.certificates.register(operator);
        operator.register(
            "build_info",
            "Always 1, labelled with the version that runs",
            self.build_info.clone(),
        );
        registry.register_collector(Box::new(process::Process));
        registry
    }
}
