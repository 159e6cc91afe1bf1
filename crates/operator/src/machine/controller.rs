//! The loop that keeps Machines and NetworkConfigurations.
//!
//! One future holds everything: watches, caches, the queue and the writes under way. It decides one
//! resource at a time, so it needs no locks; writes go on beside each other. Nothing is polled: it
//! sleeps until a watch speaks, a write is answered, or a time comes.
//!
//! A look at a resource ends in at most one round of writes. Its answers go into the caches, and the
//! resource is looked at again, until there is nothing left to do. What was refused is tried again
//! later, and meanwhile the status says why.

mod look;
mod references;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hasher as _},
    time::Duration,
};

use api::Machine;
use futures::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use kube::Client;
use plan::machine::{DigestKey, ErrorType, Refusal};
use runtime::{
    backoff::{Backoff, Random, Schedule},
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
    references::{Read, Reads},
    write::Done,
};
use super::{
    Clock, Stopwatch,
    caches::{Affected, Caches, Subject},
    digest_key::{self, KeyCache, KeySecret, Unavailable},
    orphans::Orphans,
    paths::Owner,
    report::Report,
    secrets::Secrets,
    watches::{Told, Watched},
    webhook::Questions,
};
use crate::requests::Requests;

/// How long the same writes are not repeated when the caches do not show them yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon a resource is looked at again of which something is due that cannot be done yet.
const BREATH: Duration = Duration::from_secs(1);
/// How often the status of a network may be written: its users come and go many at a time.
const NETWORK_STATUS: Duration = Duration::from_secs(1);
/// How long the writes under way are given at the end.
const DRAIN: Duration = Duration::from_secs(4);
/// How long the loop may compute for one resource before that is counted and logged: everything else
/// waits meanwhile.
const SLOW_RECONCILE: Duration = Duration::from_millis(50);
/// How often the loop shows that it is alive.
const BEAT: Duration = Duration::from_secs(10);

/// How the loop goes about its work.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespaces that are kept; none: all.
    pub namespaces: Vec<String>,
    /// The namespaces that disks may be copied from, besides a Machine's own.
    pub clone_source_namespaces: BTreeSet<String>,
    /// How often everything is looked at although nothing was heard of it.
    pub reconcile_interval: Duration,
    /// How many resources are written at a time.
    pub concurrency: usize,
    /// Whether Secrets of ours are watched, by their metadata; else they are read when a guest
    /// starts.
    pub watch_secrets: bool,
    /// Where the key of digests of cloud-init data is; none: digests are not keyed.
    pub key_secret: Option<KeySecret>,
    /// Where all randomness comes from.
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

/// What the loop works with.
pub(super) struct Tools {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) stopwatch: Stopwatch,
    pub(super) report: Report,
    pub(super) health: Health,
    /// Whether this process leads.
    pub(super) leads: watch::Receiver<bool>,
    /// What webhooks ask.
    pub(super) questions: Questions,
}

/// Why a resource is not written to now.
struct Trouble {
    refusal: Refusal,
    until: Instant,
    /// The spec that was tried; another one is tried at once.
    generation: Option<i64>,
}

/// What was last done for a resource.
#[derive(Default)]
struct Past {
    steps: Option<(Fingerprint, Instant)>,
    status: Option<(Fingerprint, Instant)>,
    /// A status was refused: none is written before.
    status_after: Option<Instant>,
}

/// What tells one round of writes from another, in a few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u64);

impl Fingerprint {
    fn of(writes: &impl fmt::Debug) -> Self {
        struct Hashed(DefaultHasher);
        impl fmt::Write for Hashed {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut hashed = Hashed(DefaultHasher::new());
        // Hashing does not fail.
        let _ = write!(hashed, "{writes:?}");
        Self(hashed.0.finish())
    }
}

pub(super) struct Controller {
    tools: Tools,
    options: Options,
    requests: Requests,
    caches: Caches,
    scopes: Vec<String>,
    queue: WorkQueue<Subject>,
    backoff: Backoff<Subject>,
    troubles: BTreeMap<Subject, Trouble>,
    past: BTreeMap<Subject, Past>,
    secrets: Secrets,
    orphans: Orphans,
    /// A Machine with all that it says, from when it is read until it is reconciled.
    whole: Option<Machine>,
    watching: BTreeMap<Watched, CancellationToken>,
    streams: SelectAll<BoxStream<'static, (Watched, String, Told)>>,
    writing: FuturesUnordered<BoxFuture<'static, Done>>,
    reads: Reads,
    reading: FuturesUnordered<BoxFuture<'static, Read>>,
    key: KeyCache,
    key_reading: FuturesUnordered<BoxFuture<'static, Result<DigestKey, Unavailable>>>,
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
            backoff: Backoff::new(Schedule::OBJECT, random.fork()),
            troubles: BTreeMap::new(),
            past: BTreeMap::new(),
            secrets: Secrets::default(),
            orphans: Orphans::default(),
            whole: None,
            watching: BTreeMap::new(),
            streams: SelectAll::new(),
            writing: FuturesUnordered::new(),
            reads: Reads::default(),
            reading: FuturesUnordered::new(),
            key: KeyCache::new(options.key_secret.clone(), Instant::now()),
            key_reading: FuturesUnordered::new(),
            synced: false,
            random,
            scopes,
            tools,
            options,
        }
    }

    /// Keeps everything until the token is cancelled. Writes under way are then finished.
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
        let mut beat = Instant::now();
        loop {
            // Those who ask and those who write each have their turn, however many there are.
            if let Some(question) = self.tools.questions.waiting() {
                question(&self.caches);
            }
            let now = Instant::now();
            self.start_work(now);
            if now >= beat {
                self.tools.health.heartbeat();
                self.report_orphans(now);
                beat = now + BEAT;
            }
            let wake = self.wake().map_or(beat, |wake| wake.min(beat));
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Ok(()) = leads.changed() => {}
                Some(done) = self.writing.next(), if !self.writing.is_empty() => self.written(done),
                Some(read) = self.reading.next(), if !self.reading.is_empty() => {
                    self.references_read(read);
                }
                Some(read) = self.key_reading.next(), if !self.key_reading.is_empty() => {
                    self.key.on_read(read, Instant::now());
                }
                Some((watched, scope, told)) = self.streams.next(), if !self.streams.is_empty() => {
                    self.told(watched, &scope, told);
                }
                Some(question) = self.tools.questions.next() => question(&self.caches),
                () = sleep_until(wake) => {}
            }
        }
        let drained = timeout(DRAIN, async {
            while self.writing.next().await.is_some() {}
        });
        if drained.await.is_err() {
            tracing::warn!("writes were left unanswered at the end");
        }
    }

    fn start_watch(&mut self, watched: Watched) {
        let token = CancellationToken::new();
        let told = watched.start(&self.tools.client, &self.scopes, self.random.next());
        let told = told
            .map(move |(scope, told)| (watched, scope, told))
            .take_until(token.clone().cancelled_owned());
        self.streams.push(told.boxed());
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
            tracing::info!(kind = watched.name(), "is no longer served");
        }
    }

    /// Watches what is served, and nothing else.
    fn follow_definitions(&mut self) {
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

    fn told(&mut self, watched: Watched, scope: &str, told: Told) {
        // What a watch that was stopped has still had to say.
        if !self.watching.contains_key(&watched) {
            return;
        }
        Report::of_watch(watched, &told);
        match &told {
            Told::Quota(WatchEvent::Applied(quota)) => {
                let namespace = quota.metadata.namespace.clone();
                self.retry_for_room(namespace.as_deref().unwrap_or_default());
            }
            Told::Quota(WatchEvent::Deleted(quota)) => self.retry_for_room(&quota.namespace),
            _ => {}
        }
        let affected = self.caches.told(scope, told);
        self.take(affected);
        if watched == Watched::Definitions {
            self.follow_definitions();
        }
        self.note_synced(watched);
    }

    fn note_synced(&mut self, watched: Watched) {
        let synced = self.caches.is_synced(watched);
        self.tools.health.set_synced(watched.name(), synced);
        let all = Watched::ALL.into_iter().all(|watched| {
            let may_lack = watched.is_ours() || !watched.is_required();
            self.caches.is_synced(watched) || (may_lack && !self.caches.is_served(watched))
        });
        if all && !self.synced {
            tracing::info!("caches are synced");
            self.add_all();
        }
        self.synced = all;
    }

    fn add_all(&mut self) {
        let now = Instant::now();
        for subject in self.caches.all() {
            self.queue.add(subject, now);
        }
    }

    /// Reports the disks whose Machine is gone. A replica that stands by only counts them.
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

    fn take(&mut self, affected: Affected) {
        self.orphans.note(&affected, &self.caches);
        let Affected {
            subjects,
            others,
            all,
            machines,
            virtual_machines,
            claims,
        } = affected;
        for subject in &others {
            self.forget_history(subject);
        }
        let now = Instant::now();
        for subject in subjects {
            self.queue.add(subject, now);
        }
        if all {
            self.add_all();
        }
        let wall = (self.tools.clock)();
        self.tools
            .report
            .of_objects(&machines, &virtual_machines, &claims, wall);
    }

    /// A quota of a namespace has changed: what had no room there may have it now. Admission may learn
    /// of the change after this watch did, so a retry that is refused still is repeated soon.
    fn retry_for_room(&mut self, namespace: &str) {
        let now = Instant::now();
        for (subject, trouble) in &mut self.troubles {
            if trouble.refusal.error_type == ErrorType::InsufficientResources
                && *subject.key.namespace == *namespace
            {
                trouble.until = now;
                self.backoff.reset(subject);
                self.queue.add(subject.clone(), now);
            }
        }
    }

    fn is_working(&self) -> bool {
        self.may_work() && self.key.is_settled()
    }

    fn may_work(&self) -> bool {
        self.synced && *self.tools.leads.borrow()
    }

    /// Reads the key of digests if that is due. It may have to be created, so this replica must lead.
    fn start_key(&mut self, now: Instant) {
        if self.may_work()
            && let Some(secret) = self.key.begin(now)
        {
            let requests = self.requests.clone();
            let read = async move { digest_key::read(&requests, &secret).await };
            self.key_reading.push(read.boxed());
        }
    }

    /// When there may be something to do, unless it waits for something else than time.
    fn wake(&self) -> Option<Instant> {
        let key = self.key.next_wake().filter(|_| self.may_work());
        if !self.is_working() {
            return key;
        }
        let free = |count: usize| count < self.options.concurrency;
        let work = free(self.writing.len()).then(|| self.queue.next_wake());
        let reads = free(self.reading.len()).then(|| self.reads.next_wake(Instant::now()));
        [work, reads, Some(key)]
            .into_iter()
            .flatten()
            .flatten()
            .min()
    }

    fn start_work(&mut self, now: Instant) {
        self.start_key(now);
        if !self.is_working() {
            return;
        }
        while self.writing.len() < self.options.concurrency {
            let Some(subject) = self.queue.pop(now) else {
                break;
            };
            let began = Instant::now();
            let computing = (self.tools.stopwatch)();
            let look = self.look(&subject, now);
            let computed = (self.tools.stopwatch)().saturating_duration_since(computing);
            if computed > SLOW_RECONCILE {
                self.tools.report.slow(&subject, computed);
            }
            let Some(look) = look else {
                self.forget(&subject, now);
                continue;
            };
            if let Some(work) = look.work {
                self.begin(subject, look.target, look.generation, work, began);
            } else {
                self.forget_past(&subject, now);
                let looked = look.again.map_or(Requeue::AtResync, Requeue::At);
                self.queue.done(&subject, looked, now);
                self.tools.report.settled(&subject, began.elapsed());
            }
        }
        self.start_reads(now);
        self.tools.report.queue_depth(self.queue.depth(now));
    }

    fn forget(&mut self, subject: &Subject, now: Instant) {
        self.queue.done(subject, Requeue::Never, now);
        self.forget_history(subject);
    }

    /// Another resource of the name inherits nothing.
    fn forget_history(&mut self, subject: &Subject) {
        self.troubles.remove(subject);
        self.past.remove(subject);
        self.reads.forget(subject);
        self.backoff.reset(subject);
        if subject.owner == Owner::Machine {
            self.secrets.forget(&subject.key);
        }
        self.tools.report.forget(subject);
    }

    /// What was done long enough ago is done again if it is wanted again, so it need not be known.
    fn forget_past(&mut self, subject: &Subject, now: Instant) {
        let Some(past) = self.past.get_mut(subject) else {
            return;
        };
        past.steps.take_if(|(_, at)| *at + PATIENCE <= now);
        past.status.take_if(|(_, at)| *at + PATIENCE <= now);
        past.status_after.take_if(|until| *until <= now);
        if past.steps.is_none() && past.status.is_none() && past.status_after.is_none() {
            self.past.remove(subject);
        }
    }
}
