//! Controller of the Machine webhook's serving certificate.
//!
//! Every replica watches the Secret with the certificate and serves its current version. If the
//! certificates are managed, the leader issues and rotates them, and maintains the CA bundle in the
//! ValidatingWebhookConfiguration, as planned by [`plan::webhook_certificate`].
//!
//! Guaranteed:
//! - Only Secrets with the operator's label are written, and of the configuration only `caBundle` of the
//!   webhooks that call the operator's Service. A write fails if someone else changed the object.
//! - Nothing is written while this process does not lead, nor if certificates are external.
//! - No request is sent without need: Secrets and configuration are watched, and a timer fires when a
//!   certificate is due.
//! - Repeated writes to one object, because someone else reverts them, are rate limited and logged. An
//!   object that cannot be written does not block the others.
//! - Failures do not affect the rest of the operator: they are logged, shown by the probe and retried,
//!   and the previous certificate stays in use.

mod cache;
mod rate_limit;
mod write;

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use api::Time;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret,
};
use kube::{Api, Client};
use plan::webhook_certificate::{Names, Plan, plan};
use runtime::{
    backoff::Random,
    control_loop::{self, Controller, Inputs, Watches},
    probes::Health,
    reflector::{self, WatchEvent},
    tls::Certificate,
};
use tokio::{sync::watch::Receiver, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{
    cache::CertificateCache,
    rate_limit::WriteLimiter,
    write::{Answer, Failure, Object, Writer},
};
use crate::machine::Clock;
use crate::metrics::Metrics;

/// Longest sleep: the wall clock may be changed, and the host may be suspended. Waking up costs no request.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

const MIN_SLEEP: Duration = Duration::from_secs(1);

/// Name in the readiness probe.
const NEED: &str = "webhook";

/// Issuer of the certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// This operator.
    #[default]
    Managed,
    /// Another controller, such as cert-manager.
    External,
}

/// Controller of the webhook's certificate.
pub struct CertificateController {
    /// Client for reads, whether this process leads or not.
    pub open: Client,
    /// Client for writes, fenced by leadership.
    pub client: Client,
    pub names: Names,
    pub certificates: Certificates,
    /// Certificate that the webhook serves.
    pub certificate: Certificate,
    pub clock: Clock,
    pub metrics: Metrics,
    pub health: Health,
    pub leads: Receiver<bool>,
    /// Seed of the random generator.
    pub seed: u64,
}

/// Event of one of the watches.
enum KindEvent {
    Secret(WatchEvent<Secret>),
    Authority(WatchEvent<Secret>),
    Configuration(WatchEvent<ValidatingWebhookConfiguration>),
}

impl CertificateController {
    /// Runs until the token is cancelled, then finishes the write in flight.
    pub async fn run(self, token: CancellationToken) {
        let mut random = Random::seeded(self.seed);
        let mut inputs = Inputs::default();
        self.start_watches(&mut inputs.watches, &mut random);
        let state = State {
            inputs,
            writer: Writer::new(self.open, self.client, self.names.clone()),
            cache: CertificateCache::new(self.names.clone(), self.certificates),
            limiter: WriteLimiter::new(random.fork()),
            names: self.names,
            certificates: self.certificates,
            certificate: self.certificate,
            clock: self.clock,
            metrics: self.metrics,
            health: self.health,
            leads: self.leads,
            problems: BTreeSet::new(),
        };
        control_loop::run(state, token).await;
    }

    fn start_watches(&self, watches: &mut Watches<Object, KindEvent>, random: &mut Random) {
        let Names {
            namespace,
            configuration,
            secret,
            ..
        } = &self.names;
        // With these selectors, permissions on named objects are enough.
        let named = |name: &str| reflector::Config {
            field_selector: Some(format!("metadata.name={name}")),
            ..reflector::Config::default()
        };
        let secrets = || Api::<Secret>::namespaced(self.open.clone(), namespace);
        let events = reflector::reflector(secrets(), named(secret), random.fork(), |secret| secret);
        watches.start(Object::Secret, events.map(KindEvent::Secret));
        if self.certificates == Certificates::Managed {
            let authority = named(&self.names.authority());
            let events = reflector::reflector(secrets(), authority, random.fork(), |secret| secret);
            watches.start(Object::Authority, events.map(KindEvent::Authority));
            let all = Api::<ValidatingWebhookConfiguration>::all(self.open.clone());
            let events =
                reflector::reflector(all, named(configuration), random.fork(), |found| found);
            watches.start(Object::Configuration, events.map(KindEvent::Configuration));
        }
    }
}

/// Instant to wake up at for a wall clock time.
fn wake_at(now: Timestamp, at: Option<Timestamp>) -> Instant {
    let left = at.map_or(MAX_SLEEP, |at| {
        Duration::try_from(at.duration_since(now)).unwrap_or_default()
    });
    Instant::now() + left.clamp(MIN_SLEEP, MAX_SLEEP)
}

struct State {
    inputs: Inputs<Self>,
    writer: Writer,
    cache: CertificateCache,
    limiter: WriteLimiter,
    names: Names,
    certificates: Certificates,
    certificate: Certificate,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    leads: Receiver<bool>,
    /// Current problems, so that each is logged once.
    problems: BTreeSet<String>,
}

impl Controller for State {
    const NAME: &'static str = "controller of the webhook's certificate";

    type Watched = Object;
    type WatchEvent = KindEvent;
    type Completed = (Object, Result<Answer, Failure>);
    type Query = Infallible;

    fn inputs(&mut self) -> &mut Inputs<Self> {
        &mut self.inputs
    }

    fn leadership(&self) -> Option<Receiver<bool>> {
        Some(self.leads.clone())
    }

    fn start_due(&mut self, _now: Instant) -> Option<Instant> {
        Some(self.reconcile())
    }

    fn on_event(&mut self, object: Object, event: KindEvent) {
        match event {
            KindEvent::Secret(change) => {
                self.reset_retries(object, &change);
                change.log(&self.names.secret);
                self.cache.on_secret(change, &self.certificate);
            }
            KindEvent::Authority(change) => {
                self.reset_retries(object, &change);
                change.log(&self.names.authority());
                self.cache.on_authority(change);
            }
            KindEvent::Configuration(change) => {
                self.reset_retries(object, &change);
                change.log("validatingwebhookconfigurations");
                self.cache.on_configuration(change);
            }
        }
    }

    fn on_completed(&mut self, (object, result): (Object, Result<Answer, Failure>)) {
        self.on_written(object, result);
    }

    fn on_query(&mut self, query: Infallible) {
        match query {}
    }
}

impl State {
    /// Reports the state, starts the next write, and returns when to wake up.
    fn reconcile(&mut self) -> Instant {
        let leads = *self.leads.borrow();
        let now = (self.clock)();
        self.report(leads, now);
        let turns = self.cache.next_validity_change(now);
        let is_kept = leads && self.certificates == Certificates::Managed;
        if !is_kept || !self.cache.is_synced() {
            return wake_at(now, turns);
        }
        let Plan { writes, requeue_at } =
            plan(&self.names, &self.cache.observed().borrowed(), &Time(now));
        let requeue_at = requeue_at.map(|at| at.0);
        let mut wake = wake_at(now, turns.into_iter().chain(requeue_at).min());
        if !self.inputs.in_flight.is_empty() {
            return wake;
        }
        for write in writes {
            let object = Object::of(&write, &self.names);
            if let Some(at) = self.limiter.delayed_until(object, Instant::now()) {
                wake = wake.min(at);
                continue;
            }
            let write = self.writer.execute(write, &self.cache);
            let request = async move { (object, write.await) };
            self.inputs.in_flight.push_write(request);
            break;
        }
        wake
    }

    /// Allows failed writes that depend on a changed object to be retried at once.
    fn reset_retries<T>(&mut self, object: Object, change: &WatchEvent<T>) {
        if matches!(change, WatchEvent::Failing(_)) {
            return;
        }
        let now = Instant::now();
        for object in object.dependents() {
            self.limiter.reset_retry(*object, now);
        }
    }

    fn on_written(&mut self, object: Object, result: Result<Answer, Failure>) {
        let now = Instant::now();
        match result {
            Ok(answer) => {
                if let Some(delay) = self.limiter.written(object, now) {
                    tracing::warn!(
                        "{} was written repeatedly, perhaps because another client reverts the \
                         changes: pausing writes to it for {} s",
                        answer.object(),
                        delay.as_secs(),
                    );
                }
                self.cache.on_answer(answer, &self.certificate);
            }
            Err(Failure::Conflict(message)) => {
                if self.limiter.conflicted(object, now) {
                    tracing::warn!("cannot update the webhook's certificates: {message}");
                } else {
                    tracing::debug!(
                        "the webhook's certificates were changed concurrently: {message}"
                    );
                }
            }
            Err(Failure::Other(message)) => {
                self.limiter.failed(object, now);
                tracing::warn!("cannot update the webhook's certificates: {message}");
            }
        }
    }

    fn report(&mut self, leads: bool, now: Timestamp) {
        // A standby replica cannot issue a certificate, so it must not be unready without one: a
        // rollout that enables the webhook waits for it before the old leader stops.
        let is_standby = self.certificates == Certificates::Managed && !leads;
        let met = if is_standby {
            self.cache.is_listed()
        } else {
            self.cache.is_trusted(now)
        };
        self.health.set_requirement(NEED, met);
        self.metrics.set_certificates(&self.cache.validities());
        let problems = self.cache.problems();
        for problem in problems.difference(&self.problems) {
            tracing::warn!("{problem}");
        }
        self.problems = problems;
    }
}
