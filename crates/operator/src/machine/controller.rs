//! Control loop of Machines and NetworkConfigurations.
//!
//! An instance of [`runtime::control_loop`]. It plans one resource at a time; writes run concurrently.
//!
//! A reconcile starts at most one batch of writes. Their answers update the caches, and the resource
//! is reconciled again until its plan is empty. A refused write is retried with backoff; meanwhile the
//! status says why.

mod cluster;
mod reconcile;
mod references;
mod retries;
mod site;
mod watching;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{KubevirtConfigStatus, Machine};
use kube::Client;
use plan::{
    Fingerprint,
    machine::{DigestKey, PassedOn, Provider},
};
use runtime::{
    backoff::Random,
    cache::WatchScope,
    control_loop::{self, Inputs},
    probes::Health,
    work_queue::{Requeue, WorkQueue},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

pub(super) use self::{
    cluster::unknown_cluster,
    site::{Configs, RemoteSite, Site},
};
use self::{
    reconcile::Reconciled,
    references::{CompletedRead, Reads},
    retries::{Refused, Retries},
    site::{Opened, Remote},
    write::CompletedWork,
};
use super::{
    Clock, Stopwatch,
    caches::{Affected, Caches, Subject},
    clusters::Clusters,
    definitions::{self, Definitions, Settled},
    digest_key::{self, KeyCache, KeySecret, Unavailable},
    home::Role,
    orphans::Orphans,
    paths::Owner,
    report::Report,
    secrets::Secrets,
    sweep::Gone,
    watches::{KindEvent, Watched},
    webhook::{CacheQueries, CacheQuery},
};
use crate::requests::Requests;

/// Delay before identical writes are repeated while the caches do not show their effect.
const REPEAT_WRITE_DELAY: Duration = Duration::from_secs(10);
/// Requeue delay while an action is due but blocked.
const MIN_REQUEUE_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between status writes of a NetworkConfiguration: its users change in bulk.
const NETWORK_STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Planning time of one resource above which the loop counts and logs a slow reconcile: all other
/// resources wait meanwhile.
const SLOW_RECONCILE: Duration = Duration::from_millis(50);

/// Settings of the control loop.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespaces to watch; empty: all.
    pub namespaces: Vec<String>,
    /// Namespaces that disks may be cloned from, besides a Machine's own.
    pub clone_source_namespaces: BTreeSet<String>,
    /// Labels and annotations that reach VirtualMachines and pods, besides those under vitistack.io.
    pub passed_on: PassedOn,
    /// The provider whose Machines are reconciled.
    pub provider: Provider,
    /// KubevirtConfig of Machines that name none; without it their own cluster.
    pub kubevirt_config: Option<String>,
    /// Interval of the resync of every resource.
    pub reconcile_interval: Duration,
    /// Maximum number of resources with writes in flight.
    pub concurrency: usize,
    /// Whether the metadata of the operator's Secrets is watched; otherwise they are read when a guest
    /// starts.
    pub watch_secrets: bool,
    /// Secret with the key of cloud-init digests; none: digests are not keyed.
    pub key_secret: Option<KeySecret>,
    /// Seed of the random generator.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            clone_source_namespaces: BTreeSet::new(),
            passed_on: PassedOn::none(),
            provider: Provider::default(),
            kubevirt_config: None,
            reconcile_interval: Duration::from_secs(30),
            concurrency: 5,
            watch_secrets: true,
            key_secret: None,
            seed: 0,
        }
    }
}

/// Dependencies of the control loop.
pub(super) struct Dependencies {
    /// Client of the cluster of the Machines.
    pub(super) client: Client,
    pub(super) site: Site,
    pub(super) clock: Clock,
    pub(super) stopwatch: Stopwatch,
    pub(super) report: Report,
    pub(super) health: Health,
    pub(super) leads: watch::Receiver<bool>,
}

/// What a controller keeps of its dependencies.
struct OwnDependencies {
    client: Client,
    clock: Clock,
    stopwatch: Stopwatch,
    report: Report,
    health: Health,
    leads: watch::Receiver<bool>,
}

/// Completed request.
pub(super) enum Completed {
    Work(CompletedWork),
    References(CompletedRead),
    DigestKey(Result<DigestKey, Unavailable>),
    Definition(Settled),
    ConfigStatus(kube::Result<KubevirtConfigStatus>),
    Probe,
    Swept(Gone),
}

/// Latest writes to a resource, so that they are not repeated before the caches show them.
#[derive(Default)]
struct LastWrites {
    steps: Option<(Fingerprint, Instant)>,
    status: Option<(Fingerprint, Instant)>,
}

pub(super) struct Controller {
    inputs: Inputs<Self>,
    deps: OwnDependencies,
    options: Options,
    clusters: Clusters,
    /// Client of the cluster of the virtual machines; none if its configuration cannot be used.
    workload: Option<Client>,
    /// None for the cluster of the Machines.
    remote: Option<Remote>,
    configs: Option<watch::Sender<Configs>>,
    caches: Caches,
    scopes: Vec<WatchScope>,
    queue: WorkQueue<Subject>,
    retries: Retries,
    last_writes: BTreeMap<Subject, LastWrites>,
    secrets: Secrets,
    orphans: Orphans,
    /// Machine with its cloud-init data, from the live read until it is reconciled.
    full_machine: Option<Machine>,
    reads: Reads,
    key: KeyCache,
    definitions: Definitions,
    random: Random,
    synced: bool,
    /// Whether the kinds of the Machines' own cluster are synced.
    management_synced: bool,
}

impl control_loop::Controller for Controller {
    const NAME: &'static str = "Machine controller";
    const HAS_HEARTBEAT: bool = true;

    type Watched = Watched;
    /// The scope of the watch, and its event.
    type WatchEvent = (WatchScope, KindEvent);
    type Completed = Completed;
    type Query = CacheQuery;

    fn inputs(&mut self) -> &mut Inputs<Self> {
        &mut self.inputs
    }

    fn leadership(&self) -> Option<watch::Receiver<bool>> {
        Some(self.deps.leads.clone())
    }

    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        self.evaluate_cluster(now);
        self.start_work(now);
        self.next_wake()
    }

    fn on_event(&mut self, watched: Watched, (scope, event): (WatchScope, KindEvent)) {
        self.on_watch_event(watched, &scope, event);
    }

    fn on_completed(&mut self, completed: Completed) {
        match completed {
            Completed::Work(completed) => self.on_work_completed(completed),
            Completed::References(completed) => self.on_references_read(completed),
            Completed::DigestKey(read) => self.key.on_read(read, Instant::now()),
            Completed::Definition(settled) => self.on_definition_settled(settled),
            Completed::ConfigStatus(written) => {
                if let Some(remote) = &mut self.remote {
                    remote.status.on_written(written, Instant::now());
                }
            }
            // The observer of calls has recorded the outcome.
            Completed::Probe => {}
            Completed::Swept(gone) => {
                if let Some(remote) = &mut self.remote {
                    remote.sweep.on_removed(&gone);
                }
            }
        }
    }

    fn on_query(&mut self, query: CacheQuery) {
        query(&self.caches);
    }

    fn on_heartbeat(&mut self, now: Instant) {
        self.deps.health.heartbeat();
        if self.remote.is_none() {
            self.report_orphans(now);
        } else {
            self.sweep(now);
        }
    }
}

impl Controller {
    pub(super) fn new(deps: Dependencies, queries: CacheQueries, options: Options) -> Self {
        let Dependencies {
            client,
            site,
            clock,
            stopwatch,
            report,
            health,
            leads,
        } = deps;
        let mut random = Random::seeded(options.seed);
        let scopes = WatchScope::of_namespaces(&options.namespaces);
        let default = options.kubevirt_config.as_deref();
        let Opened {
            home,
            workload,
            remote,
            configs,
        } = site.open(&client, default);
        let mut caches = Caches::new(scopes.clone())
            .allow_clones_from(options.clone_source_namespaces.clone())
            .passing_on(options.passed_on.clone())
            .of_provider(options.provider.clone())
            .at_home(home);
        if options.watch_secrets {
            caches.watch_secrets();
        }
        let requests = |client: &Client| Requests::new(client.clone(), api::labels::MANAGER);
        let deps = OwnDependencies {
            client: client.clone(),
            clock,
            stopwatch,
            report,
            health,
            leads,
        };
        Self {
            inputs: Inputs::with_queries(queries.into_receiver()),
            clusters: Clusters {
                management: requests(&client),
                workload: requests(workload.as_ref().unwrap_or(&client)),
            },
            workload,
            remote,
            configs,
            caches,
            queue: WorkQueue::new(
                Some(options.reconcile_interval),
                Instant::now(),
                random.fork(),
            ),
            retries: Retries::new(random.fork()),
            last_writes: BTreeMap::new(),
            secrets: Secrets::default(),
            orphans: Orphans::default(),
            full_machine: None,
            reads: Reads::default(),
            key: KeyCache::new(options.key_secret.clone(), Instant::now()),
            definitions: Definitions::default(),
            synced: false,
            management_synced: false,
            random,
            scopes,
            deps,
            options,
        }
    }

    /// Reconciles until the token is cancelled, then finishes the writes in flight.
    pub(super) async fn run(mut self, token: CancellationToken) {
        for watched in Watched::ALL {
            if watched.is_required() {
                self.deps.health.set_synced(watched.name(), false);
            }
            let is_early = watched.definition().is_none() && self.caches.is_served(watched);
            if is_early && self.may_watch(watched) {
                self.start_watch(watched);
            }
        }
        control_loop::run(self, token).await;
    }

    fn enqueue_all(&mut self) {
        let now = Instant::now();
        for subject in self.caches.all() {
            self.queue.add(subject, now);
        }
    }

    /// Reports disks whose Machine is gone. A standby replica only counts them.
    fn report_orphans(&mut self, now: Instant) {
        if !self.caches.is_served(Watched::Machines) {
            self.orphans.forget();
        } else if self.synced {
            self.orphans.evaluate(&self.caches, now);
            if *self.deps.leads.borrow() {
                self.deps.report.orphans(self.orphans.unreported());
            }
        }
        self.deps.report.orphan_counts(&self.orphans.counts());
    }

    fn enqueue(&mut self, affected: Affected) {
        match &mut self.remote {
            None => self.orphans.on_change(&affected, &self.caches),
            Some(remote) => remote.sweep.on_change(&affected, &self.caches),
        }
        let Affected {
            subjects,
            replaced,
            all,
            machines,
            virtual_machines,
            claims,
        } = affected;
        for subject in &replaced {
            self.forget_state(subject);
        }
        let now = Instant::now();
        for subject in subjects {
            self.queue.add(subject, now);
        }
        if all {
            self.enqueue_all();
        }
        let wall = (self.deps.clock)();
        let machines = self.counted(machines);
        self.deps
            .report
            .fleet(&machines, &virtual_machines, &claims, wall);
    }

    /// Retries what exceeded a quota of the namespace.
    fn retry_over_quota(&mut self, namespace: &str) {
        let now = Instant::now();
        for subject in self.retries.restart_over_quota(namespace, now) {
            self.queue.add(subject, now);
        }
    }

    fn is_reconciling(&self) -> bool {
        self.is_active() && self.key.is_settled() && self.definitions.is_settled()
    }

    fn is_active(&self) -> bool {
        let is_observed = self.synced || self.management_synced && self.problem().is_some();
        is_observed && *self.deps.leads.borrow()
    }

    /// Starts the read of the digest key if it is due. The key may have to be created, so this replica
    /// must lead.
    fn start_key_read(&mut self, now: Instant) {
        if self.is_active()
            && let Some(secret) = self.key.begin(now)
        {
            let requests = self.clusters.management.clone();
            self.inputs.in_flight.push_read(async move {
                Completed::DigestKey(digest_key::read(&requests, &secret).await)
            });
        }
    }

    /// Starts the requests that changed definitions make due. The MachineProvider may have to be created, so
    /// this replica must lead.
    fn start_definition_requests(&mut self, now: Instant) {
        while self.is_active()
            && let Some(due) = self.definitions.begin(now)
        {
            let requests = self.clusters.management.clone();
            let provider = self.options.provider.clone();
            self.inputs.in_flight.push_read(async move {
                Completed::Definition(definitions::send(&requests, due, &provider).await)
            });
        }
    }

    fn on_definition_settled(&mut self, settled: Settled) {
        let now = Instant::now();
        let served = &mut self.caches.served;
        let metrics = self.deps.report.metrics();
        if self.definitions.on_settled(settled, served, metrics, now) {
            self.enqueue_all();
        }
    }

    /// Time of the next timer, if work is waiting for time alone.
    fn next_wake(&self) -> Option<Instant> {
        let keys = [
            self.key.next_wake(),
            self.definitions.next_wake(),
            self.next_cluster_wake(),
        ];
        let keys = keys.into_iter().flatten().min();
        let key = keys.filter(|_| self.is_active());
        if !self.is_reconciling() {
            return key;
        }
        let free = |count: usize| count < self.options.concurrency;
        let in_flight = &self.inputs.in_flight;
        let work = free(in_flight.writes()).then(|| self.queue.next_wake());
        let reads = free(in_flight.reads()).then(|| self.reads.next_wake(Instant::now()));
        [work, reads, Some(key)]
            .into_iter()
            .flatten()
            .flatten()
            .min()
    }

    fn start_work(&mut self, now: Instant) {
        self.start_key_read(now);
        self.start_definition_requests(now);
        self.start_cluster_requests(now);
        if !self.is_reconciling() {
            return;
        }
        while self.inputs.in_flight.writes() < self.options.concurrency {
            let Some(subject) = self.queue.pop(now) else {
                break;
            };
            let started = Instant::now();
            let stopwatch = (self.deps.stopwatch)();
            let reconciled = self.reconcile(&subject, now);
            let elapsed = (self.deps.stopwatch)().saturating_duration_since(stopwatch);
            if elapsed > SLOW_RECONCILE {
                self.deps.report.slow_reconcile(&subject, elapsed);
            }
            let Some(reconciled) = reconciled else {
                self.forget(&subject, now);
                continue;
            };
            if let Some(work) = reconciled.work {
                let Reconciled {
                    target, generation, ..
                } = reconciled;
                self.start(subject, target, generation, work, started);
            } else {
                self.expire_last_writes(&subject, now);
                let requeue_at = reconciled.requeue_at;
                let outcome = requeue_at.map_or(Requeue::AtResync, Requeue::At);
                self.queue.done(&subject, outcome, now);
                self.deps.report.unchanged(&subject, started.elapsed());
            }
        }
        self.start_reads(now);
        self.deps.report.queue_depth(self.queue.depth(now));
    }

    fn forget(&mut self, subject: &Subject, now: Instant) {
        self.queue.done(subject, Requeue::Never, now);
        self.forget_state(subject);
    }

    /// Forgets everything about a resource: a new one of the same name inherits nothing.
    fn forget_state(&mut self, subject: &Subject) {
        self.retries.forget(subject);
        self.last_writes.remove(subject);
        self.reads.forget(subject);
        if subject.owner == Owner::Machine {
            self.secrets.forget(&subject.key);
        }
        self.deps.report.forget(subject);
    }

    /// Drops writes that may be repeated by now.
    fn expire_last_writes(&mut self, subject: &Subject, now: Instant) {
        let Some(last) = self.last_writes.get_mut(subject) else {
            return;
        };
        last.steps
            .take_if(|(_, at)| *at + REPEAT_WRITE_DELAY <= now);
        last.status
            .take_if(|(_, at)| *at + REPEAT_WRITE_DELAY <= now);
        if last.steps.is_none() && last.status.is_none() {
            self.last_writes.remove(subject);
        }
    }
}
