//! Prometheus metrics of the Machine operator, and in `installation` of the KubeVirt operator.
//!
//! The specification gives names, types and labels of the first six. The number of series is bounded:
//! label values are constants of the program, or [`BoundedNames`].

mod fleet;
mod installation;
mod register;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, LabelSetEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use register::{Registrar, new_registry};
use runtime::metrics::{BoundedNames, CertificateMetrics, GaugeSet, Validity, expose};

pub use fleet::PendingClaims;
pub use installation::{Installation, InstallationMetrics};

/// Most reconciles take milliseconds; one that waits for a slow API server takes its timeout.
const RECONCILIATION_BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// Binding an empty volume takes seconds, importing a large image up to an hour.
const STORAGE_BUCKETS: [f64; 12] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];

/// Most requests take milliseconds; one without an answer ends with its timeout of 15 seconds.
const REQUEST_BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];

/// client-go's label value of a request without an answer.
const NO_ANSWER: &str = "<error>";

const API_REQUESTS_HELP: &str = "Requests to the API server by status code";
const API_LATENCY_HELP: &str =
    "Latency of requests to the API server; of watches, until the response starts";
const LEADER_HELP: &str = "Whether this process is the leader";

/// Cluster of virtual machines, as the label `workload_cluster`. That of the Machines has none. Not
/// `cluster`: Prometheus sets that label to the cluster of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Cluster(Option<Arc<str>>);

impl EncodeLabelSet for Cluster {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(name) => [("workload_cluster", &**name)].encode(encoder),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Machine {
    phase: String,
    template: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct VirtualMachine {
    status: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerError {
    controller: &'static str,
    error_type: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerResult {
    controller: &'static str,
    result: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct StorageClass {
    storage_class: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Network {
    network_name: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiRequest {
    verb: &'static str,
    resource: String,
    code: String,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Admission {
    resource: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct OrphanedKind {
    kind: &'static str,
    #[prometheus(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Definition {
    definition: &'static str,
}

/// Metrics of a Machine operator. Clones share their series.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    names: Arc<Names>,
    series: Arc<Series>,
    cluster: Cluster,
}

/// Label values that users choose.
#[derive(Clone, Debug, Default)]
struct Names {
    templates: BoundedNames,
    statuses: BoundedNames,
    storage_classes: BoundedNames,
    networks: BoundedNames,
    resources: BoundedNames,
    machine_namespaces: BoundedNames,
}

#[derive(Clone, Debug)]
struct Series {
    machines: GaugeSet<Machine>,
    reconciliation_duration: Family<Controller, Histogram>,
    reconciliation_errors: Family<ControllerError, Counter>,
    virtual_machines: GaugeSet<VirtualMachine>,
    storage_provisioning_duration: Family<StorageClass, Histogram>,
    network_configuration_errors: Family<Network, Counter>,
    reconciliations: Family<ControllerResult, Counter>,
    slow_reconciliations: Family<Controller, Counter>,
    api_requests: Family<ApiRequest, Counter>,
    api_request_duration: Family<Verb, Histogram>,
    fleet: fleet::Series,
    admission_requests: Family<Admission, Counter>,
    queue_depth: Family<Cluster, Gauge>,
    cluster_reachable: Family<Cluster, Gauge>,
    orphaned_objects: GaugeSet<OrphanedKind>,
    leader: Gauge,
    unserved_fields: Family<Definition, Gauge>,
    certificates: CertificateMetrics,
}

impl Metrics {
    /// Metrics of this `version` of the program.
    pub fn new(version: &'static str) -> Self {
        let mut registry = new_registry();
        let series = Series::new(&mut registry, version);
        Self {
            registry: Arc::new(registry),
            names: Arc::default(),
            series: Arc::new(series),
            cluster: Cluster::default(),
        }
    }

    /// The same metrics, of the Machines with virtual machines in another cluster.
    #[must_use]
    pub fn of_cluster(&self, name: &str) -> Self {
        Self {
            registry: Arc::clone(&self.registry),
            names: Arc::default(),
            series: Arc::clone(&self.series),
            cluster: Cluster(Some(name.into())),
        }
    }

    /// Sets whether the API server of this cluster answers, and removes what is known of one that is gone.
    pub fn set_cluster_reachable(&self, is_reachable: Option<bool>) {
        let reachable = &self.series.cluster_reachable;
        match is_reachable {
            Some(is_reachable) => {
                reachable
                    .get_or_create(&self.cluster)
                    .set(i64::from(is_reachable));
            }
            None => {
                reachable.remove(&self.cluster);
            }
        }
    }

    /// Replaces the numbers of objects in this cluster whose Machine is gone, by kind.
    pub fn set_orphaned_objects(&self, counts: &BTreeMap<&'static str, i64>) {
        let counts = counts.iter().map(|(kind, count)| {
            let cluster = self.cluster.clone();
            (OrphanedKind { kind, cluster }, *count)
        });
        let is_own = |labels: &OrphanedKind| labels.cluster == self.cluster;
        self.series
            .orphaned_objects
            .replace_part(counts, i64::saturating_add, is_own);
    }

    /// Removes the gauges of a cluster that is not served any longer.
    pub fn forget_cluster(&self) {
        self.set_machines(&BTreeMap::new());
        self.set_virtual_machines(&BTreeMap::new());
        self.set_oldest_in_phase(&BTreeMap::new());
        self.set_oldest_waiting(&BTreeMap::new());
        self.set_pending_claims(&BTreeMap::new());
        self.set_orphaned_disks(&BTreeMap::new());
        self.set_orphaned_objects(&BTreeMap::new());
        self.series.queue_depth.remove(&self.cluster);
        self.set_cluster_reachable(None);
    }

    /// Counts a reconcile by `controller` that ended with `result`.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, duration: Duration) {
        self.series
            .reconciliations
            .get_or_create(&ControllerResult {
                controller,
                result,
                cluster: self.cluster.clone(),
            })
            .inc();
        self.series
            .reconciliation_duration
            .get_or_create(&Controller {
                controller,
                cluster: self.cluster.clone(),
            })
            .observe(duration.as_secs_f64());
    }

    /// Counts a reconcile by `controller` whose computation blocked the control loop.
    pub fn slow_reconcile(&self, controller: &'static str) {
        self.series
            .slow_reconciliations
            .get_or_create(&Controller {
                controller,
                cluster: self.cluster.clone(),
            })
            .inc();
    }

    /// Counts an error of a reconcile by `controller`.
    pub fn error(&self, controller: &'static str, error_type: &'static str) {
        self.series
            .reconciliation_errors
            .get_or_create(&ControllerError {
                controller,
                error_type,
                cluster: self.cluster.clone(),
            })
            .inc();
    }

    /// Replaces the numbers of Machines, by phase and template.
    pub fn set_machines(&self, counts: &BTreeMap<(String, String), i64>) {
        let templates = &self.names.templates;
        let used: BTreeSet<&str> = counts.keys().map(|(_, template)| &**template).collect();
        templates.retain(|name| used.contains(name));
        let counts = counts.iter().map(|((phase, template), count)| {
            let labels = Machine {
                phase: phase.clone(),
                template: templates.label(template),
                cluster: self.cluster.clone(),
            };
            (labels, *count)
        });
        let is_own = |labels: &Machine| labels.cluster == self.cluster;
        self.series
            .machines
            .replace_part(counts, i64::saturating_add, is_own);
    }

    /// Replaces the numbers of VirtualMachines, by status.
    pub fn set_virtual_machines(&self, counts: &BTreeMap<String, i64>) {
        let statuses = &self.names.statuses;
        statuses.retain(|name| counts.contains_key(name));
        let counts = counts.iter().map(|(status, count)| {
            let status = statuses.label(status);
            (
                VirtualMachine {
                    status,
                    cluster: self.cluster.clone(),
                },
                *count,
            )
        });
        let is_own = |labels: &VirtualMachine| labels.cluster == self.cluster;
        self.series
            .virtual_machines
            .replace_part(counts, i64::saturating_add, is_own);
    }

    /// Counts a volume that was provisioned.
    pub fn storage_provisioned(&self, storage_class: &str, duration: Duration) {
        let storage_class = self.names.storage_classes.label(storage_class);
        self.series
            .storage_provisioning_duration
            .get_or_create(&StorageClass {
                storage_class,
                cluster: self.cluster.clone(),
            })
            .observe(duration.as_secs_f64());
    }

    /// Counts a network that could not be configured.
    pub fn network_error(&self, network_name: &str) {
        let network_name = self.names.networks.label(network_name);
        self.series
            .network_configuration_errors
            .get_or_create(&Network {
                network_name,
                cluster: self.cluster.clone(),
            })
            .inc();
    }

    /// Counts a request to the API server. Without an answer there is no `code`.
    pub fn api_request(
        &self,
        verb: &'static str,
        resource: &str,
        code: Option<u16>,
        duration: Duration,
    ) {
        self.series
            .api_request_duration
            .get_or_create(&Verb {
                verb,
                cluster: self.cluster.clone(),
            })
            .observe(duration.as_secs_f64());
        let resource = self.names.resources.label(resource);
        let code = code_label(code);
        self.series
            .api_requests
            .get_or_create(&ApiRequest {
                verb,
                resource,
                code,
                cluster: self.cluster.clone(),
            })
            .inc();
    }

    /// Counts an admission review of a change to `resource`.
    pub fn admission(&self, resource: &'static str, verdict: &'static str) {
        self.series
            .admission_requests
            .get_or_create(&Admission { resource, verdict })
            .inc();
    }

    pub fn set_queue_depth(&self, depth: usize) {
        self.series
            .queue_depth
            .get_or_create(&self.cluster)
            .set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub fn set_leader(&self, is_leader: bool) {
        self.series.leader.set(i64::from(is_leader));
    }

    /// Sets the number of the operator's fields that a CustomResourceDefinition lacks.
    pub fn set_unserved_fields(&self, definition: &'static str, count: usize) {
        self.series
            .unserved_fields
            .get_or_create(&Definition { definition })
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Replaces the certificates that are exposed, by their Secrets.
    pub fn set_certificates(&self, certificates: &BTreeMap<String, Validity>) {
        self.series.certificates.replace(certificates);
    }

    /// All series in the Prometheus text format.
    pub fn expose(&self) -> String {
        expose(&self.registry)
    }
}

/// A family that has its series without labels from the start.
fn initialized(family: Family<Cluster, Gauge>) -> Family<Cluster, Gauge> {
    family.get_or_create(&Cluster::default()).set(0);
    family
}

fn code_label(code: Option<u16>) -> String {
    code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string())
}

impl Series {
    fn new(registry: &mut Registry, version: &'static str) -> Self {
        let mut operator = Registrar::new(registry, "kubevirt_operator");
        operator.build_info(version);
        Self {
            machines: operator.metric("machines_total", "Machines by phase and template"),
            reconciliation_duration: operator.histograms(
                "reconciliation_duration_seconds",
                "Duration of reconciles",
                || Histogram::new(RECONCILIATION_BUCKETS),
            ),
            reconciliation_errors: operator
                .metric("reconciliation_errors", "Errors of reconciles by type"),
            virtual_machines: operator.metric(
                "virtual_machines_total",
                "VirtualMachines of Machines by status",
            ),
            storage_provisioning_duration: operator.histograms(
                "storage_provisioning_duration_seconds",
                "Time from the request for a volume until it is bound and filled",
                || Histogram::new(STORAGE_BUCKETS),
            ),
            network_configuration_errors: operator.metric(
                "network_configuration_errors",
                "Networks that could not be configured",
            ),
            reconciliations: operator.metric("reconciliations", "Reconciles by result"),
            slow_reconciliations: operator.metric(
                "slow_reconciliations",
                "Reconciles whose computation took longer than 50 ms",
            ),
            api_requests: operator.metric("api_requests", API_REQUESTS_HELP),
            api_request_duration: operator.histograms(
                "api_request_duration_seconds",
                API_LATENCY_HELP,
                || Histogram::new(REQUEST_BUCKETS),
            ),
            fleet: fleet::Series::new(&mut operator),
            admission_requests: operator
                .metric("admission_requests", "Admission reviews by verdict"),
            queue_depth: initialized(
                operator.metric("queue_depth", "Objects that are due to be reconciled"),
            ),
            cluster_reachable: operator.metric(
                "cluster_reachable",
                "Whether the operator can act in another cluster of virtual machines",
            ),
            orphaned_objects: operator.metric(
                "orphaned_objects",
                "Objects in another cluster of virtual machines whose Machine is gone",
            ),
            leader: operator.metric("leader", LEADER_HELP),
            unserved_fields: operator.metric(
                "unserved_fields",
                "Fields of the operator that a CustomResourceDefinition lacks",
            ),
            certificates: operator.certificates(),
        }
    }
}
