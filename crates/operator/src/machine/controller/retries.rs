//! Refused requests of each resource, and the time of their next attempt.

use std::time::Duration;

use apimachinery::retry_ledger::RetryLedger;
use plan::machine::{ErrorType, Refusal};
use runtime::backoff::{Random, Schedule};
use tokio::time::Instant;

use crate::machine::caches::Subject;

/// Refused steps of a resource, or a refused read that they depend on.
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// Generation of the refused attempt; a newer spec is tried at once.
    pub(super) generation: Option<i64>,
}

pub(super) struct Retries {
    pub(super) steps: RetryLedger<Subject, Refused, Instant>,
    pub(super) status: RetryLedger<Subject, (), Instant>,
    /// Reads of Machines with their cloud-init data.
    pub(super) reads: RetryLedger<Subject, (), Instant>,
    random: Random,
}

impl Retries {
    pub(super) fn new(random: Random) -> Self {
        Self {
            steps: RetryLedger::default(),
            status: RetryLedger::default(),
            reads: RetryLedger::default(),
            random,
        }
    }

    /// Refusal of a resource's steps.
    pub(super) fn refusal(&self, subject: &Subject) -> Option<&Refusal> {
        self.steps.get(subject).map(|retry| &retry.reason.refusal)
    }

    /// Time until which steps for this generation are deferred.
    pub(super) fn steps_retry_at(
        &self,
        subject: &Subject,
        generation: Option<i64>,
    ) -> Option<Instant> {
        let retry = self.steps.get(subject)?;
        (retry.reason.generation == generation).then_some(retry.retry_at)
    }

    pub(super) fn fail_steps(
        &mut self,
        subject: &Subject,
        refused: Refused,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let retry_at = backoff(now, retry_after, &mut self.random);
        self.steps.fail(subject.clone(), refused, retry_at);
    }

    pub(super) fn fail_status(
        &mut self,
        subject: &Subject,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let retry_at = backoff(now, retry_after, &mut self.random);
        self.status.fail(subject.clone(), (), retry_at);
    }

    /// Returns the time of the next attempt.
    pub(super) fn fail_read(&mut self, subject: &Subject, now: Instant) -> Instant {
        let retry_at = backoff(now, None, &mut self.random);
        self.reads.fail(subject.clone(), (), retry_at)
    }

    /// Makes the steps due that exceeded a quota of the namespace, and returns their resources.
    /// Admission may learn of the change later than this watch, so the backoff starts from its shortest
    /// delay.
    pub(super) fn restart_over_quota(&mut self, namespace: &str, now: Instant) -> Vec<Subject> {
        let over_quota = self.steps.iter().filter(|(subject, retry)| {
            retry.reason.refusal.error_type == ErrorType::InsufficientResources
                && *subject.key.namespace == *namespace
        });
        let subjects: Vec<Subject> = over_quota.map(|(subject, _)| subject.clone()).collect();
        for subject in &subjects {
            self.steps.restart(subject, now);
        }
        subjects
    }

    /// Makes everything due that was refused: the cluster answers again.
    pub(super) fn restart_all(&mut self) {
        self.steps = RetryLedger::default();
        self.status = RetryLedger::default();
        self.reads = RetryLedger::default();
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.steps.clear(subject);
        self.status.clear(subject);
        self.reads.clear(subject);
    }
}

/// Time of the next attempt after a number of failures.
fn backoff(
    now: Instant,
    retry_after: Option<Duration>,
    random: &mut Random,
) -> impl FnOnce(u32) -> Instant {
    move |failures| now + Schedule::OBJECT.delay_after(failures, retry_after, random)
}
