//! Rounds of writes: begun beside each other, and what is learned from their answers.

use std::{sync::Arc, time::Duration};

use api::{Machine, core::Secret};
use plan::machine::{Action, Refusal, Step};
use runtime::work_queue::Requeue;
use tokio::time::Instant;

use super::{
    BREATH, Controller, Fingerprint, Trouble,
    look::{Look, Work},
};
use crate::machine::{
    caches::Subject,
    execute::{self, Outcome, Target},
    paths::Owner,
    report::Report,
};

/// What came of a round of writes.
pub(super) struct Done {
    subject: Subject,
    /// Of the resource that it was done for.
    uid: String,
    generation: Option<i64>,
    began: Instant,
    /// The instance whose Secret was written, or compared.
    verified: Option<String>,
    result: Worked,
}

enum Worked {
    Steps(Outcome),
    Status(Outcome),
    Fetched(Box<kube::Result<Option<Secret>>>),
    FetchedWhole(Box<kube::Result<Option<Machine>>>),
}

impl Controller {
    pub(super) fn begin(
        &mut self,
        subject: Subject,
        target: Target,
        generation: Option<i64>,
        work: Work,
        began: Instant,
    ) {
        if let Work::Steps(steps) = &work {
            let phase = self.phase(&subject);
            Report::of_steps(&subject, phase, steps);
            if steps
                .iter()
                .all(|step| step.action == Action::ObserveReferences)
            {
                self.ask_for_references(subject, &target, generation);
                return;
            }
        }
        let past = self.past.entry(subject.clone()).or_default();
        match &work {
            Work::Steps(steps) => {
                past.steps = Some((Fingerprint::of(steps), began));
            }
            Work::Status(status, _) => past.status = Some((Fingerprint::of(status), began)),
            Work::Fetch(_) | Work::FetchWhole => {}
        }
        let verified = self.verifies(&subject, &work);
        let requests = self.requests.clone();
        let uid = target.uid.clone();
        self.writing.push(Box::pin(async move {
            let result = match work {
                Work::Steps(steps) => {
                    Worked::Steps(execute::execute(&requests, &target, steps).await)
                }
                Work::Status(status, events) => {
                    Worked::Status(execute::write_status(&requests, &target, status, events).await)
                }
                Work::Fetch(name) => {
                    let read = execute::read_secret(&requests, &target, &name).await;
                    Worked::Fetched(Box::new(read))
                }
                Work::FetchWhole => {
                    let read = execute::read_machine(&requests, &target).await;
                    Worked::FetchedWhole(Box::new(read))
                }
            };
            Done {
                subject,
                uid,
                generation,
                began,
                verified,
                result,
            }
        }));
    }

    /// The instance that is known to find its Secret once the work is done.
    fn verifies(&self, subject: &Subject, work: &Work) -> Option<String> {
        let Work::Steps(steps) = work else {
            return None;
        };
        let writes = |step: &Step| matches!(step.action, Action::WriteSecret(_));
        let machine = self.caches.machines.get(&subject.key)?;
        steps.iter().find(|step| writes(step))?;
        let children = self.caches.children(machine)?;
        children.instance_uid().map(str::to_owned)
    }

    fn phase(&self, subject: &Subject) -> Option<api::Phase> {
        let machine = match subject.owner {
            Owner::Machine => self.caches.machines.get(&subject.key)?,
            Owner::Network => return None,
        };
        machine.status.as_ref()?.phase
    }

    pub(super) fn written(&mut self, done: Done) {
        let Done {
            subject,
            uid,
            generation,
            began,
            verified,
            result,
        } = done;
        let now = Instant::now();
        let took = now - began;
        if self.caches.uid_of(&subject) != Some(uid.as_str()) {
            // It is gone, perhaps for another of its name, whom none of this concerns.
            if let Worked::Steps(outcome) | Worked::Status(outcome) = result {
                self.learn(&subject, outcome, took);
            }
            self.queue.done(&subject, Requeue::At(now), now);
            return;
        }
        match result {
            Worked::Fetched(fetched) => {
                let machine = self.caches.machines.get(&subject.key).map(Arc::as_ref);
                self.secrets
                    .fetched(&subject.key, machine, generation, *fetched, now);
            }
            Worked::FetchedWhole(fetched) => {
                self.fetched_whole(subject, *fetched, began, now);
                return;
            }
            Worked::Steps(outcome) => {
                self.steps_done(&subject, outcome, generation, verified, now, took);
            }
            Worked::Status(outcome) => {
                let wish = outcome.retry_after;
                let refused = self.learn(&subject, outcome, took).is_some();
                let until = refused.then(|| now + self.pause(&subject, wish));
                if !refused && !self.troubles.contains_key(&subject) {
                    self.backoff.reset(&subject);
                }
                let past = self.past.entry(subject.clone()).or_default();
                past.status_after = until;
                if refused {
                    past.status = None;
                }
            }
        }
        self.queue.done(&subject, Requeue::At(now), now);
    }

    /// Reconciles a Machine with the cloud-init data that the cache does not have.
    fn fetched_whole(
        &mut self,
        subject: Subject,
        fetched: kube::Result<Option<Machine>>,
        began: Instant,
        now: Instant,
    ) {
        let again = match fetched {
            // Reconciled at once: were it put back into the queue, all those before it would be read
            // as well, and be in memory together.
            Ok(Some(machine)) => {
                self.whole = Some(machine);
                let look = self.look(&subject, now);
                self.whole = None;
                match look {
                    // The cache shows another state of it than was read.
                    Some(Look {
                        work: Some(Work::FetchWhole),
                        ..
                    }) => Requeue::At(now + BREATH),
                    Some(Look {
                        work: Some(work),
                        target,
                        generation,
                        ..
                    }) => {
                        self.begin(subject, target, generation, work, began);
                        return;
                    }
                    // To reconcile at once would read it again and again.
                    Some(Look {
                        work: None, again, ..
                    }) => again.map_or(Requeue::AtResync, Requeue::At),
                    None => Requeue::At(now),
                }
            }
            // The watch reports that it is gone.
            Ok(None) => Requeue::At(now),
            Err(error) => {
                let (machine, namespace) = (&*subject.key.name, &*subject.key.namespace);
                // What cannot be decoded may be quoted, and holds cloud-init data.
                let error = match error {
                    kube::Error::SerdeError(_) => "it is not a Machine".to_owned(),
                    error => error.to_string(),
                };
                tracing::warn!(machine, namespace, "cannot read the Machine: {error}");
                Requeue::At(now + self.pause(&subject, None))
            }
        };
        self.queue.done(&subject, again, now);
    }

    fn steps_done(
        &mut self,
        subject: &Subject,
        outcome: Outcome,
        generation: Option<i64>,
        verified: Option<String>,
        now: Instant,
        took: Duration,
    ) {
        let wish = outcome.retry_after;
        let made_progress = outcome.made_progress;
        let Some(refusal) = self.learn(subject, outcome, took) else {
            if let Some(instance) = verified {
                self.secrets.verified(&subject.key, instance, now);
            }
            self.end_trouble(subject);
            return;
        };
        if made_progress {
            self.backoff.reset(subject);
        }
        let until = now + self.pause(subject, wish);
        // What was refused may be tried again as it was.
        self.past.entry(subject.clone()).or_default().steps = None;
        let trouble = Trouble {
            refusal,
            until,
            generation,
        };
        self.troubles.insert(subject.clone(), trouble);
    }

    /// Takes in what the API server answered. What was fenced is not a refusal: this process is
    /// about to end.
    fn learn(&mut self, subject: &Subject, outcome: Outcome, took: Duration) -> Option<Refusal> {
        let Outcome {
            answers,
            events,
            refusal,
            is_fenced,
            made_progress: _,
            retry_after: _,
        } = outcome;
        // With the last of them the resource may be gone, and its uid with it.
        self.tools.report.events(subject, &self.caches, events);
        for answer in answers {
            let affected = self.caches.answered(subject, answer);
            self.take(affected);
        }
        let phase = self.phase(subject);
        self.tools
            .report
            .written(subject, phase, refusal.as_ref(), took);
        refusal.filter(|_| !is_fenced)
    }

    /// How long what was refused is not tried again. What the server wishes comes on top, or all
    /// whom it told the same come back together.
    pub(super) fn pause(&mut self, subject: &Subject, wish: Option<Duration>) -> Duration {
        let delay = self.backoff.failed(subject.clone());
        match wish {
            Some(wish) if wish > delay => wish + delay,
            _ => delay,
        }
    }

    pub(super) fn end_trouble(&mut self, subject: &Subject) {
        self.troubles.remove(subject);
        self.backoff.reset(subject);
    }
}
