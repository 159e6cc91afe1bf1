//! Control loop of the KubeVirt resource.
//!
//! An instance of [`runtime::control_loop`]. It plans one batch of writes, sends them concurrently,
//! updates the caches with their answers, and plans again until the plan is empty.
//!
//! A refused write is retried with backoff per object; meanwhile the plan takes it into account, and the
//! status says why.

mod reconcile;
mod write;

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use api::Time;
use apimachinery::retry_ledger::RetryLedger;
use jiff::SignedDuration;
use kube::Client;
use plan::kubevirt::{
    Action, Fingerprint, PlanCaches,
    observed::{Count, Memory, Served, UnreadableKind},
};
use runtime::{
    backoff::{Random, Schedule},
    control_loop::{self, Inputs},
    probes::Health,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use self::write::CompletedRequest;
use super::{
    Clock, Options,
    caches::Caches,
    certificates::Certificates,
    definition::DEFINITION,
    kinds::Kinds,
    report::Report,
    resources,
    strategies::Strategies,
    watches::{KindEvent, Watched, Watches},
};
use crate::requests::Requests;

/// Delay before identical writes are repeated while the caches do not show their effect.
const REPEAT_WRITE_DELAY: Duration = Duration::from_secs(10);
/// Minimum time between status writes while only messages change.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Dependencies of the control loop.
pub(super) struct Dependencies {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) report: Report,
    pub(super) health: Health,
    pub(super) leads: watch::Receiver<bool>,
}

/// Latest writes for a KubeVirt resource, so that they are not repeated before the caches show them.
#[derive(Default)]
struct LastWrites {
    steps: Option<(Vec<Action>, Instant)>,
    status: Option<(Fingerprint, Instant)>,
    /// Time of the latest status write, successful or not.
    status_at: Option<Instant>,
}

pub(super) struct Controller {
    inputs: Inputs<Self>,
    deps: Dependencies,
    options: Options,
    requests: Requests,
    kinds: Kinds,
    caches: Caches,
    watches: Watches,
    /// Refused watches that have never synced, with the API server's message.
    refused_watches: BTreeMap<Watched, String>,
    served: Served,
    strategies: Strategies,
    certificates: Certificates,
    counts: BTreeMap<String, Count>,
    memory: Memory,
    plan_caches: PlanCaches,
    /// Jitter of retries.
    jitter: Random,
    /// By UID of the KubeVirt resource.
    last_writes: BTreeMap<String, LastWrites>,
    discovery: Discovery,
    /// Number of discovery requests since a definition changed that lacked a needed kind.
    incomplete_discoveries: u32,
    /// Whether the CustomResourceDefinition of KubeVirt is installed and up to date.
    is_crd_installed: bool,
    /// Failed installations of this definition, by its name.
    crd_retries: RetryLedger<&'static str, (), Instant>,
    /// Whether something changed since the last plan.
    is_due: bool,
    requeue_at: Option<Instant>,
    random: Random,
    synced: bool,
}

impl control_loop::Controller for Controller {
    const NAME: &'static str = "KubeVirt controller";
    const HAS_HEARTBEAT: bool = true;

    type Watched = Watched;
    type WatchEvent = KindEvent;
    type Completed = CompletedRequest;
    type Query = Infallible;

    fn inputs(&mut self) -> &mut Inputs<Self> {
        &mut self.inputs
    }

    fn leadership(&self) -> Option<watch::Receiver<bool>> {
        Some(self.deps.leads.clone())
    }

    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        self.start_work(now);
        self.next_wake()
    }

    fn on_event(&mut self, watched: Watched, event: KindEvent) {
        self.on_watch_event(&watched, event);
    }

    fn on_completed(&mut self, completed: CompletedRequest) {
        self.on_request_completed(completed);
    }

    fn on_query(&mut self, query: Infallible) {
        match query {}
    }

    fn on_leadership_change(&mut self) {
        self.is_due = true;
    }

    fn on_heartbeat(&mut self, _now: Instant) {
        self.deps.health.heartbeat();
    }
}

/// State of the discovery of served kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discovery {
    /// Needed before the next plan; sent at this time.
    Needed(Option<Instant>),
    InFlight,
    /// Complete; repeated at this time.
    Complete(Option<Instant>),
}

impl Controller {
    pub(super) fn new(deps: Dependencies, options: Options) -> Self {
        let mut random = Random::seeded(options.seed);
        let namespace = options.operator.namespace.clone();
        Self {
            inputs: Inputs::default(),
            requests: Requests::new(deps.client.clone(), api::kubevirt::install::FIELD_MANAGER),
            kinds: Kinds::default(),
            caches: Caches::new(),
            watches: Watches::new(deps.client.clone(), namespace),
            refused_watches: BTreeMap::new(),
            served: Served::default(),
            strategies: Strategies::new(options.strategies.clone()),
            certificates: Certificates::new(options.webhook.clone()),
            counts: BTreeMap::new(),
            memory: Memory::default(),
            plan_caches: PlanCaches::default(),
            jitter: random.fork(),
            last_writes: BTreeMap::new(),
            discovery: Discovery::Needed(None),
            incomplete_discoveries: 0,
            is_crd_installed: false,
            crd_retries: RetryLedger::default(),
            is_due: false,
            requeue_at: None,
            synced: false,
            random,
            deps,
            options,
        }
    }

    /// Reconciles until the token is cancelled, then finishes the writes in flight.
    pub(super) async fn run(mut self, token: CancellationToken) {
        self.deps.health.set_synced(CACHES, false);
        self.report_webhook();
        let built_in = |watched: &Watched| watched.definition().is_none();
        for watched in Watched::OWN.into_iter().filter(built_in) {
            self.start_watch(watched);
        }
        control_loop::run(self, token).await;
    }

    fn start_watch(&mut self, watched: Watched) {
        let seed = self.random.next();
        let Some(events) = self.watches.start(&watched, &self.kinds, seed) else {
            return;
        };
        self.inputs.watches.start(watched, events);
        self.update_synced();
    }

    fn stop_watch(&mut self, watched: &Watched) {
        if self.inputs.watches.stop(watched) {
            self.refused_watches.remove(watched);
            self.caches.forget(watched);
            tracing::info!(
                kind = watched.name(),
                "stopped watching {}: no longer served, or no longer needed",
                watched.name()
            );
        }
    }

    /// Starts and stops watches so that exactly the served kinds are watched.
    fn update_watches(&mut self) {
        if !self.caches.is_synced(&Watched::Definitions) {
            return;
        }
        let has_crd = self.caches.has_definition(DEFINITION);
        if !has_crd {
            self.is_crd_installed = false;
            self.crd_retries.reschedule(&DEFINITION, Instant::now());
        }
        if !matches!(self.discovery, Discovery::Complete(_)) {
            return;
        }
        let served = self.kinds.served(|name| self.caches.is_defined(name));
        let mut wanted: Vec<Watched> = served
            .iter()
            .map(|resource| Watched::Objects(resource.group_kind()))
            .collect();
        // Also while the definition is being deleted: it waits for the operator to remove its objects.
        wanted.extend(Watched::OWN.into_iter().filter(|watched| {
            let definition = watched.definition();
            definition.is_some_and(|name| self.caches.has_definition(name))
        }));
        let readable = served.into_iter().filter(|resource| {
            let kind = resource.group_kind();
            let is_needed = self.kinds.is_always_served(&kind);
            is_needed || !self.refused_watches.contains_key(&Watched::Objects(kind))
        });
        let kinds = readable.map(|resource| {
            let kind = (resource.group.to_string(), resource.kind.to_string());
            (kind, resource.version.to_string())
        });
        self.served.kinds = kinds.collect();
        let depends_on_discovery = |watched: &Watched| {
            matches!(watched, Watched::Objects(_)) || watched.definition().is_some()
        };
        let stale: Vec<Watched> = self.inputs.watches.keys().cloned().collect();
        for watched in stale {
            if depends_on_discovery(&watched) && !wanted.contains(&watched) {
                self.stop_watch(&watched);
            }
        }
        for watched in wanted {
            if !self.inputs.watches.contains(&watched) {
                self.start_watch(watched);
            }
        }
        self.update_synced();
    }

    /// Repeats discovery soon if a needed kind is missing: a new definition may serve it.
    fn schedule_discovery(&mut self) {
        self.incomplete_discoveries = 0;
        if let Discovery::Complete(again) = self.discovery
            && self.kinds.is_incomplete()
        {
            let soon = Instant::now() + Schedule::WATCH.delay(0, &mut self.random);
            self.discovery = Discovery::Complete(Some(again.map_or(soon, |again| again.min(soon))));
        }
    }

    /// Watches the service account of Prometheus that the KubeVirt resource names.
    fn watch_prometheus_account(&mut self) {
        let kubevirts = self.caches.kubevirts.iter();
        let named = kubevirts.filter_map(|(_, kubevirt)| kubevirt.spec.monitor_account.clone());
        let account = named.last();
        if self.watches.set_prometheus_account(account.as_deref()) {
            self.stop_watch(&Watched::Accounts);
            self.start_watch(Watched::Accounts);
        }
    }

    fn on_watch_event(&mut self, watched: &Watched, event: KindEvent) {
        event.log(watched.name());
        if let KindEvent::Secret(change) = &event {
            self.certificates.on_event(change);
        }
        self.on_watch_refused(watched, &event);
        let is_secret = matches!(event, KindEvent::Secret(_));
        let is_relevant = self.caches.on_event(watched, event);
        if *watched == Watched::KubeVirts {
            let namespace = &self.options.operator.namespace;
            let kubevirts = resources::in_order(&self.caches, namespace);
            let first = kubevirts.first().map(|kubevirt| &**kubevirt);
            self.deps.report.installation(first);
        }
        // At once, so that a standby replica does not accumulate versions of Secrets.
        if is_secret {
            self.update_certificates();
        }
        if !is_relevant {
            return;
        }
        self.is_due = true;
        if self.refused_watches.contains_key(watched) {
            self.update_refused_watches();
        }
        match watched {
            Watched::Definitions => {
                self.schedule_discovery();
                self.update_watches();
            }
            Watched::Objects((_, kind)) if &**kind == "CustomResourceDefinition" => {
                self.update_watches();
            }
            Watched::Accounts => self.served.monitors = self.caches.accounts(),
            Watched::KubeVirts => self.watch_prometheus_account(),
            _ => {}
        }
        self.update_synced();
    }

    /// Records that a watch is refused. Objects that are already cached stay.
    fn on_watch_refused(&mut self, watched: &Watched, event: &KindEvent) {
        let Some(message) = event.refusal() else {
            return;
        };
        if watched.is_essential() || self.caches.is_synced(watched) {
            return;
        }
        self.refused_watches
            .insert(watched.clone(), message.to_owned());
        self.update_refused_watches();
    }

    /// Drops refusals of watches that have synced since, and passes the others to the next plan.
    fn update_refused_watches(&mut self) {
        let caches = &self.caches;
        self.refused_watches
            .retain(|watched, _| !caches.is_synced(watched));
        let unreadable = self
            .refused_watches
            .iter()
            .map(|(watched, message)| UnreadableKind {
                kind: watched.name().to_owned(),
                message: message.clone(),
                required: match watched {
                    Watched::Objects(kind) => self.kinds.is_always_served(kind),
                    _ => true,
                },
            });
        self.served.unreadable_kinds = unreadable.collect();
        self.is_due = true;
        self.update_watches();
        self.update_synced();
    }

    fn update_synced(&mut self) {
        let waiting = self
            .inputs
            .watches
            .keys()
            .filter(|watched| !self.caches.is_synced(watched))
            .filter(|watched| !self.refused_watches.contains_key(watched))
            .count();
        let synced = waiting == 0
            && matches!(self.discovery, Discovery::Complete(_))
            && self.inputs.watches.contains(&Watched::KubeVirts);
        if synced && !self.synced {
            tracing::info!("KubeVirt controller: caches are synced");
            self.is_due = true;
        }
        self.synced = synced;
        let lacks_permission = self
            .served
            .unreadable_kinds
            .iter()
            .any(|kind| kind.required);
        let is_ready = synced && !lacks_permission;
        self.deps.health.set_synced(CACHES, is_ready);
        self.deps.report.ready(is_ready);
    }

    fn leads(&self) -> bool {
        *self.deps.leads.borrow()
    }

    /// Time of the next timer, if work is waiting for time alone.
    fn next_wake(&self) -> Option<Instant> {
        if !self.inputs.in_flight.is_empty() {
            return None;
        }
        let discovery = match self.discovery {
            Discovery::Needed(at) | Discovery::Complete(at) => at,
            Discovery::InFlight => None,
        };
        let crd = self.crd_retries.retry_at(&DEFINITION);
        let crd = crd.filter(|_| !self.is_crd_installed && self.leads());
        let requeue = self.requeue_at.filter(|_| self.synced && self.leads());
        [discovery, crd, requeue].into_iter().flatten().min()
    }

    /// Instant of a wall clock time.
    fn instant(&self, time: &Time, now: Instant) -> Instant {
        let ahead = time.0.duration_since((self.deps.clock)());
        // Rounded up: too early, nothing would be due.
        let ahead = ahead.max(SignedDuration::ZERO) + SignedDuration::from_millis(1);
        now + Duration::try_from(ahead).unwrap_or_default()
    }
}

/// Name of the webhook's certificate in probes.
const WEBHOOK: &str = "webhook-certificate";

/// Name of the caches in probes.
const CACHES: &str = "caches";
