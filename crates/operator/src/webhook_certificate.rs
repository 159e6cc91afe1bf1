//! The certificate of the Machine operator's webhook.
//!
//! Every replica watches the Secret with the certificate and serves what is in it from the moment it
//! is told. If the certificates are managed, the replica that leads makes them, replaces them in time
//! and keeps the bundle of their CAs in the configuration by which API servers find the webhook, as
//! [`plan::webhook_certificate`] says.
//!
//! Guaranteed:
//! - Only Secrets with our label are written, and of the configuration only `caBundle` of those
//!   webhooks that call our Service. A write fails if somebody was faster.
//! - Nothing is written while this process does not lead, and nothing at all if the certificates are
//!   somebody else's.
//! - When there is nothing to do, no request is made: Secrets and configuration are watched, and a
//!   timer tells when a certificate is due.
//! - Nothing is written as fast as the API server answers: what does not last is written less and less
//!   often, and told in the log. An object that cannot be written does not hold up the others.
//! - Whatever goes wrong here harms nothing else: it is told in the log and by the probe, tried again
//!   later, and what was served before is served on.

mod pace;
mod seen;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

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
    pace::Pace,
    seen::Seen,
    write::{Answer, Failure, Object, Writer},
};
use crate::machine::Clock;
use crate::metrics::Metrics;

/// How long at most until it is looked at the time again: a clock may be set, and a machine may
/// sleep. It costs no request.
const LONGEST: Duration = Duration::from_secs(3600);

/// How soon at the least.
const SHORTEST: Duration = Duration::from_secs(1);

/// What the probe calls it.
const NEED: &str = "webhook";

/// Who sees to the certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// This operator.
    #[default]
    Managed,
    /// Somebody else, such as cert-manager.
    External,
}

/// Keeps the certificate of the webhook.
pub struct Keeper {
    /// Reads from the API server, whether this process leads or not.
    pub open: Client,
    /// Writes to the API server. It must refuse to when this process does not lead.
    pub client: Client,
    /// What everything is called.
    pub names: Names,
    /// Who sees to the certificates.
    pub certificates: Certificates,
    /// What the webhook answers with.
    pub certificate: Certificate,
    /// Tells what time it is.
    pub clock: Clock,
    /// Where it is told how long certificates are valid.
    pub metrics: Metrics,
    /// Where it is told whether the webhook can be trusted.
    pub health: Health,
    /// Whether this process leads.
    pub leads: Receiver<bool>,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// What a watch tells.
enum Told {
    Secret(WatchEvent<Secret>),
    Authority(WatchEvent<Secret>),
    Configuration(WatchEvent<ValidatingWebhookConfiguration>),
}

impl Keeper {
    /// Keeps it until the token is cancelled. A write under way is then finished.
    pub async fn run(self, token: CancellationToken) {
        let mut random = Random::seeded(self.seed);
        let mut streams = self.watch(&mut random);
        let mut state = State {
            writer: Writer::new(self.open, self.client, self.names.clone()),
            seen: Seen::new(self.names.clone(), self.certificates),
            paces: BTreeMap::new(),
            random: random.fork(),
            names: self.names,
            certificates: self.certificates,
            certificate: self.certificate,
            clock: self.clock,
            metrics: self.metrics,
            health: self.health,
            writing: None,
            problems: BTreeSet::new(),
        };
        let mut leads = self.leads;
        loop {
            let wake = state.look(*leads.borrow_and_update());
            let writing = OptionFuture::from(state.writing.as_mut());
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                Some((object, answer)) = writing => state.answered(object, answer),
                Some(told) = streams.next() => state.told(told),
                () = changed(&mut leads) => {}
                () = sleep_until(wake) => {}
            }
        }
        if let Some(writing) = state.writing {
            // What has come of it is seen by whoever goes on.
            let _ = writing.await;
        }
    }

    fn watch(&self, random: &mut Random) -> SelectAll<BoxStream<'static, Told>> {
        let Names {
            namespace,
            configuration,
            secret,
            ..
        } = &self.names;
        // With these selectors, rights to these very objects are enough.
        let named = |name: &str| reflector::Config {
            field_selector: Some(format!("metadata.name={name}")),
            ..reflector::Config::default()
        };
        let secrets = || Api::<Secret>::namespaced(self.open.clone(), namespace);
        let mut streams = SelectAll::new();
        let told = reflector::reflector(secrets(), named(secret), random.fork(), |secret| secret);
        streams.push(told.map(Told::Secret).boxed());
        if self.certificates == Certificates::Managed {
            let authority = named(&self.names.authority());
            let told = reflector::reflector(secrets(), authority, random.fork(), |secret| secret);
            streams.push(told.map(Told::Authority).boxed());
            let all = Api::<ValidatingWebhookConfiguration>::all(self.open.clone());
            let told =
                reflector::reflector(all, named(configuration), random.fork(), |found| found);
            streams.push(told.map(Told::Configuration).boxed());
        }
        streams
    }
}

/// Ends when it is told whether this process leads; never, if nobody tells.
async fn changed(leads: &mut Receiver<bool>) {
    if leads.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The moment of a time, or when to look at the clock again.
fn soon(now: Timestamp, at: Option<Timestamp>) -> Instant {
    let left = at.map_or(LONGEST, |at| {
        Duration::try_from(at.duration_since(now)).unwrap_or_default()
    });
    Instant::now() + left.clamp(SHORTEST, LONGEST)
}

struct State {
    writer: Writer,
    seen: Seen,
    /// By what is written.
    paces: BTreeMap<Object, Pace>,
    random: Random,
    names: Names,
    certificates: Certificates,
    certificate: Certificate,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    /// The write under way.
    writing: Option<BoxFuture<'static, (Object, Result<Answer, Failure>)>>,
    /// What has been told in the log and is still so.
    problems: BTreeSet<String>,
}

impl State {
    /// Tells how things are, begins what is to be done, and says when to look again.
    fn look(&mut self, leads: bool) -> Instant {
        let now = (self.clock)();
        self.tell(leads, now);
        let turns = self.seen.turns(now);
        let is_kept = leads && self.certificates == Certificates::Managed;
        if !is_kept || !self.seen.is_complete() {
            return soon(now, turns);
        }
        let Plan { writes, requeue_at } =
            plan(&self.names, &self.seen.observed().borrowed(), &Time(now));
        let requeue_at = requeue_at.map(|at| at.0);
        let mut wake = soon(now, turns.into_iter().chain(requeue_at).min());
        if self.writing.is_some() {
            return wake;
        }
        for write in writes {
            let object = Object::of(&write, &self.names);
            let pace = self.paces.get(&object);
            if let Some(until) = pace.and_then(|pace| pace.waits(Instant::now())) {
                wake = wake.min(until);
                continue;
            }
            let writing = self.writer.carry_out(write, &self.seen);
            self.writing = Some(Box::pin(async move { (object, writing.await) }));
            break;
        }
        wake
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Secret(change) => {
                self.note(Object::Secret, &change);
                change.log(&self.names.secret);
                self.seen.secret(change, &self.certificate);
            }
            Told::Authority(change) => {
                self.note(Object::Authority, &change);
                change.log(&self.names.authority());
                self.seen.authority(change);
            }
            Told::Configuration(change) => {
                self.note(Object::Configuration, &change);
                change.log("validatingwebhookconfigurations");
                self.seen.configuration(change);
            }
        }
    }

    fn note<T>(&mut self, object: Object, change: &WatchEvent<T>) {
        if matches!(change, WatchEvent::Failing(_)) {
            return;
        }
        for object in object.concerns() {
            if let Some(pace) = self.paces.get_mut(object) {
                pace.changed();
            }
        }
    }

    fn answered(&mut self, object: Object, answer: Result<Answer, Failure>) {
        self.writing = None;
        let now = Instant::now();
        let (paces, random) = (&mut self.paces, &mut self.random);
        let pace = paces
            .entry(object)
            .or_insert_with(|| Pace::new(random.fork()));
        match answer {
            Ok(answer) => {
                if let Some(rest) = pace.written(now) {
                    tracing::warn!(
                        "{} is written again and again: somebody else may change it back; it is \
                         left alone for {} s",
                        answer.object(),
                        rest.as_secs(),
                    );
                }
                self.seen.take(answer, &self.certificate);
            }
            Err(Failure::Conflict(words)) => {
                if pace.conflicted(now) {
                    tracing::warn!("the certificates of the webhook cannot be kept: {words}");
                } else {
                    tracing::debug!("the certificates of the webhook were changed: {words}");
                }
            }
            Err(Failure::Said(words)) => {
                pace.failed(now);
                tracing::warn!("the certificates of the webhook cannot be kept: {words}");
            }
        }
    }

    fn tell(&mut self, leads: bool, now: Timestamp) {
        // One that stands by cannot mend what only the leader makes. It may stand by for a replica that
        // does not: a rollout that turns the webhook on waits for this one to be ready.
        let is_others = self.certificates == Certificates::Managed && !leads;
        let met = if is_others {
            self.seen.is_known()
        } else {
            self.seen.is_trusted(now)
        };
        self.health.set_requirement(NEED, met);
        self.metrics.set_certificates(&self.seen.validities());
        let problems = self.seen.problems();
        for problem in problems.difference(&self.problems) {
            tracing::warn!("{problem}");
        }
        self.problems = problems;
    }
}
