//! Requests of one resource: sends its writes and reads, and processes the answers.

use std::{sync::Arc, time::Duration};

use api::Machine;
use plan::{
    Fingerprint,
    machine::{Action, Refusal, Step},
};
use runtime::work_queue::Requeue;
use tokio::time::Instant;

use super::{
    Completed, Controller, MIN_REQUEUE_INTERVAL, Refused,
    reconcile::{Reconciled, Work, fingerprint},
};
use crate::machine::{
    caches::Subject,
    execute::{self, Outcome, Target},
    paths::Owner,
    report::Report,
    secrets::ReadObject,
};

pub(in crate::machine) struct CompletedWork {
    subject: Subject,
    uid: String,
    generation: Option<i64>,
    started: Instant,
    /// UID of the instance whose Secret was written or compared.
    verified: Option<String>,
    result: WorkResult,
}

enum WorkResult {
    Steps(Outcome),
    Status(Outcome),
    CloudInitRead(kube::Result<Vec<ReadObject>>),
    MachineRead(Box<kube::Result<Option<Machine>>>),
}

impl Controller {
    pub(super) fn start(
        &mut self,
        subject: Subject,
        target: Target,
        generation: Option<i64>,
        work: Work,
        started: Instant,
    ) {
        if let Work::Steps(steps) = &work {
            let phase = self.phase(&subject);
            Report::steps(&subject, phase, steps);
            if steps
                .iter()
                .all(|step| step.action == Action::ObserveReferences)
            {
                self.request_references(subject, &target, generation);
                return;
            }
        }
        let last = self.last_writes.entry(subject.clone()).or_default();
        match &work {
            Work::Steps(steps) => {
                last.steps = Some((fingerprint(steps), started));
            }
            Work::Status(status, _) => {
                last.status = Some((Fingerprint::of_json(status), started));
            }
            Work::ReadCloudInit(_) | Work::ReadMachine => {}
        }
        let verified = self.verified_instance(&subject, &work);
        let clusters = self.clusters.clone();
        let target = target.in_cluster(self.caches.home.remote().cloned());
        let uid = target.uid.clone();
        self.inputs.in_flight.push_write(async move {
            let result = match work {
                Work::Steps(steps) => {
                    WorkResult::Steps(execute::execute(&clusters, &target, steps).await)
                }
                Work::Status(status, events) => WorkResult::Status(
                    execute::write_status(&clusters.management, &target, status, events).await,
                ),
                Work::ReadCloudInit(named) => {
                    let read = execute::read_cloud_init(&clusters.management, &target, named).await;
                    WorkResult::CloudInitRead(read)
                }
                Work::ReadMachine => {
                    let read = execute::read_machine(&clusters.management, &target).await;
                    WorkResult::MachineRead(Box::new(read))
                }
            };
            Completed::Work(CompletedWork {
                subject,
                uid,
                generation,
                started,
                verified,
                result,
            })
        });
    }

    /// UID of the instance whose Secret is verified once the work is done.
    fn verified_instance(&self, subject: &Subject, work: &Work) -> Option<String> {
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

    pub(super) fn on_work_completed(&mut self, completed: CompletedWork) {
        let CompletedWork {
            subject,
            uid,
            generation,
            started,
            verified,
            result,
        } = completed;
        let now = Instant::now();
        let took = now - started;
        if self.caches.uid_of(&subject) != Some(uid.as_str()) {
            // The resource was deleted, and perhaps replaced by another one of its name.
            if let WorkResult::Steps(outcome) | WorkResult::Status(outcome) = result {
                self.process(&subject, outcome, took);
            }
            self.queue.done(&subject, Requeue::At(now), now);
            return;
        }
        match result {
            WorkResult::CloudInitRead(read) => {
                let machine = self.caches.machines.get(&subject.key).map(Arc::as_ref);
                self.secrets
                    .on_read(&subject.key, machine, generation, read, now);
            }
            WorkResult::MachineRead(read) => {
                self.on_machine_read(subject, *read, started, now);
                return;
            }
            WorkResult::Steps(outcome) => {
                self.on_steps_completed(&subject, outcome, generation, verified, now, took);
            }
            WorkResult::Status(outcome) => {
                let retry_after = outcome.retry_after;
                let refused = self.process(&subject, outcome, took).is_some();
                if refused {
                    self.retries.fail_status(&subject, retry_after, now);
                    self.last_writes.entry(subject.clone()).or_default().status = None;
                } else {
                    self.retries.status.clear(&subject);
                }
            }
        }
        self.queue.done(&subject, Requeue::At(now), now);
    }

    /// Reconciles a Machine with the cloud-init data that is not cached.
    fn on_machine_read(
        &mut self,
        subject: Subject,
        read: kube::Result<Option<Machine>>,
        started: Instant,
        now: Instant,
    ) {
        let outcome = match read {
            // Reconciled at once: through the queue, many such Machines would be in memory together.
            Ok(Some(machine)) => {
                self.retries.reads.clear(&subject);
                self.full_machine = Some(machine);
                let reconciled = self.reconcile(&subject, now);
                self.full_machine = None;
                match reconciled {
                    // The cache shows another version than was read.
                    Some(Reconciled {
                        work: Some(Work::ReadMachine),
                        ..
                    }) => Requeue::At(now + MIN_REQUEUE_INTERVAL),
                    Some(Reconciled {
                        work: Some(work),
                        target,
                        generation,
                        ..
                    }) => {
                        self.start(subject, target, generation, work, started);
                        return;
                    }
                    // An immediate requeue would read it again and again.
                    Some(Reconciled {
                        work: None,
                        requeue_at,
                        ..
                    }) => requeue_at.map_or(Requeue::AtResync, Requeue::At),
                    None => Requeue::At(now),
                }
            }
            // The watch delivers the deletion.
            Ok(None) => Requeue::At(now),
            Err(error) => {
                let (machine, namespace) = (&*subject.key.name, &*subject.key.namespace);
                // A decoding error may quote the object, which contains cloud-init data.
                let error = match error {
                    kube::Error::SerdeError(_) => "the answer is not a valid Machine".to_owned(),
                    error => error.to_string(),
                };
                tracing::warn!(
                    machine,
                    namespace,
                    "cannot read Machine {namespace}/{machine} with its cloud-init data: {error}"
                );
                Requeue::At(self.retries.fail_read(&subject, now))
            }
        };
        self.queue.done(&subject, outcome, now);
    }

    fn on_steps_completed(
        &mut self,
        subject: &Subject,
        outcome: Outcome,
        generation: Option<i64>,
        verified: Option<String>,
        now: Instant,
        took: Duration,
    ) {
        let retry_after = outcome.retry_after;
        let made_progress = outcome.made_progress;
        let Some(refusal) = self.process(subject, outcome, took) else {
            if let Some(instance) = verified {
                self.secrets.set_verified(&subject.key, instance, now);
            }
            self.retries.steps.clear(subject);
            return;
        };
        if made_progress {
            self.retries.steps.clear(subject);
        }
        // The same steps may be retried before the repeat delay.
        self.last_writes.entry(subject.clone()).or_default().steps = None;
        let refused = Refused {
            refusal,
            generation,
        };
        self.retries.fail_steps(subject, refused, retry_after, now);
    }

    /// Updates the caches with the answers, reports the outcome and returns the refusal. A fenced
    /// write is not a refusal: this process is about to end.
    fn process(&mut self, subject: &Subject, outcome: Outcome, took: Duration) -> Option<Refusal> {
        let Outcome {
            answers,
            events,
            refusal,
            is_fenced,
            made_progress: _,
            retry_after: _,
        } = outcome;
        // Before the answers: the last of them may remove the resource, and its UID, from the caches.
        self.deps.report.events(subject, &self.caches, events);
        for answer in answers {
            let affected = self.caches.on_answer(subject, answer);
            self.enqueue(affected);
        }
        let phase = self.phase(subject);
        self.deps
            .report
            .written(subject, phase, refusal.as_ref(), took);
        refusal.filter(|_| !is_fenced)
    }
}
