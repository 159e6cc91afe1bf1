//! The loop that keeps an installation.
//!
//! One future holds everything: watches, caches and the writes under way. It plans one round of
//! writes at a time, carries them out beside each other, takes their answers into the caches, and
//! plans again, until there is nothing left to do. Nothing is polled: it sleeps until a watch
//! speaks, a write is answered, or a time comes.
//!
//! What was refused is tried again later, each object at its own pace; meanwhile the plan knows, and
//! the status says why.

mod look;
mod write;

use std::{collections::BTreeMap, time::Duration};

use api::Time;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use jiff::SignedDuration;
use kube::Client;
use plan::kubevirt::{
    Fingerprint, Id,
    observed::{Count, Memory, Served, UnreadableKind},
};
use runtime::{
    backoff::{Backoff, Random, Schedule},
    probes::Health,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::write::Done;
use super::{
    Clock, Options,
    caches::Caches,
    certificates::Certificates,
    kinds::Kinds,
    report::Report,
    resources,
    strategies::Strategies,
    watches::{Told, Watched, Watches},
};
use crate::requests::Requests;

/// How long the same writes are not repeated when the caches do not show them yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the status is written at most while only its words change.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the writes under way are given at the end.
const DRAIN: Duration = Duration::from_secs(4);
/// How often the loop shows that it is alive.
const BEAT: Duration = Duration::from_secs(10);
/// The service account of Prometheus, unless the KubeVirt resource names another.
pub(super) const ACCOUNT: &str = "prometheus-k8s";

/// What the loop works with.
pub(super) struct Tools {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) report: Report,
    pub(super) health: Health,
    /// Whether this process leads.
    pub(super) leads: watch::Receiver<bool>,
}

/// What was last done.
#[derive(Clone, Copy, Default)]
struct Past {
    steps: Option<(Fingerprint, Instant)>,
    status: Option<(Fingerprint, Instant)>,
    /// When the status was last written, or the last attempt was.
    status_at: Option<Instant>,
}

pub(super) struct Controller {
    tools: Tools,
    options: Options,
    requests: Requests,
    kinds: Kinds,
    caches: Caches,
    watches: Watches,
    watching: BTreeMap<Watched, CancellationToken>,
    /// Watches that are refused, in the API server's words, before they have ever told all.
    unseen: BTreeMap<Watched, String>,
    streams: SelectAll<BoxStream<'static, (Watched, Told)>>,
    writing: FuturesUnordered<BoxFuture<'static, Done>>,
    served: Served,
    strategies: Strategies,
    certificates: Certificates,
    counts: BTreeMap<String, Count>,
    memory: Memory,
    backoff: Backoff<Id>,
    /// By the uid of the KubeVirt resource.
    past: BTreeMap<String, Past>,
    /// Whether what the API server serves has to be asked.
    listing: Listing,
    /// How often it was asked since a definition changed, and did not list a kind that is wanted.
    unlisted: u32,
    /// Whether the definition of the KubeVirt resource has been seen to.
    defined: bool,
    define_again: Option<Instant>,
    /// Whether there may be another plan than the last.
    due: bool,
    look_again: Option<Instant>,
    random: Random,
    synced: bool,
}

/// How far the question is what the API server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// Nothing is planned before there is an answer.
    Wanted(Option<Instant>),
    Asked,
    /// There is an answer; it is asked once more at that time.
    Known(Option<Instant>),
}

impl Controller {
    pub(super) fn new(tools: Tools, options: Options) -> Self {
        let mut random = Random::seeded(options.seed);
        let namespace = options.operator.namespace.clone();
        Self {
            requests: Requests::new(tools.client.clone(), api::kubevirt::install::FIELD_MANAGER),
            kinds: Kinds::default(),
            caches: Caches::new(),
            watches: Watches::new(tools.client.clone(), namespace),
            watching: BTreeMap::new(),
            unseen: BTreeMap::new(),
            streams: SelectAll::new(),
            writing: FuturesUnordered::new(),
            served: Served::default(),
            strategies: Strategies::new(options.strategies.clone()),
            certificates: Certificates::new(options.webhook.clone()),
            counts: BTreeMap::new(),
            memory: Memory::default(),
            backoff: Backoff::new(Schedule::OBJECT, random.fork()),
            past: BTreeMap::new(),
            listing: Listing::Wanted(None),
            unlisted: 0,
            defined: false,
            define_again: None,
            due: false,
            look_again: None,
            synced: false,
            random,
            tools,
            options,
        }
    }

    /// Keeps the installation until the token is cancelled. Writes under way are then finished.
    pub(super) async fn run(mut self, token: CancellationToken) {
        self.tools.health.set_synced(CACHES, false);
        self.note_webhook();
        for watched in [
            Watched::Definitions,
            Watched::Pods,
            Watched::Nodes,
            Watched::Namespace,
            Watched::Strategies,
            Watched::Lease,
            Watched::Accounts(ACCOUNT.to_owned()),
        ] {
            self.start_watch(watched);
        }
        let mut leads = self.tools.leads.clone();
        let mut beat = Instant::now();
        loop {
            let now = Instant::now();
            self.work(now);
            if now >= beat {
                self.tools.health.heartbeat();
                beat = now + BEAT;
            }
            let wake = self.wake().map_or(beat, |wake| wake.min(beat));
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Ok(()) = leads.changed() => self.due = true,
                Some(done) = self.writing.next(), if !self.writing.is_empty() => self.done(done),
                Some((watched, told)) = self.streams.next(), if !self.streams.is_empty() => {
                    self.told(&watched, told);
                }
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
        let seed = self.random.next();
        let told = match &watched {
            Watched::Objects((group, kind)) => {
                let resource = self.kinds.resource(group, kind);
                resource.map(|resource| self.watches.objects(resource, seed))
            }
            other => self.watches.start(other, seed),
        };
        let Some(told) = told else { return };
        let token = CancellationToken::new();
        let name = watched.clone();
        let told = told
            .map(move |told| (name.clone(), told))
            .take_until(token.clone().cancelled_owned());
        self.streams.push(told.boxed());
        self.watching.insert(watched, token);
        self.note_synced();
    }

    fn stop_watch(&mut self, watched: &Watched) {
        if let Some(token) = self.watching.remove(watched) {
            token.cancel();
            self.unseen.remove(watched);
            self.caches.forget(watched);
            tracing::info!(kind = watched.name(), "is no longer watched");
        }
    }

    /// Watches what is served, and nothing else.
    fn follow_kinds(&mut self) {
        if !self.caches.is_synced(&Watched::Definitions) {
            return;
        }
        let is_there = self.caches.has_definition(DEFINITION);
        if !is_there {
            self.defined = false;
            self.define_again = None;
        }
        if !matches!(self.listing, Listing::Known(_)) {
            return;
        }
        let served = self.kinds.served(|name| self.caches.is_defined(name));
        let mut wanted: Vec<Watched> = served
            .iter()
            .map(|resource| Watched::Objects(resource.group_kind()))
            .collect();
        // One that is being deleted goes when its objects have gone, which takes an operator.
        if is_there {
            wanted.push(Watched::KubeVirts);
        }
        let seen = served.into_iter().filter(|resource| {
            let kind = resource.group_kind();
            let is_needed = self.kinds.is_always_there(&kind);
            is_needed || !self.unseen.contains_key(&Watched::Objects(kind))
        });
        let kinds = seen.map(|resource| {
            let kind = (resource.group.to_string(), resource.kind.to_string());
            (kind, resource.version.to_string())
        });
        self.served.kinds = kinds.collect();
        let follows =
            |watched: &Watched| matches!(watched, Watched::Objects(_) | Watched::KubeVirts);
        let stale: Vec<Watched> = self.watching.keys().cloned().collect();
        for watched in stale {
            if follows(&watched) && !wanted.contains(&watched) {
                self.stop_watch(&watched);
            }
        }
        for watched in wanted {
            if !self.watching.contains_key(&watched) {
                self.start_watch(watched);
            }
        }
        self.note_synced();
    }

    /// Asks soon for kinds that were not listed, one of which a definition may have brought.
    fn seek_kinds(&mut self) {
        self.unlisted = 0;
        if let Listing::Known(again) = self.listing
            && self.kinds.lacks()
        {
            let soon = Instant::now() + Schedule::WATCH.delay(0, &mut self.random);
            self.listing = Listing::Known(Some(again.map_or(soon, |again| again.min(soon))));
        }
    }

    /// Watches the accounts that the KubeVirt resource says Prometheus has.
    fn follow_account(&mut self) {
        let kubevirts = self.caches.kubevirts.iter();
        let named = kubevirts.filter_map(|(_, kubevirt)| kubevirt.spec.monitor_account.clone());
        let account = named.last().filter(|account| !account.is_empty());
        let wanted = Watched::Accounts(account.unwrap_or_else(|| ACCOUNT.to_owned()));
        if self.watching.contains_key(&wanted) {
            return;
        }
        let stale = self.watching.keys().cloned();
        let stale: Vec<_> = stale
            .filter(|watched| matches!(watched, Watched::Accounts(_)))
            .collect();
        for watched in stale {
            self.stop_watch(&watched);
        }
        self.start_watch(wanted);
    }

    fn told(&mut self, watched: &Watched, told: Told) {
        // What a watch that was stopped has still had to say.
        if !self.watching.contains_key(watched) {
            return;
        }
        Report::of_watch(watched, &told);
        if let Told::Secret(change) = &told {
            self.certificates.told(change);
        }
        self.note_refusal(watched, &told);
        let is_secret = matches!(told, Told::Secret(_));
        let matters = self.caches.told(watched, told);
        if *watched == Watched::KubeVirts {
            let namespace = &self.options.operator.namespace;
            let kubevirts = resources::in_order(&self.caches, namespace);
            let first = kubevirts.first().map(|kubevirt| &**kubevirt);
            self.tools.report.installation(first);
        }
        // Otherwise a process that does not lead would keep what was in Secrets in all their states.
        if is_secret {
            self.follow_certificates();
        }
        if !matters {
            return;
        }
        self.due = true;
        if self.unseen.contains_key(watched) {
            self.follow_refusals();
        }
        match watched {
            Watched::Definitions => {
                self.seek_kinds();
                self.follow_kinds();
            }
            Watched::Objects((_, kind)) if &**kind == "CustomResourceDefinition" => {
                self.follow_kinds();
            }
            Watched::Accounts(_) => self.served.monitors = self.caches.accounts(),
            Watched::KubeVirts => self.follow_account(),
            _ => {}
        }
        self.note_synced();
    }

    /// Notes that a watch is refused. What is known already of its objects stays known.
    fn note_refusal(&mut self, watched: &Watched, told: &Told) {
        // Without these there is no resource that it could be told in.
        let is_first = matches!(watched, Watched::KubeVirts | Watched::Definitions);
        let Some(message) = told.refusal() else {
            return;
        };
        if is_first || self.caches.is_synced(watched) {
            return;
        }
        self.unseen.insert(watched.clone(), message.to_owned());
        self.follow_refusals();
    }

    /// Forgets the refusals of watches that have told all since, and lets plans know of the others.
    fn follow_refusals(&mut self) {
        let caches = &self.caches;
        self.unseen.retain(|watched, _| !caches.is_synced(watched));
        let unseen = self.unseen.iter().map(|(watched, message)| UnreadableKind {
            kind: watched.name().to_owned(),
            message: message.clone(),
            required: match watched {
                Watched::Objects(kind) => self.kinds.is_always_there(kind),
                _ => true,
            },
        });
        self.served.unreadable_kinds = unseen.collect();
        self.due = true;
        self.follow_kinds();
        self.note_synced();
    }

    fn note_synced(&mut self) {
        let waiting = self
            .watching
            .keys()
            .filter(|watched| !self.caches.is_synced(watched))
            .filter(|watched| !self.unseen.contains_key(watched))
            .count();
        let synced = waiting == 0
            && matches!(self.listing, Listing::Known(_))
            && self.watching.contains_key(&Watched::KubeVirts);
        if synced && !self.synced {
            tracing::info!("caches are synced");
            self.due = true;
        }
        self.synced = synced;
        let is_blind = self
            .served
            .unreadable_kinds
            .iter()
            .any(|kind| kind.required);
        let is_ready = synced && !is_blind;
        self.tools.health.set_synced(CACHES, is_ready);
        self.tools.report.ready(is_ready);
    }

    fn leads(&self) -> bool {
        *self.tools.leads.borrow()
    }

    /// When there may be something to do, unless it waits for something else than time.
    fn wake(&self) -> Option<Instant> {
        if !self.writing.is_empty() {
            return None;
        }
        let listing = match self.listing {
            Listing::Wanted(again) | Listing::Known(again) => again,
            Listing::Asked => None,
        };
        let define = self.define_again.filter(|_| !self.defined && self.leads());
        let look = self.look_again.filter(|_| self.synced && self.leads());
        [listing, define, look].into_iter().flatten().min()
    }

    /// The instant of a time of the wall clock.
    fn instant(&self, time: &Time, now: Instant) -> Instant {
        let ahead = time.0.duration_since((self.tools.clock)());
        // Not a moment too early: then nothing would be due yet.
        let ahead = ahead.max(SignedDuration::ZERO) + SignedDuration::from_millis(1);
        now + Duration::try_from(ahead).unwrap_or_default()
    }
}

/// The name in probes of the certificate that the webhook answers with.
const WEBHOOK: &str = "webhook-certificate";

/// The caches' name in probes.
const CACHES: &str = "caches";

/// The definition of the KubeVirt resource.
pub(super) const DEFINITION: &str = "kubevirts.kubevirt.io";
