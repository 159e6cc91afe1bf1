//! What the KubeVirt operator counts.
//!
//! Leading, ready and the requests have the names of KubeVirt's own operator, so that its dashboards
//! and alerts go on; the rest is ours.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{
    REQUEST, Validity, certificates, exposition,
    labels::{Build, Names},
    process, set,
};

/// All metrics of the process. A clone counts into the same series.
#[derive(Clone, Debug)]
pub struct InstallationMetrics {
    registry: Arc<Registry>,
    shown: Arc<Mutex<Shown>>,
    host: Arc<str>,
    series: Series,
}

/// The labels that have a series.
#[derive(Debug, Default)]
struct Shown {
    resources: Names,
    steps: Vec<Step>,
    certificates: certificates::Shown,
    conditions: Vec<Condition>,
    installed: Vec<Installed>,
}

/// What the KubeVirt resource says of the installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// Deploying, Deployed, Deleting or Deleted.
    pub phase: String,
    /// The version that is wanted.
    pub target_version: String,
    /// The version that runs.
    pub observed_version: String,
    /// Whether each of its conditions holds.
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
    conditions: Family<Condition, Gauge>,
    installed: Family<Installed, Gauge>,
    step: Family<Step, Gauge>,
    stalled: Gauge,
    stalled_since: Gauge<f64, AtomicU64>,
    certificates: certificates::Series,
    build_info: Family<Build, Gauge>,
}

impl InstallationMetrics {
    /// Metrics of the program's `version`, which speaks to the API server at `host`.
    pub fn new(version: &'static str, host: &str) -> Self {
        let series = Series {
            leading: Gauge::default(),
            ready: Gauge::default(),
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(REQUEST)),
            conditions: Family::default(),
            installed: Family::default(),
            step: Family::default(),
            stalled: Gauge::default(),
            stalled_since: Gauge::default(),
            certificates: certificates::Series::default(),
            build_info: Family::default(),
        };
        series.build_info.get_or_create(&Build { version }).set(1);
        Self {
            registry: Arc::new(series.registry()),
            shown: Arc::default(),
            host: host.into(),
            series,
        }
    }

    /// Whether this process is the one that acts.
    pub fn set_leader(&self, leads: bool) {
        self.series.leading.set(i64::from(leads));
    }

    /// Whether this process knows the cluster, and could take the lead.
    pub fn set_ready(&self, ready: bool) {
        self.series.ready.set(i64::from(ready));
    }

    /// The API server answered a request with `code`, or not at all, after so long.
    pub fn api_request(
        &self,
        verb: &'static str,
        resource: &str,
        code: Option<u16>,
        took: Duration,
    ) {
        let resource = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.resources.shown(resource)
        };
        self.series
            .latency
            .get_or_create(&Latency {
                verb,
                resource: resource.clone(),
            })
            .observe(took.as_secs_f64());
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
                // As client-go's own counter of requests calls it.
                code: code.map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
                method,
                host: self.host.to_string(),
                resource,
                verb,
            })
            .inc();
    }

    /// The step that is under way; none when nothing is asked for.
    pub fn set_step(&self, step: Option<&str>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = step.map(|step| {
            (
                Step {
                    step: step.to_owned(),
                },
                1,
            )
        });
        set(&self.series.step, &mut shown.steps, labels.into_iter());
    }

    /// Since when the step takes longer than it should, in seconds of the epoch, if it does.
    pub fn set_stalled(&self, since: Option<f64>) {
        self.series.stalled.set(i64::from(since.is_some()));
        self.series.stalled_since.set(since.unwrap_or_default());
    }

    /// Shows how long these certificates are valid, by their Secrets, and no others.
    pub fn set_certificates(&self, certificates: &BTreeMap<String, Validity>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        self.series
            .certificates
            .set(&mut shown.certificates, certificates);
    }

    /// Shows what the KubeVirt resource says; nothing when there is none.
    pub fn set_installation(&self, installation: Option<&Installation>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let conditions = installation.into_iter().flat_map(|told| &told.conditions);
        let conditions = conditions.map(|(condition, holds)| {
            let condition = condition.clone();
            (Condition { condition }, i64::from(*holds))
        });
        set(&self.series.conditions, &mut shown.conditions, conditions);
        let installed = installation.map(|told| {
            let installed = Installed {
                phase: told.phase.clone(),
                target_version: told.target_version.clone(),
                observed_version: told.observed_version.clone(),
            };
            (installed, 1)
        });
        set(
            &self.series.installed,
            &mut shown.installed,
            installed.into_iter(),
        );
    }

    /// All series in the text format that every Prometheus reads ([`super::CONTENT_TYPE`]).
    pub fn expose(&self) -> String {
        exposition::text(&self.registry)
    }
}

impl Series {
    /// Counters get their `_total` from the encoder, and all descriptions their full stop.
    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "kubevirt_virt_operator_leading_status",
            "Whether this process is the one that acts",
            self.leading.clone(),
        );
        registry.register(
            "kubevirt_virt_operator_ready_status",
            "Whether this process is ready to take the lead",
            self.ready.clone(),
        );
        registry.register(
            "kubevirt_rest_client_requests",
            "Requests to the API server by the code of its answer",
            self.requests.clone(),
        );
        registry.register(
            "kubevirt_rest_client_request_latency_seconds",
            "How long the API server took to answer, watches until they began",
            self.latency.clone(),
        );
        let operator = registry.sub_registry_with_prefix("kubevirt_virt_operator");
        operator.register(
            "kubevirt_condition",
            "Whether a condition of the KubeVirt resource holds",
            self.conditions.clone(),
        );
        operator.register(
            "kubevirt_info",
            "Always 1, labelled with the phase and the versions of the KubeVirt resource",
            self.installed.clone(),
        );
        operator.register(
            "step_info",
            "Always 1, labelled with the step of the installation that is under way",
            self.step.clone(),
        );
        operator.register(
            "stalled",
            "Whether the step that is under way takes longer than it should",
            self.stalled.clone(),
        );
        operator.register(
            "stalled_since_timestamp_seconds",
            "Since when the step takes longer than it should, 0 if it does not",
            self.stalled_since.clone(),
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
