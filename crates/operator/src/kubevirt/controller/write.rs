//! Rounds of writes: begun beside each other, and what is learned from their answers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::{Time, kubevirt::install::KubeVirt};
use futures::{FutureExt as _, future::BoxFuture};
use jiff::SignedDuration;
use kube::{Error, ResourceExt as _};
use plan::{
    Event,
    kubevirt::{
        Fingerprint, Id,
        cause::{Cause, Kind, kind},
        observed::Refusal,
    },
};
use runtime::backoff::Schedule;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::{Controller, Listing, Past, look};
use crate::kubevirt::{
    definition,
    execute::{self, Answer, Executor, Failure, Target, Work},
    kinds,
    report::Report,
    strategies::{self, Read},
};

/// How many writes are under way at a time.
const CONCURRENCY: usize = 10;

/// How often it is asked for kinds that are not listed, over about a minute.
const SEEKS: u32 = 6;

/// What came of a request.
pub(super) enum Done {
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
    Listed(Result<kinds::Listing, Error>),
    Defined(Result<(), Failure>),
    Read(Box<Read>),
    /// A step that was not tried, since another one was refused for a cause that they may share.
    Skipped,
}

/// What is not begun any more in a round of writes, because others of it were refused.
#[derive(Clone, Default)]
struct Blocked(Arc<Mutex<Refusals>>);

/// The refusals of a round whose cause others of it may share.
#[derive(Default)]
struct Refusals {
    /// The cause may stop any kind.
    any: bool,
    kinds: BTreeSet<Kind>,
}

impl Blocked {
    fn locked(&self) -> MutexGuard<'_, Refusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocks(&self, subject: &Id) -> bool {
        let refusals = self.locked();
        refusals.any || refusals.kinds.contains(&kind(subject))
    }

    fn refused(&self, cause: &Cause, subject: &Id) {
        let mut refusals = self.locked();
        refusals.any |= cause.is_named();
        refusals.kinds.insert(kind(subject));
    }
}

impl Controller {
    /// Begins a round of writes.
    pub(super) fn begin(
        &mut self,
        target: Target,
        works: Vec<Work>,
        status: Option<(Value, Value)>,
        events: Vec<Event>,
        now: Instant,
    ) {
        let past = self.past.entry(target.uid().to_owned()).or_default();
        if !works.is_empty() {
            let steps = works.iter().map(|work| &work.step);
            past.steps = Some((look::fingerprint(steps), now));
        }
        if let Some((old, new)) = &status {
            if progress(old) != progress(new) {
                self.memory.progress_at = Some(Time((self.tools.clock)()));
            }
            past.status = Some((Fingerprint::of(&new.to_string()), now));
            past.status_at = Some(now);
        }
        let executor = Executor {
            requests: self.requests.clone(),
            target,
            clock: Arc::clone(&self.tools.clock),
        };
        let places = Arc::new(Semaphore::new(CONCURRENCY));
        let blocked = Blocked::default();
        for Work { step, resource } in works {
            let subject = execute::subject(&executor.target, &step.action);
            Report::of_step(&subject, &step);
            let fingerprint = execute::fingerprint(&step.action);
            let (executor, places) = (executor.clone(), Arc::clone(&places));
            let blocked = blocked.clone();
            self.push(async move {
                // Never closed.
                let _place = places.acquire().await;
                if blocked.blocks(&subject) {
                    return Done::Skipped;
                }
                let answers = executor.carry_out(step.action, resource.as_ref()).await;
                let failure = answers.as_ref().err();
                if let Some(cause) = failure.and_then(|failure| failure.cause(&subject)) {
                    blocked.refused(&cause, &subject);
                }
                Done::Step {
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
            self.push(async move {
                let answers = executor.write_status(&old, &new).await;
                Done::Status {
                    uid: executor.target.uid().to_owned(),
                    subject: executor.target.status_id(),
                    fingerprint,
                    events,
                    answers,
                }
            });
        }
    }

    fn push(&self, work: impl Future<Output = Done> + Send + 'static) {
        let work: BoxFuture<'static, Done> = work.boxed();
        self.writing.push(work);
    }

    /// Asks what the API server serves.
    pub(super) fn list_kinds(&mut self) {
        // What is known meanwhile is not less than it was.
        self.listing = match self.listing {
            Listing::Known(_) => Listing::Known(None),
            Listing::Wanted(_) | Listing::Asked => Listing::Asked,
        };
        let requests = self.requests.clone();
        self.push(async move { Done::Listed(kinds::Listing::ask(&requests).await) });
    }

    /// What the API server serves, as far as it says. It may take a moment until it lists what was
    /// defined just now; what it does not list then is not served until definitions change.
    fn listed(&mut self, listing: kinds::Listing, now: Instant) {
        self.kinds.list(listing);
        let seeks = self.kinds.lacks() && self.unlisted < SEEKS;
        let again = seeks.then(|| now + Schedule::WATCH.delay(self.unlisted, &mut self.random));
        self.unlisted = self.unlisted.saturating_add(u32::from(seeks));
        self.listing = Listing::Known(again);
        self.follow_kinds();
    }

    /// Takes in which kinds the strategies have that are at hand.
    fn want_kinds(&mut self) -> bool {
        let kinds = self.strategies.kinds();
        let is_new = self.kinds.want(kinds.into_iter());
        if is_new {
            self.unlisted = 0;
            self.listing = Listing::Wanted(None);
        }
        is_new
    }

    /// Sees to it that there is a definition of the KubeVirt resource.
    pub(super) fn define(&mut self) {
        let requests = self.requests.clone();
        self.push(async move { Done::Defined(definition::install(&requests).await) });
    }

    /// Reads strategies that are wanted and not at hand. Says whether there is something to be known
    /// first: those, or how kinds of theirs are served.
    pub(super) fn read_strategies(&mut self, kubevirt: &KubeVirt, now: Instant) -> bool {
        let held = self.strategies.held();
        let wanted = strategies::wanted(kubevirt, &self.options.operator, &self.served, held);
        self.strategies.keep(&wanted);
        if self.want_kinds() {
            self.list_kinds();
            return true;
        }
        let objects = self.caches.objects();
        let missing = self.strategies.missing(&wanted, objects, now);
        for place in &missing {
            let (requests, place) = (self.requests.clone(), place.clone());
            self.push(
                async move { Done::Read(Box::new(strategies::read(&requests, place).await)) },
            );
        }
        !missing.is_empty()
    }

    pub(super) fn done(&mut self, done: Done) {
        let now = Instant::now();
        self.due = true;
        match done {
            Done::Listed(Ok(listing)) => self.listed(listing, now),
            Done::Listed(Err(error)) => {
                tracing::warn!("the API server does not say what it serves: {error}");
                let again = Some(now + Schedule::WATCH.delay(3, &mut self.random));
                self.listing = match self.listing {
                    Listing::Known(_) => Listing::Known(again),
                    Listing::Wanted(_) | Listing::Asked => Listing::Wanted(again),
                };
            }
            Done::Skipped => {}
            Done::Defined(Ok(())) => self.defined = true,
            Done::Defined(Err(failure)) => self.not_defined(&failure, now),
            Done::Read(read) => {
                let delay = Schedule::WATCH.delay(3, &mut self.random);
                self.strategies.take(*read, now + delay);
                self.want_kinds();
                self.follow_kinds();
            }
            Done::Step {
                uid,
                subject,
                fingerprint,
                event,
                answers,
            } => {
                if self.learn(&subject, fingerprint, answers) {
                    self.tell(&uid, event);
                }
            }
            Done::Status {
                uid,
                subject,
                fingerprint,
                events,
                answers,
            } => {
                if self.learn(&subject, Some(fingerprint), answers) {
                    self.tell(&uid, events);
                }
            }
        }
    }

    fn tell(&self, uid: &str, events: impl IntoIterator<Item = Event>) {
        let mut kubevirts = self.caches.kubevirts.iter().map(|(_, kubevirt)| kubevirt);
        if let Some(kubevirt) = kubevirts.find(|kubevirt| kubevirt.uid().as_deref() == Some(uid)) {
            self.tools.report.events(kubevirt, events);
        }
    }

    fn not_defined(&mut self, failure: &Failure, now: Instant) {
        if failure.is_fenced {
            return;
        }
        let message = &failure.message;
        tracing::warn!("the definition of KubeVirt cannot be installed: {message}");
        let subject = Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "");
        self.define_again = Some(now + self.backoff.failed(subject));
    }

    /// Takes in what came of a write. Says whether it succeeded.
    fn learn(
        &mut self,
        subject: &Id,
        fingerprint: Option<Fingerprint>,
        answers: Result<Vec<Answer>, Failure>,
    ) -> bool {
        match answers {
            Ok(answers) => {
                self.memory.refusals.remove(subject);
                self.backoff.reset(subject);
                if let Some(cause) = self.memory.causes.succeed(&kind(subject)) {
                    self.backoff.reset(&backoff_id(&cause));
                }
                for answer in answers {
                    self.answered(answer);
                }
                true
            }
            Err(failure) => {
                self.refused(subject, fingerprint, failure);
                false
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::KubeVirt(value) => self.caches.answered_kubevirt(value),
            Answer::KubeVirtGone(uid) => {
                self.caches.kubevirt_gone(&uid);
                // Another resource may ask for KubeVirt at once, and virtual machines come with it.
                self.counts.clear();
            }
            Answer::Object(live) => self.caches.answered(live),
            Answer::Applied(live, wanted) => {
                let settled = (wanted, live.fingerprint);
                self.memory.applied.insert(live.id.clone(), settled);
                self.caches.answered(live);
            }
            Answer::Secret(secret) => {
                self.certificates.take(&secret);
                self.caches.answered(secret.live);
            }
            Answer::Node(node) => self.caches.answered_node(node),
            Answer::Gone(id, uid) => {
                self.memory.applied.remove(&id);
                self.caches.gone(&id, &uid);
            }
            Answer::Counted(definition, count) => {
                self.counts.insert(definition, count);
            }
        }
    }

    /// What was fenced is not a refusal: this process is about to end.
    fn refused(&mut self, subject: &Id, fingerprint: Option<Fingerprint>, failure: Failure) {
        let Failure {
            error,
            message,
            is_fenced,
            answer,
        } = failure;
        if is_fenced {
            return;
        }
        if let Some(answer) = answer {
            self.answered(*answer);
        }
        // What was refused may be tried again as it was.
        for past in self.past.values_mut() {
            *past = Past {
                status_at: past.status_at,
                ..Past::default()
            };
        }
        Report::of_refusal(subject, error.code(), &message);
        let wall = (self.tools.clock)();
        // There is one status, and it waits for nothing else.
        let is_status = subject.kind.contains('/');
        let cause = Cause::of(subject, error, &message).filter(|_| !is_status);
        let before = match &cause {
            Some(cause) => self.memory.causes.get(cause).map(|shared| &shared.refusal),
            None => self.memory.refusals.get(subject),
        };
        // Others of the round that is over have failed for the same cause, and count once.
        if let Some(cause) = &cause
            && before.is_some_and(|before| before.retry_at.0 > wall)
        {
            self.memory.causes.join(cause, subject);
            return;
        }
        let key = cause.as_ref().map_or_else(|| subject.clone(), backoff_id);
        let delay = self.backoff.failed(key);
        let since = before.map_or(Time(wall), |before| before.since.clone());
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
        let refused = Refusal {
            message,
            error,
            since,
            fingerprint,
            retry_at: Time(wall.saturating_add(delay).unwrap_or(wall)),
        };
        match cause {
            Some(cause) => self.memory.causes.refuse(cause, subject, refused),
            None => drop(self.memory.refusals.insert(subject.clone(), refused)),
        }
    }
}

/// The message of the condition `Progressing`.
fn progress(status: &Value) -> Option<&str> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let progressing = conditions.find(|condition| condition["type"] == "Progressing")?;
    progressing["message"].as_str()
}

/// What the backoff of a cause is kept under. No object has an empty name, and no kind these.
fn backoff_id(cause: &Cause) -> Id {
    match cause {
        Cause::Kind((group, kind)) => Id::new(group, kind, "", ""),
        Cause::Webhook(endpoint) => Id::new("", "webhook", "", endpoint),
        Cause::Quota(name) => Id::new("", "quota", "", name),
    }
}
