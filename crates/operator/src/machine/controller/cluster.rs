//! The cluster of virtual machines of a controller: whether it can be used, and what is reported meanwhile.

use std::{collections::BTreeSet, sync::Arc};

use api::{Machine, Time};
use plan::machine::{ClusterProblem, ClusterProblemKind, Unavailable, is_cluster_name};
use runtime::cache::{Delta, Key};
use tokio::time::Instant;

use super::{
    Completed, Controller, Role,
    reconcile::{Candidate, Reconciled, to_value},
};
use crate::machine::{
    caches::Subject, config_status, execute::Target, paths::Owner, sweep, watches::Watched,
};

/// Path that every API server answers, with few rights.
const PROBE: &str = "/version";

impl Controller {
    /// Name of the cluster, unless it is that of the Machines.
    pub(super) fn cluster_name(&self) -> Option<&str> {
        self.caches.home.remote().map(|cluster| &*cluster.name)
    }

    /// Why the operator cannot act in the cluster.
    pub(super) fn problem(&self) -> Option<&ClusterProblem> {
        self.remote.as_ref()?.reachability.problem()
    }

    pub(super) fn role<'a>(&'a self, machine: &'a Machine) -> Role<'a> {
        self.caches.home.role(machine)
    }

    /// The part of a change that counts for this cluster.
    pub(super) fn counted(&self, changed: Vec<Delta<Machine>>) -> Vec<Delta<Machine>> {
        let is_own =
            |machine: &Arc<Machine>| self.remote.is_some() || self.role(machine) != Role::Leave;
        let changed = changed.into_iter().map(|mut delta| {
            delta.old = delta.old.filter(is_own);
            delta.new = delta.new.filter(is_own);
            delta
        });
        changed.collect()
    }

    /// Publishes the KubevirtConfigs, each of which has a controller.
    pub(super) fn publish_configs(&mut self) {
        let Some(configs) = &self.configs else {
            return;
        };
        if self.caches.is_served(Watched::Configs) && !self.caches.configs.synced() {
            return;
        }
        let found: std::collections::BTreeMap<_, _> = self
            .caches
            .configs
            .iter()
            .map(|(key, config)| (key.name.to_string(), Arc::clone(config)))
            .collect();
        let served: BTreeSet<String> = found.keys().cloned().collect();
        configs.send_if_modified(|known| {
            let is_new = **known != found;
            if is_new {
                *known = Arc::new(found);
            }
            is_new
        });
        if !self.caches.home.serves(&served) {
            self.caches.home.set_served(served);
            let machines = self.caches.machines.iter();
            let all = machines.map(|(key, machine)| Delta {
                key: key.clone(),
                old: None,
                new: Some(Arc::clone(machine)),
            });
            let all = self.counted(all.collect());
            self.deps.report.recount(&all);
            self.enqueue_all();
        }
    }

    /// Evaluates whether the cluster can be used, and reports changes.
    pub(super) fn evaluate_cluster(&mut self, now: Instant) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        let changed = remote.reachability.evaluate(now);
        let problem = remote.reachability.problem().cloned();
        // A cluster without a problem is ready once its caches are filled.
        let is_known = problem.is_some() || self.synced;
        if is_known && (changed || !remote.is_reported) {
            self.deps.report.reachable(problem.is_none());
            // Standby replicas report nothing.
            if *self.deps.leads.borrow() {
                let was_reported = std::mem::replace(&mut remote.is_reported, true);
                remote.status.report(problem.as_ref());
                let is_changed = was_reported && changed;
                let report = &self.deps.report;
                report.cluster(&remote.config, problem.as_ref(), is_changed);
            }
        }
        if changed {
            self.retries.restart_all();
            self.last_writes.clear();
            self.enqueue_all();
        }
    }

    /// Reports what Machines left behind, and removes it if asked.
    pub(super) fn sweep(&mut self, now: Instant) {
        // Without Machines in the cache, everything would look left behind.
        let is_complete = self.synced && self.caches.serves_vitistack() && self.problem().is_none();
        let Some(remote) = self.remote.as_mut().filter(|_| is_complete) else {
            return;
        };
        remote.sweep.evaluate(&self.caches, now);
        self.deps.report.orphaned_objects(&remote.sweep.counts(now));
        if !*self.deps.leads.borrow() {
            return;
        }
        let name = remote.config.metadata.name.clone().unwrap_or_default();
        for event in remote.sweep.unreported(&name, now) {
            self.deps.report.on_config(&remote.config, event);
        }
        let current = remote.configs.borrow().get(&name).cloned();
        let removals = current.map(|config| remote.sweep.removals(&config, now));
        for removal in removals.into_iter().flatten() {
            let clusters = self.clusters.clone();
            self.inputs.in_flight.push_write(async move {
                Completed::Swept(sweep::remove(&clusters, removal).await)
            });
        }
    }

    pub(super) fn next_cluster_wake(&self) -> Option<Instant> {
        let remote = self.remote.as_ref()?;
        let wakes = [remote.reachability.next_wake(), remote.status.next_wake()];
        wakes.into_iter().flatten().min()
    }

    /// Starts the requests that the state of the cluster makes due.
    pub(super) fn start_cluster_requests(&mut self, now: Instant) {
        let leads = *self.deps.leads.borrow();
        let Some(remote) = &mut self.remote else {
            return;
        };
        if leads && let Some(write) = remote.status.begin(now) {
            let requests = self.clusters.management.clone();
            self.inputs.in_flight.push_read(async move {
                Completed::ConfigStatus(config_status::write(&requests, write).await)
            });
        }
        if self.workload.is_some() && remote.reachability.begin_probe(now) {
            let requests = self.clusters.workload.clone();
            self.inputs.in_flight.push_read(async move {
                // The observer of calls sees whether there is an answer, and any answer will do.
                drop(requests.get(PROBE).await);
                Completed::Probe
            });
        }
    }

    /// Plans for a Machine whose cluster cannot be used.
    pub(super) fn report_unavailable(
        &self,
        subject: &Subject,
        machine: &Machine,
        cluster: &str,
        problem: &ClusterProblem,
        now: Instant,
    ) -> Reconciled {
        let unavailable = Unavailable {
            machine,
            cluster,
            problem,
            ledger: self.caches.ledger(&Key::of(&machine.metadata)),
            provider: &self.options.provider,
            served: &self.caches.served,
        };
        let plan = unavailable.plan(&Time((self.deps.clock)()));
        let current = machine.status.clone().unwrap_or_default();
        let status = (current != plan.status).then(|| (to_value(&plan.status), plan.events));
        self.select(
            subject,
            Candidate {
                target: Target::of(Owner::Machine, &machine.metadata),
                generation: machine.metadata.generation,
                steps: plan.steps,
                status,
                requeue_at: None,
                retry: None,
                now,
            },
        )
    }
}

/// The problem of a Machine that names a cluster without a KubevirtConfig.
pub(in crate::machine) fn unknown_cluster(cluster: &str) -> ClusterProblem {
    let remedy = format!(
        "create it, or name another one in the annotation {}",
        api::labels::KUBEVIRT_CONFIG
    );
    let message = if is_cluster_name(cluster) {
        format!("there is no KubevirtConfig {cluster:?}: {remedy}")
    } else {
        let shown: String = cluster.chars().take(63).collect();
        format!(
            "{shown:?} cannot be the name of a KubevirtConfig, which is a DNS name of at most 63 characters: \
             name another one in the annotation {}",
            api::labels::KUBEVIRT_CONFIG
        )
    };
    ClusterProblem {
        kind: ClusterProblemKind::Unknown,
        message,
    }
}
