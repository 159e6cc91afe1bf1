//! Requests of the KubeVirt controller: sends a batch of writes and reads, and processes the answers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::{Time, kubevirt::install::KubeVirt};
use jiff::SignedDuration;
use kube::{Error, ResourceExt as _};
use plan::{
    Event,
    kubevirt::{
        Fingerprint, Id,
        cause::{Cause, Kind, kind},
        observed::{Memory, Refusal},
    },
};
use runtime::backoff::Schedule;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::{Controller, Discovery, LastWrites};
use crate::kubevirt::{
    definition::{self, DEFINITION},
    execute::{self, Answer, Executor, Failure, Target, Work},
    kinds,
    report::Report,
    strategies::{self, Read},
};

/// Maximum number of writes in flight.
const CONCURRENCY: usize = 10;

/// Number of discovery requests for a missing kind, over about a minute.
const MAX_DISCOVERIES: u32 = 6;

pub(in crate::kubevirt) enum CompletedRequest {
    Step {
        uid: String,
        subject: Id,
        fingerprint: Option<Fingerprint>,
        event: Option<Event>,
        answers: Result<Vec<Answer>, Failure>,
    },
    Status {
        uid: String,
        subject: Id,
        fingerprint: Fingerprint,
        events: Vec<Event>,
        answers: Result<Vec<Answer>, Failure>,
    },
    Discovery(Result<kinds::Listing, Error>),
    CrdInstalled(Result<(), Failure>),
    StrategyRead(Box<Read>),
    /// A step that was not sent, because another one was refused for a cause that they may share.
    Skipped,
}

/// Refusals in a batch of writes, because of which its remaining writes are skipped.
#[derive(Clone, Default)]
struct BatchRefusals(Arc<Mutex<Refusals>>);

/// Shared causes of refusals in a batch.
#[derive(Default)]
struct Refusals {
    /// A cause that may affect any kind.
    any: bool,
    kinds: BTreeSet<Kind>,
}

impl BatchRefusals {
    fn lock(&self) -> MutexGuard<'_, Refusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn skips(&self, subject: &Id) -> bool {
        let refusals = self.lock();
        refusals.any || refusals.kinds.contains(&kind(subject))
    }

    fn add(&self, cause: &Cause, subject: &Id) {
        let mut refusals = self.lock();
        refusals.any |= cause.is_named();
        refusals.kinds.insert(kind(subject));
    }
}

impl Controller {
    /// Starts a batch of writes.
    pub(super) fn start(
        &mut self,
        target: Target,
        works: Vec<Work>,
        status: Option<(Value, Value)>,
        events: Vec<Event>,
        now: Instant,
    ) {
        let last = self.last_writes.entry(target.uid().to_owned()).or_default();
        if !works.is_empty() {
            let actions = works.iter().map(|work| work.step.action.clone());
            last.steps = Some((actions.collect(), now));
        }
        if let Some((old, new)) = &status {
            if progress(old) != progress(new) {
                self.memory.progress_at = Some(Time((self.deps.clock)()));
            }
            last.status = Some((Fingerprint::of(&new.to_string()), now));
            last.status_at = Some(now);
        }
        let executor = Executor {
            requests: self.requests.clone(),
            target,
            clock: Arc::clone(&self.deps.clock),
        };
        let permits = Arc::new(Semaphore::new(CONCURRENCY));
        let refusals = BatchRefusals::default();
        for Work { step, resource } in works {
            let subject = execute::subject(&executor.target, &step.action);
            Report::step(&subject, &step);
            let fingerprint = execute::fingerprint(&step.action);
            let (executor, permits) = (executor.clone(), Arc::clone(&permits));
            let refusals = refusals.clone();
            self.inputs.in_flight.push_write(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                if refusals.skips(&subject) {
                    return CompletedRequest::Skipped;
                }
                let answers = executor.execute(step.action, resource.as_ref()).await;
                let failure = answers.as_ref().err();
                if let Some(cause) = failure.and_then(|failure| failure.shared_cause(&subject)) {
                    refusals.add(&cause, &subject);
                }
                CompletedRequest::Step {
                    uid: executor.target.uid().to_owned(),
                    subject,
                    fingerprint,
                    event: step.event,
                    answers,
                }
            });
        }
        if let Some((old, new)) = status {
            let fingerprint = Fingerprint::of(&new.to_string());
            self.inputs.in_flight.push_write(async move {
                let answers = executor.write_status(&old, &new).await;
                CompletedRequest::Status {
                    uid: executor.target.uid().to_owned(),
                    subject: executor.target.status_id(),
                    fingerprint,
                    events,
                    answers,
                }
            });
        }
    }

    /// Starts the discovery of served kinds.
    pub(super) fn discover(&mut self) {
        // The known kinds stay valid meanwhile.
        self.discovery = match self.discovery {
            Discovery::Complete(_) => Discovery::Complete(None),
            Discovery::Needed(_) | Discovery::InFlight => Discovery::InFlight,
        };
        let requests = self.requests.clone();
        self.inputs.in_flight.push_read(async move {
            CompletedRequest::Discovery(kinds::Listing::read(&requests).await)
        });
    }

    /// Processes the discovered kinds. The API server may list a new kind with some delay; a kind that
    /// is still missing then is not served until definitions change.
    fn on_discovery(&mut self, listing: kinds::Listing, now: Instant) {
        self.kinds.update(listing);
        let attempts = self.incomplete_discoveries;
        let is_repeated = self.kinds.is_incomplete() && attempts < MAX_DISCOVERIES;
        let again = is_repeated.then(|| now + Schedule::WATCH.delay(attempts, &mut self.random));
        self.incomplete_discoveries = attempts.saturating_add(u32::from(is_repeated));
        self.discovery = Discovery::Complete(again);
        self.update_watches();
    }

    /// Adds the kinds of the cached install strategies. Returns whether some are new.
    fn add_strategy_kinds(&mut self) -> bool {
        let kinds = self.strategies.kinds();
        let is_new = self.kinds.add(kinds.into_iter());
        if is_new {
            self.incomplete_discoveries = 0;
            self.discovery = Discovery::Needed(None);
        }
        is_new
    }

    /// Installs or updates the CustomResourceDefinition of KubeVirt.
    pub(super) fn install_crd(&mut self) {
        let requests = self.requests.clone();
        self.inputs.in_flight.push_write(async move {
            CompletedRequest::CrdInstalled(definition::install(&requests).await)
        });
    }

    /// Starts to read needed install strategies that are not cached. Returns whether the plan has to
    /// wait, for these or for the discovery of their kinds.
    pub(super) fn read_strategies(&mut self, kubevirt: &KubeVirt, now: Instant) -> bool {
        let cached = self.strategies.cached();
        let wanted = strategies::wanted(kubevirt, &self.options.operator, &self.served, cached);
        self.strategies.retain(&wanted);
        if self.add_strategy_kinds() {
            self.discover();
            return true;
        }
        let objects = self.caches.objects();
        let missing = self.strategies.missing(&wanted, objects, now);
        for source in &missing {
            let (requests, source) = (self.requests.clone(), source.clone());
            self.inputs.in_flight.push_read(async move {
                let read = strategies::read(&requests, source).await;
                CompletedRequest::StrategyRead(Box::new(read))
            });
        }
        !missing.is_empty()
    }

    pub(super) fn on_request_completed(&mut self, completed: CompletedRequest) {
        let now = Instant::now();
        self.is_due = true;
        match completed {
            CompletedRequest::Discovery(Ok(listing)) => self.on_discovery(listing, now),
            CompletedRequest::Discovery(Err(error)) => {
                tracing::warn!("cannot discover the kinds that the API server serves: {error}");
                let again = Some(now + Schedule::WATCH.delay(3, &mut self.random));
                self.discovery = match self.discovery {
                    Discovery::Complete(_) => Discovery::Complete(again),
                    Discovery::Needed(_) | Discovery::InFlight => Discovery::Needed(again),
                };
            }
            CompletedRequest::Skipped => {}
            CompletedRequest::CrdInstalled(Ok(())) => {
                self.is_crd_installed = true;
                self.crd_retries.clear(&DEFINITION);
            }
            CompletedRequest::CrdInstalled(Err(failure)) => self.on_crd_failed(&failure, now),
            CompletedRequest::StrategyRead(read) => {
                let delay = Schedule::WATCH.delay(3, &mut self.random);
                self.strategies.on_read(*read, now + delay);
                self.add_strategy_kinds();
                self.update_watches();
            }
            CompletedRequest::Step {
                uid,
                subject,
                fingerprint,
                event,
                answers,
            } => {
                if self.process(&subject, fingerprint, answers) {
                    self.publish(&uid, event);
                }
            }
            CompletedRequest::Status {
                uid,
                subject,
                fingerprint,
                events,
                answers,
            } => {
                if self.process(&subject, Some(fingerprint), answers) {
                    self.publish(&uid, events);
                }
            }
        }
    }

    fn publish(&self, uid: &str, events: impl IntoIterator<Item = Event>) {
        let mut kubevirts = self.caches.kubevirts.iter().map(|(_, kubevirt)| kubevirt);
        if let Some(kubevirt) = kubevirts.find(|kubevirt| kubevirt.uid().as_deref() == Some(uid)) {
            self.deps.report.events(kubevirt, events);
        }
    }

    fn on_crd_failed(&mut self, failure: &Failure, now: Instant) {
        if failure.is_fenced {
            return;
        }
        let message = &failure.message;
        tracing::warn!("cannot install CustomResourceDefinition {DEFINITION}: {message}");
        let jitter = &mut self.jitter;
        let retry_at = |failures| now + Schedule::OBJECT.delay(failures, jitter);
        self.crd_retries.fail(DEFINITION, (), retry_at);
    }

    /// Processes the answers to a write. Returns whether it succeeded.
    fn process(
        &mut self,
        subject: &Id,
        fingerprint: Option<Fingerprint>,
        answers: Result<Vec<Answer>, Failure>,
    ) -> bool {
        match answers {
            Ok(answers) => {
                self.memory.refusals.clear(subject);
                self.memory.causes.succeed(&kind(subject));
                for answer in answers {
                    self.on_answer(answer);
                }
                true
            }
            Err(failure) => {
                self.on_refused(subject, fingerprint, failure);
                false
            }
        }
    }

    fn on_answer(&mut self, answer: Answer) {
        match answer {
            Answer::KubeVirt(value) => self.caches.on_kubevirt_answer(value),
            Answer::KubeVirtGone(uid) => {
                self.caches.on_kubevirt_gone(&uid);
                // A new KubeVirt resource, and virtual machines with it, may follow at once.
                self.counts.clear();
            }
            Answer::Object(live) => self.caches.on_answer(live),
            Answer::Applied(live, wanted) => {
                let settled = (wanted, live.fingerprint);
                self.memory.applied.insert(live.id.clone(), settled);
                self.caches.on_answer(live);
            }
            Answer::Secret(secret) => {
                self.certificates.insert(&secret);
                self.caches.on_answer(secret.live);
            }
            Answer::Node(node) => self.caches.on_node_answer(node),
            Answer::Gone(id, uid) => {
                self.memory.applied.remove(&id);
                self.caches.on_gone(&id, &uid);
            }
            Answer::Counted(definition, count) => {
                self.counts.insert(definition, count);
            }
        }
    }

    /// Records a refusal and its backoff. A fenced write is no refusal: this process is about to end.
    fn on_refused(&mut self, subject: &Id, fingerprint: Option<Fingerprint>, failure: Failure) {
        let Failure {
            error,
            cause,
            message,
            is_fenced,
            answer,
        } = failure;
        if is_fenced {
            return;
        }
        if let Some(answer) = answer {
            self.on_answer(*answer);
        }
        // The same writes may be retried before the repeat delay.
        for last in self.last_writes.values_mut() {
            *last = LastWrites {
                status_at: last.status_at,
                ..LastWrites::default()
            };
        }
        Report::refusal(subject, error.code(), &message);
        let wall = (self.deps.clock)();
        // Status writes do not share causes: there is one.
        let is_status = subject.kind.contains('/');
        let cause = Cause::of(subject, error, &cause).filter(|_| !is_status);
        let shared = cause
            .as_ref()
            .and_then(|cause| self.memory.causes.get(cause));
        // Refusals of one batch with the same cause count once.
        if let Some(cause) = &cause
            && shared.is_some_and(|shared| shared.retry_at.0 > wall)
        {
            self.memory.causes.join(cause, subject);
            return;
        }
        let before = match &cause {
            Some(_) => shared.map(|shared| &shared.reason.refusal),
            None => self.memory.refusals.get(subject).map(|retry| &retry.reason),
        };
        let refusal = Refusal {
            message,
            error,
            since: before.map_or(Time(wall), |before| before.since.clone()),
            fingerprint,
        };
        let jitter = &mut self.jitter;
        let retry_at = |failures| {
            let delay = Schedule::OBJECT.delay(failures, jitter);
            let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
            Time(wall.saturating_add(delay).unwrap_or(wall))
        };
        let Memory {
            causes, refusals, ..
        } = &mut self.memory;
        if let Some(cause) = cause {
            causes.refuse(cause, subject, refusal, retry_at);
        } else {
            refusals.fail(subject.clone(), refusal, retry_at);
        }
    }
}

/// The message of the condition `Progressing`.
fn progress(status: &Value) -> Option<&str> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let progressing = conditions.find(|condition| condition["type"] == "Progressing")?;
    progressing["message"].as_str()
}
