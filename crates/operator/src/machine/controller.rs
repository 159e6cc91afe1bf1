//! Control loop of Machines and NetworkConfigurations.
//!
//! One future owns the watches, caches, work queue and writes in flight. It plans one resource at a
//! time, so it needs no locks; writes run concurrently. Nothing is polled: the loop sleeps until a
//! watch event, the answer to a request, or a timer.
//!
//! A reconcile starts at most one batch of writes. Their answers update the caches, and the resource
//! is reconciled again until its plan is empty. A refused write is retried with backoff; meanwhile the
//! status says why.

mod reconcile;
mod references;
mod retries;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::Machine;
use futures::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use kube::Client;
use plan::{Fingerprint, machine::DigestKey};
use runtime::{
    backoff::Random,
    probes::Health,
    reflector::WatchEvent,
    work_queue::{Requeue, WorkQueue},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    reconcile::Reconciled,
    references::{CompletedRead, Reads},
    retries::{Refused, Retries},
    write::CompletedWork,
};
use super::{
    Clock, Stopwatch,
    caches::{Affected, Caches, Subject},
    digest_key::{self, KeyCache, KeySecret, Unavailable},
    orphans::Orphans,
    paths::Owner,
    report::Report,
    secrets::Secrets,
    watches::{KindEvent, Watched},
    webhook::Questions,
};
use crate::requests::Requests;

/// Delay before identical writes are repeated while the caches do not show their effect.
const REPEAT_WRITE_DELAY: Duration = Duration::from_secs(10);
/// Requeue delay while an action is due but blocked.
const MIN_REQUEUE_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between status writes of a NetworkConfiguration: its users change in bulk.
const NETWORK_STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Time that writes in flight get to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);
/// Planning time of one resource above which the loop counts and logs a slow reconcile: all other
/// resources wait meanwhile.
const SLOW_RECONCILE: Duration = Duration::from_millis(50);
/// Interval of the heartbeat that the liveness probe reads.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Settings of the control loop.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespaces to watch; empty: all.
    pub namespaces: Vec<String>,
    /// Namespaces that disks may be cloned from, besides a Machine's own.
    pub clone_source_namespaces: BTreeSet<String>,
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
            reconcile_interval: Duration::from_secs(30),
            concurrency: 5,
            watch_secrets: true,
            key_secret: None,
            seed: 0,
        }
    }
}

/// Dependencies of the control loop.
pub(super) struct Tools {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) stopwatch: Stopwatch,
    pub(super) report: Report,
    pub(super) health: Health,
    pub(super) leads: watch::Receiver<bool>,
    pub(super) questions: Questions,
}

/// Latest writes to a resource, so that they are not repeated before the caches show them.
#[derive(Default)]
struct LastWrites {
    steps: Option<(Fingerprint, Instant)>,
    status: Option<(Fingerprint, Instant)>,
}

pub(super) struct Controller {
    tools: Tools,
    options: Options,
    requests: Requests,
    caches: Caches,
    scopes: Vec<String>,
    queue: WorkQueue<Subject>,
    retries: Retries,
    last_writes: BTreeMap<Subject, LastWrites>,
    secrets: Secrets,
    orphans: Orphans,
    /// Machine with its cloud-init data, from the live read until it is reconciled.
    full_machine: Option<Machine>,
    watching: BTreeMap<Watched, CancellationToken>,
    streams: SelectAll<BoxStream<'static, (Watched, String, KindEvent)>>,
    work_in_flight: FuturesUnordered<BoxFuture<'static, CompletedWork>>,
    reads: Reads,
    reads_in_flight: FuturesUnordered<BoxFuture<'static, CompletedRead>>,
    key: KeyCache,
    key_reads_in_flight: FuturesUnordered<BoxFuture<'static, Result<DigestKey, Unavailable>>>,
    random: Random,
    synced: bool,
}

impl Controller {
    pub(super) fn new(tools: Tools, options: Options) -> Self {
        let mut random = Random::seeded(options.seed);
        let scopes = match options.namespaces.as_slice() {
            [] => vec![String::new()],
            namespaces => namespaces.to_vec(),
        };
        let mut caches =
            Caches::new(scopes.clone()).allow_clones_from(options.clone_source_namespaces.clone());
        if options.watch_secrets {
            caches.watch_secrets();
        }
        Self {
            requests: Requests::new(tools.client.clone(), api::labels::MANAGER),
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
            watching: BTreeMap::new(),
            streams: SelectAll::new(),
            work_in_flight: FuturesUnordered::new(),
            reads: Reads::default(),
            reads_in_flight: FuturesUnordered::new(),
            key: KeyCache::new(options.key_secret.clone(), Instant::now()),
            key_reads_in_flight: FuturesUnordered::new(),
            synced: false,
            random,
            scopes,
            tools,
            options,
        }
    }

    /// Reconciles until the token is cancelled, then finishes the writes in flight.
    pub(super) async fn run(mut self, token: CancellationToken) {
        for watched in Watched::ALL {
            if watched.is_required() {
                self.tools.health.set_synced(watched.name(), false);
            }
            if watched.definition().is_none() && self.caches.is_served(watched) {
                self.start_watch(watched);
            }
        }
        let mut leads = self.tools.leads.clone();
        let mut heartbeat = Instant::now();
        loop {
            // One question per turn, so that neither webhooks nor writes starve.
            if let Some(question) = self.tools.questions.try_next() {
                question(&self.caches);
            }
            let now = Instant::now();
            self.start_work(now);
            if now >= heartbeat {
                self.tools.health.heartbeat();
                self.report_orphans(now);
                heartbeat = now + HEARTBEAT_INTERVAL;
            }
            let wake = self
                .next_wake()
                .map_or(heartbeat, |wake| wake.min(heartbeat));
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Ok(()) = leads.changed() => {}
                Some(completed) = self.work_in_flight.next(), if !self.work_in_flight.is_empty() => {
                    self.on_work_completed(completed);
                }
                Some(completed) = self.reads_in_flight.next(), if !self.reads_in_flight.is_empty() => {
                    self.on_references_read(completed);
                }
                Some(read) = self.key_reads_in_flight.next(), if !self.key_reads_in_flight.is_empty() => {
                    self.key.on_read(read, Instant::now());
                }
                Some((watched, scope, event)) = self.streams.next(), if !self.streams.is_empty() => {
                    self.on_event(watched, &scope, event);
                }
                Some(question) = self.tools.questions.next() => question(&self.caches),
                () = sleep_until(wake) => {}
            }
        }
        let drained = timeout(DRAIN_TIMEOUT, async {
            while self.work_in_flight.next().await.is_some() {}
        });
        if drained.await.is_err() {
            tracing::warn!(
                "stopping the Machine controller with writes in flight: the API server did not \
                 answer them within {} s",
                DRAIN_TIMEOUT.as_secs()
            );
        }
    }

    fn start_watch(&mut self, watched: Watched) {
        let token = CancellationToken::new();
        let events = watched.start(&self.tools.client, &self.scopes, self.random.next());
        let events = events
            .map(move |(scope, event)| (watched, scope, event))
            .take_until(token.clone().cancelled_owned());
        self.streams.push(events.boxed());
        self.watching.insert(watched, token);
        self.tools.health.set_synced(watched.name(), false);
    }

    fn stop_watch(&mut self, watched: Watched) {
        if let Some(token) = self.watching.remove(&watched) {
            token.cancel();
            self.caches.forget(watched);
            self.tools.report.forget_kind(watched);
            if watched.is_required() {
                self.tools.health.set_synced(watched.name(), false);
            } else {
                self.tools.health.forget(watched.name());
            }
            tracing::info!(
                kind = watched.name(),
                "stopped watching {}: its CustomResourceDefinition was removed",
                watched.name()
            );
        }
    }

    /// Starts and stops watches so that exactly the served kinds are watched.
    fn update_watches(&mut self) {
        if !self.caches.is_synced(Watched::Definitions) {
            return;
        }
        for watched in Watched::ALL {
            match (
                self.caches.is_served(watched),
                self.watching.contains_key(&watched),
            ) {
                (true, false) => self.start_watch(watched),
                (false, true) => self.stop_watch(watched),
                (true, true) | (false, false) => {}
            }
        }
    }

    fn on_event(&mut self, watched: Watched, scope: &str, event: KindEvent) {
        // A stopped watch may still have had events buffered.
        if !self.watching.contains_key(&watched) {
            return;
        }
        Report::watch_failures(watched, &event);
        match &event {
            KindEvent::Quota(WatchEvent::Applied(quota)) => {
                let namespace = quota.metadata.namespace.clone();
                self.retry_over_quota(namespace.as_deref().unwrap_or_default());
            }
            KindEvent::Quota(WatchEvent::Deleted(quota)) => self.retry_over_quota(&quota.namespace),
            _ => {}
        }
        let affected = self.caches.on_event(scope, event);
        self.enqueue(affected);
        if watched == Watched::Definitions {
            self.update_watches();
        }
        self.update_synced(watched);
    }

    fn update_synced(&mut self, watched: Watched) {
        let synced = self.caches.is_synced(watched);
        self.tools.health.set_synced(watched.name(), synced);
        let all = Watched::ALL.into_iter().all(|watched| {
            let is_optional = watched.is_vitistack() || !watched.is_required();
            self.caches.is_synced(watched) || (is_optional && !self.caches.is_served(watched))
        });
        if all && !self.synced {
            tracing::info!("Machine controller: caches are synced");
            self.enqueue_all();
        }
        self.synced = all;
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
            if *self.tools.leads.borrow() {
                self.tools.report.orphans(self.orphans.unreported());
            }
        }
        self.tools.report.orphan_counts(&self.orphans.counts());
    }

    fn enqueue(&mut self, affected: Affected) {
        self.orphans.on_change(&affected, &self.caches);
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
        let wall = (self.tools.clock)();
        self.tools
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
        self.is_active() && self.key.is_settled()
    }

    fn is_active(&self) -> bool {
        self.synced && *self.tools.leads.borrow()
    }

    /// Starts the read of the digest key if it is due. The key may have to be created, so this replica
    /// must lead.
    fn start_key_read(&mut self, now: Instant) {
        if self.is_active()
            && let Some(secret) = self.key.begin(now)
        {
            let requests = self.requests.clone();
            let read = async move { digest_key::read(&requests, &secret).await };
            self.key_reads_in_flight.push(read.boxed());
        }
    }

    /// Time of the next timer, if work is waiting for time alone.
    fn next_wake(&self) -> Option<Instant> {
        let key = self.key.next_wake().filter(|_| self.is_active());
        if !self.is_reconciling() {
            return key;
        }
        let free = |count: usize| count < self.options.concurrency;
        let work = free(self.work_in_flight.len()).then(|| self.queue.next_wake());
        let reads = free(self.reads_in_flight.len()).then(|| self.reads.next_wake(Instant::now()));
        [work, reads, Some(key)]
            .into_iter()
            .flatten()
            .flatten()
            .min()
    }

    fn start_work(&mut self, now: Instant) {
        self.start_key_read(now);
        if !self.is_reconciling() {
            return;
        }
        while self.work_in_flight.len() < self.options.concurrency {
            let Some(subject) = self.queue.pop(now) else {
                break;
            };
            let started = Instant::now();
            let stopwatch = (self.tools.stopwatch)();
            let reconciled = self.reconcile(&subject, now);
            let elapsed = (self.tools.stopwatch)().saturating_duration_since(stopwatch);
            if elapsed > SLOW_RECONCILE {
                self.tools.report.slow_reconcile(&subject, elapsed);
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
                self.tools.report.unchanged(&subject, started.elapsed());
            }
        }
        self.start_reads(now);
        self.tools.report.queue_depth(self.queue.depth(now));
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
        self.tools.report.forget(subject);
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
