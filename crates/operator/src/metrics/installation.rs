//! Metrics of the KubeVirt operator.
//!
//! Leadership, readiness and requests have the names that KubeVirt's own virt-operator gives them, so
//! that its dashboards and alerts keep working.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use runtime::metrics::{BoundedNames, CertificateMetrics, GaugeSet, Validity, expose};

use super::{
    API_LATENCY_HELP, API_REQUESTS_HELP, LEADER_HELP, REQUEST_BUCKETS, code_label,
    register::{Registrar, new_registry},
};

/// Metrics of a KubeVirt operator. Clones share their series.
#[derive(Clone, Debug)]
pub struct InstallationMetrics {
    registry: Arc<Registry>,
    resources: BoundedNames,
    host: Arc<str>,
    series: Arc<Series>,
}

/// Status of the KubeVirt resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    pub phase: String,
    pub target_version: String,
    pub observed_version: String,
    /// Whether each condition is true.
    pub conditions: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Step {
    step: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Condition {
    condition: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Installed {
    phase: String,
    target_version: String,
    observed_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Latency {
    verb: &'static str,
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    code: String,
    method: &'static str,
    host: String,
    resource: String,
    verb: &'static str,
}

#[derive(Clone, Debug)]
struct Series {
    leading: Gauge,
    ready: Gauge,
    requests: Family<Request, Counter>,
    latency: Family<Latency, Histogram>,
    conditions: GaugeSet<Condition>,
    installed: GaugeSet<Installed>,
    step: GaugeSet<Step>,
    stalled: Gauge,
    stalled_since: Gauge<f64, AtomicU64>,
    certificates: CertificateMetrics,
}

impl InstallationMetrics {
    /// Metrics of this `version` of the program, whose API server is at `host`.
    pub fn new(version: &'static str, host: &str) -> Self {
        let mut registry = new_registry();
        let series = Series::new(&mut registry, version);
        Self {
            registry: Arc::new(registry),
            resources: BoundedNames::default(),
            host: host.into(),
            series: Arc::new(series),
        }
    }

    pub fn set_leader(&self, is_leader: bool) {
        self.series.leading.set(i64::from(is_leader));
    }

    /// Whether the caches are synced, so that this process can lead.
    pub fn set_ready(&self, ready: bool) {
        self.series.ready.set(i64::from(ready));
    }

    /// Counts a request to the API server. Without an answer there is no `code`.
    pub fn api_request(
        &self,
        verb: &'static str,
        resource: &str,
        code: Option<u16>,
        duration: Duration,
    ) {
        let resource = self.resources.label(resource);
        self.series
            .latency
            .get_or_create(&Latency {
                verb,
                resource: resource.clone(),
            })
            .observe(duration.as_secs_f64());
        let method = match verb {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        self.series
            .requests
            .get_or_create(&Request {
                code: code_label(code),
                method,
                host: self.host.to_string(),
                resource,
                verb,
            })
            .inc();
    }

    /// Replaces the current step of the installation.
    pub fn set_step(&self, step: Option<&str>) {
        let step = step.map(str::to_owned);
        self.series
            .step
            .replace(step.map(|step| (Step { step }, 1)));
    }

    /// Since when the current step exceeds its deadline, in Unix seconds, if it does.
    pub fn set_stalled(&self, since: Option<f64>) {
        self.series.stalled.set(i64::from(since.is_some()));
        self.series.stalled_since.set(since.unwrap_or_default());
    }

    /// Replaces the certificates that are exposed, by their Secrets.
    pub fn set_certificates(&self, certificates: &BTreeMap<String, Validity>) {
        self.series.certificates.replace(certificates);
    }

    /// Replaces the status of the KubeVirt resource; without one there are no series.
    pub fn set_installation(&self, installation: Option<&Installation>) {
        let conditions = installation
            .into_iter()
            .flat_map(|installation| &installation.conditions);
        let conditions = conditions.map(|(condition, is_true)| {
            let condition = condition.clone();
            (Condition { condition }, i64::from(*is_true))
        });
        self.series.conditions.replace(conditions);
        let installed = installation.map(|installation| Installed {
            phase: installation.phase.clone(),
            target_version: installation.target_version.clone(),
            observed_version: installation.observed_version.clone(),
        });
        let installed = installed.map(|installed| (installed, 1));
        self.series.installed.replace(installed);
    }

    /// All series in the Prometheus text format.
    pub fn expose(&self) -> String {
        expose(&self.registry)
    }
}

impl Series {
    fn new(registry: &mut Registry, version: &'static str) -> Self {
        let mut kubevirt = Registrar::new(registry, "kubevirt");
        let leading = kubevirt.metric("virt_operator_leading_status", LEADER_HELP);
        let ready = kubevirt.metric(
            "virt_operator_ready_status",
            "Whether this process is ready to lead",
        );
        let requests = kubevirt.metric("rest_client_requests", API_REQUESTS_HELP);
        let latency = kubevirt.histograms(
            "rest_client_request_latency_seconds",
            API_LATENCY_HELP,
            || Histogram::new(REQUEST_BUCKETS),
        );
        let mut operator = Registrar::new(registry, "kubevirt_virt_operator");
        operator.build_info(version);
        Self {
            leading,
            ready,
            requests,
            latency,
            conditions: operator.metric(
                "kubevirt_condition",
                "Whether a condition of the KubeVirt resource is true",
            ),
            installed: operator.metric(
                "kubevirt_info",
                "Always 1, labelled with the phase and the versions of the KubeVirt resource",
            ),
            step: operator.metric(
                "step_info",
                "Always 1, labelled with the current step of the installation",
            ),
            stalled: operator.metric("stalled", "Whether the current step exceeds its deadline"),
            stalled_since: operator.metric(
                "stalled_since_timestamp_seconds",
                "Since when the current step exceeds its deadline, 0 if it does not",
            ),
            certificates: operator.certificates(),
        }
    }
}
