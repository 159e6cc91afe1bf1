//! Reports of the Machine controller: log messages, metrics and Events.

mod fleet;

use std::{collections::BTreeMap, time::Duration};

use api::{KubevirtConfig, Machine, core::ObservedClaim, kubevirt::ObservedVirtualMachine};
use fleet::Fleet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use plan::{
    Severity,
    machine::{ClusterProblem, ErrorType, Kind, Plan, Refusal, Step},
};
use runtime::{cache::Delta, events::Recorder};

use super::{
    caches::{Caches, Subject},
    orphans::Orphan,
    packed::Packed,
    paths::Owner,
    watches::Watched,
};
use crate::{events, logs::log_either, metrics::Metrics};

pub(super) struct Report {
    metrics: Metrics,
    recorder: Recorder,
    fleet: Fleet,
    /// Name of another cluster, for Events.
    cluster: Option<String>,
    /// Current errors of each resource, so that each is counted once.
    errors: BTreeMap<Subject, Vec<&'static str>>,
}

impl Report {
    pub(super) fn new(metrics: Metrics, recorder: Recorder) -> Self {
        Self {
            fleet: Fleet::new(metrics.clone()),
            metrics,
            recorder,
            cluster: None,
            errors: BTreeMap::new(),
        }
    }

    /// Reports of another cluster.
    pub(super) fn in_cluster(self, cluster: &str) -> Self {
        Self {
            cluster: Some(cluster.to_owned()),
            ..self
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn queue_depth(&self, depth: usize) {
        self.metrics.set_queue_depth(depth);
    }

    /// Counts a reconcile with an empty plan.
    pub(super) fn unchanged(&self, subject: &Subject, took: Duration) {
        self.metrics
            .reconciled(subject.owner.kind(), "unchanged", took);
    }

    /// Reports that planning one resource blocked the control loop.
    pub(super) fn slow_reconcile(&self, subject: &Subject, elapsed: Duration) {
        let controller = subject.owner.kind();
        self.metrics.slow_reconcile(controller);
        let (machine, network_configuration) = names(subject);
        tracing::warn!(
            controller,
            machine,
            network_configuration,
            namespace = &*subject.key.namespace,
            milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            "slow reconcile: the object or its children are unusually large"
        );
    }

    /// Reports the outcome of a write.
    pub(super) fn written(
        &self,
        subject: &Subject,
        phase: Option<api::Phase>,
        refusal: Option<&Refusal>,
        took: Duration,
    ) {
        let controller = subject.owner.kind();
        let Some(refusal) = refusal else {
            self.metrics.reconciled(controller, "written", took);
            return;
        };
        self.metrics.reconciled(controller, "refused", took);
        self.metrics.error(controller, refusal.error_type.as_str());
        if subject.owner == Owner::Network {
            self.metrics.network_error(&subject.key.name);
        }
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        let phase = phase.map_or("Pending", phase_name);
        let error_type = refusal.error_type.as_str();
        log_either!(
            refusal.is_persistent => warn, else debug,
            controller,
            machine,
            network_configuration,
            namespace,
            phase,
            error_type,
            "{}",
            refusal.message
        );
    }

    pub(super) fn read_refused(&self, subject: &Subject, refusal: &Refusal) {
        self.written(subject, None, Some(refusal), Duration::ZERO);
    }

    /// Logs the writes that are about to be sent.
    pub(super) fn steps(subject: &Subject, phase: Option<api::Phase>, steps: &[Step]) {
        let controller = subject.owner.kind();
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        let phase = machine.map(|_| phase.map_or("Pending", phase_name));
        for step in steps {
            let what = step.action.describe();
            let reason = &step.reason;
            tracing::info!(
                controller,
                machine,
                network_configuration,
                namespace,
                phase,
                "{what}: {reason}"
            );
        }
    }

    /// Counts the errors in a Machine's plan, each once until it is resolved.
    pub(super) fn plan_errors(&mut self, subject: &Subject, plan: &Plan, caches: &Caches) {
        let specs = plan.errors.iter().map(|error| error.error_type);
        let others = plan
            .obstacles
            .iter()
            .filter_map(|obstacle| obstacle.error_type);
        let found: Vec<_> = specs.chain(others).map(ErrorType::as_str).collect();
        let known = self.errors.get(subject);
        for error_type in &found {
            if known.is_none_or(|known| !known.contains(error_type)) {
                self.metrics.error(subject.owner.kind(), error_type);
                if *error_type == ErrorType::NetworkConfigurationNotFound.as_str() {
                    for network in caches.missing_networks(&subject.key) {
                        self.metrics.network_error(&network.name);
                    }
                }
            }
        }
        if found.is_empty() {
            self.errors.remove(subject);
        } else {
            self.errors.insert(subject.clone(), found);
        }
    }

    /// Counts all Machines again, after others have become those of this cluster.
    pub(super) fn recount(&mut self, machines: &[Delta<Machine>]) {
        self.fleet.forget_kind(Watched::Machines);
        self.fleet.machines(machines);
    }

    pub(super) fn reachable(&self, is_reachable: bool) {
        self.metrics.set_cluster_reachable(Some(is_reachable));
    }

    /// Reports whether the operator can act in another cluster, and as an Event if that changed.
    pub(super) fn cluster(
        &self,
        config: &KubevirtConfig,
        problem: Option<&ClusterProblem>,
        is_changed: bool,
    ) {
        let cluster = config.metadata.name.as_deref().unwrap_or_default();
        let event = if let Some(problem) = problem {
            tracing::warn!(cluster, "{}", problem.message);
            plan::Event::warning("ClusterUnavailable", problem.message.clone())
        } else {
            tracing::info!(cluster, "the operator can act in cluster {cluster}");
            let message = "The operator can act in the cluster again".to_owned();
            plan::Event::normal("ClusterAvailable", message)
        };
        if is_changed || problem.is_some() {
            self.publish(config, event);
        }
    }

    /// Publishes an Event on a KubevirtConfig, and logs it.
    pub(super) fn on_config(&self, config: &KubevirtConfig, event: plan::Event) {
        let cluster = config.metadata.name.as_deref();
        tracing::warn!(cluster, reason = event.reason, "{}", event.message);
        self.publish(config, event);
    }

    fn publish(&self, config: &KubevirtConfig, event: plan::Event) {
        let object = ObjectReference {
            api_version: Some(api::API_VERSION.to_owned()),
            kind: Some("KubevirtConfig".to_owned()),
            name: config.metadata.name.clone(),
            uid: config.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        self.recorder.record(events::on(object, event));
    }

    pub(super) fn orphaned_objects(&self, counts: &BTreeMap<&'static str, i64>) {
        self.metrics.set_orphaned_objects(counts);
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.errors.remove(subject);
    }

    /// Resets the metrics of a kind that is no longer served.
    pub(super) fn forget_kind(&mut self, watched: Watched) {
        self.fleet.forget_kind(watched);
    }

    /// Publishes Events on a resource, and logs them.
    pub(super) fn events(&self, subject: &Subject, caches: &Caches, events: Vec<plan::Event>) {
        if events.is_empty() {
            return;
        }
        let (uid, phase) = match subject.owner {
            Owner::Machine => {
                let machine = caches.machines.get(&subject.key);
                let status = machine.and_then(|machine| machine.status.as_ref());
                let phase = status.and_then(|status| status.phase);
                (
                    machine.and_then(|machine| machine.metadata.uid.clone()),
                    Some(phase.map_or("Pending", phase_name)),
                )
            }
            Owner::Network => {
                let network = caches.networks.get(&subject.key);
                (
                    network.and_then(|network| network.metadata.uid.clone()),
                    None,
                )
            }
        };
        let object = ObjectReference {
            api_version: Some(api::API_VERSION.to_owned()),
            kind: Some(subject.owner.kind().to_owned()),
            namespace: Some(subject.key.namespace.to_string()),
            name: Some(subject.key.name.to_string()),
            uid,
            ..ObjectReference::default()
        };
        let controller = subject.owner.kind();
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        for mut event in events {
            if let Some(cluster) = &self.cluster {
                event.message = format!("{} (cluster {cluster})", event.message);
            }
            let (reason, message) = (event.reason, event.message.as_str());
            log_either!(
                event.severity == Severity::Warning => warn, else info,
                controller,
                machine,
                network_configuration,
                namespace,
                phase,
                reason,
                "{message}"
            );
            self.recorder.record(events::on(object.clone(), event));
        }
    }

    /// Publishes Warning Events on orphaned disks, and logs them.
    pub(super) fn orphans(&self, found: Vec<Orphan>) {
        for Orphan { kind, disk, event } in found {
            let reason = event.reason;
            tracing::warn!(
                namespace = disk.namespace.as_deref(),
                kind = kind.as_str(),
                name = disk.name.as_deref(),
                reason,
                "{}",
                event.message
            );
            let api_version = if kind == Kind::DataVolume {
                "cdi.kubevirt.io/v1beta1"
            } else {
                "v1"
            };
            let object = ObjectReference {
                api_version: Some(api_version.to_owned()),
                kind: Some(kind.as_str().to_owned()),
                namespace: disk.namespace,
                name: disk.name,
                uid: disk.uid,
                ..ObjectReference::default()
            };
            self.recorder.record(events::on(object, event));
        }
    }

    pub(super) fn orphan_counts(&self, counts: &BTreeMap<String, i64>) {
        self.metrics.set_orphaned_disks(counts);
    }

    /// Updates the metrics that are derived from objects.
    pub(super) fn fleet(
        &mut self,
        machines: &[Delta<Machine>],
        virtual_machines: &[Delta<Packed<ObservedVirtualMachine>>],
        claims: &[Delta<Packed<ObservedClaim>>],
        now: Timestamp,
    ) {
        self.fleet.machines(machines);
        self.fleet.virtual_machines(virtual_machines);
        self.fleet.claims(claims, now);
    }
}

/// Log fields with the name: `machine` or `network_configuration`.
fn names(subject: &Subject) -> (Option<&str>, Option<&str>) {
    let name = &*subject.key.name;
    match subject.owner {
        Owner::Machine => (Some(name), None),
        Owner::Network => (None, Some(name)),
    }
}

pub(super) fn phase_name(phase: api::Phase) -> &'static str {
    match phase {
        api::Phase::Pending => "Pending",
        api::Phase::Creating => "Creating",
        api::Phase::Running => "Running",
        api::Phase::Stopped => "Stopped",
        api::Phase::Failed => "Failed",
    }
}
