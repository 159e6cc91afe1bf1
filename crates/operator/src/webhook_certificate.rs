//! Controller of the Machine webhook's serving certificate.
//!
//! Every replica watches the Secret with the certificate and serves its current version. If the
//! certificates are managed, the leader issues and rotates them, and maintains the CA bundle in the
//! ValidatingWebhookConfiguration, as planned by [`plan::webhook_certificate`].
//!
//! Guaranteed:
//! - Only Secrets with the operator's label are written, and of the configuration only `caBundle` of the
//!   webhooks that call the operator's Service. A write fails if somebody else changed the object.
//! - Nothing is written while this process does not lead, nor if certificates are external.
//! - No request is sent without need: Secrets and configuration are watched, and a timer fires when a
//!   certificate is due.
//! - Repeated writes to one object, because somebody else reverts them, are rate limited and logged. An
//!   object that cannot be written does not block the others.
//! - Failures do not affect the rest of the operator: they are logged, shown by the probe and retried,
//!   and the previous certificate stays in use.

mod cache;
mod rate_limit;
mod write;

use std::{collections::BTreeSet, time::Duration};

use api::Time;
use futures::{
    StreamExt as _,
    future::{BoxFuture, OptionFuture},
    stream::{BoxStream, SelectAll},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret,
};
use kube::{Api, Client};
use plan::webhook_certificate::{Names, Plan, plan};
use runtime::{
    backoff::Random,
    probes::Health,
    reflector::{self, WatchEvent},
    tls::Certificate,
};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};
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
        let mut streams = self.watch(&mut random);
        let mut state = State {
            writer: Writer::new(self.open, self.client, self.names.clone()),
            cache: CertificateCache::new(self.names.clone(), self.certificates),
            limiter: WriteLimiter::new(random.fork()),
            names: self.names,
            certificates: self.certificates,
            certificate: self.certificate,
            clock: self.clock,
            metrics: self.metrics,
            health: self.health,
            in_flight: None,
            problems: BTreeSet::new(),
        };
        let mut leads = self.leads;
        loop {
            let wake = state.reconcile(*leads.borrow_and_update());
            let in_flight = OptionFuture::from(state.in_flight.as_mut());
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Some((object, result)) = in_flight => state.on_written(object, result),
                Some(event) = streams.next() => state.on_event(event),
                () = changed(&mut leads) => {}
                () = sleep_until(wake) => {}
            }
        }
        if let Some(in_flight) = state.in_flight {
            // The next leader observes its effect.
            let _ = in_flight.await;
        }
    }

    fn watch(&self, random: &mut Random) -> SelectAll<BoxStream<'static, KindEvent>> {
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
        let mut streams = SelectAll::new();
        let events = reflector::reflector(secrets(), named(secret), random.fork(), |secret| secret);
        streams.push(events.map(KindEvent::Secret).boxed());
        if self.certificates == Certificates::Managed {
            let authority = named(&self.names.authority());
            let events = reflector::reflector(secrets(), authority, random.fork(), |secret| secret);
            streams.push(events.map(KindEvent::Authority).boxed());
            let all = Api::<ValidatingWebhookConfiguration>::all(self.open.clone());
            let events =
                reflector::reflector(all, named(configuration), random.fork(), |found| found);
            streams.push(events.map(KindEvent::Configuration).boxed());
        }
        streams
    }
}

/// Waits for a change of leadership; forever if the sender is gone.
async fn changed(leads: &mut Receiver<bool>) {
    if leads.changed().await.is_err() {
        std::future::pending::<()>().await;
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
    writer: Writer,
    cache: CertificateCache,
    limiter: WriteLimiter,
    names: Names,
    certificates: Certificates,
    certificate: Certificate,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    in_flight: Option<BoxFuture<'static, (Object, Result<Answer, Failure>)>>,
    /// Current problems, so that each is logged once.
    problems: BTreeSet<String>,
}

impl State {
    /// Reports the state, starts the next write, and returns when to wake up.
    fn reconcile(&mut self, leads: bool) -> Instant {
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
        if self.in_flight.is_some() {
            return wake;
        }
        for write in writes {
            let object = Object::of(&write, &self.names);
            if let Some(at) = self.limiter.delayed_until(object, Instant::now()) {
                wake = wake.min(at);
                continue;
            }
            let write = self.writer.execute(write, &self.cache);
            self.in_flight = Some(Box::pin(async move { (object, write.await) }));
            break;
        }
        wake
    }

    fn on_event(&mut self, event: KindEvent) {
        match event {
            KindEvent::Secret(change) => {
                self.reset_retries(Object::Secret, &change);
                change.log(&self.names.secret);
                self.cache.on_secret(change, &self.certificate);
            }
            KindEvent::Authority(change) => {
                self.reset_retries(Object::Authority, &change);
                change.log(&self.names.authority());
                self.cache.on_authority(change);
            }
            KindEvent::Configuration(change) => {
                self.reset_retries(Object::Configuration, &change);
                change.log("validatingwebhookconfigurations");
                self.cache.on_configuration(change);
            }
        }
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
        self.in_flight = None;
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
