//! Live reads of the references to claims, shared by the Machines of a namespace.
//!
//! A namespace has at most one read in flight, and at most one per second. Machines that request a read
//! meanwhile share the next one, since a read that started earlier may miss recent writes. Deleting many
//! Machines therefore costs reads in proportion to the time it takes, not to their number.
//!
//! A result is fresh for one plan. Afterwards only the disks in use are kept, until the next read.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plan::machine::{Age, References, Refusal};
use runtime::{backoff::Schedule, work_queue::Requeue};
use tokio::time::Instant;

use super::{Completed, Controller, Refused};
use crate::machine::{
    caches::Subject,
    execute::Target,
    references::{read, refused},
    watches::Watched,
};

/// Time between two reads of a namespace.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum age, from the start of a read, at which a plan may rely on it.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Delays until a disk in use is checked again: foreign VirtualMachines are not
/// watched.
const RECHECK: Schedule = Schedule {
    first: Duration::from_secs(10),
    cap: Duration::from_secs(60),
};

#[derive(Default)]
pub(super) struct Reads {
    namespaces: BTreeMap<Arc<str>, Namespace>,
    found: BTreeMap<Subject, Found>,
}

#[derive(Default)]
struct Namespace {
    waiting: Vec<Waiting>,
    is_reading: bool,
    not_before: Option<Instant>,
}

/// A Machine that is waiting for a read.
pub(super) struct Waiting {
    subject: Subject,
    uid: String,
    generation: Option<i64>,
}

struct Found {
    references: Arc<References>,
    started: Instant,
    is_fresh: bool,
    reads: u32,
}

pub(in crate::machine) struct CompletedRead {
    namespace: Arc<str>,
    waiting: Vec<Waiting>,
    started: Instant,
    result: Result<References, Refusal>,
}

impl Reads {
    fn request(&mut self, waiting: Waiting) {
        let namespace = Arc::clone(&waiting.subject.key.namespace);
        let namespace = self.namespaces.entry(namespace).or_default();
        namespace.waiting.push(waiting);
    }

    /// Time of the next read that is due.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let waiting = self
            .namespaces
            .values()
            .filter(|namespace| !namespace.is_reading && !namespace.waiting.is_empty());
        waiting
            .map(|namespace| namespace.not_before.unwrap_or(now))
            .min()
    }

    /// Next read that is due, and the Machines that are waiting for it.
    fn next(&mut self, now: Instant) -> Option<(Arc<str>, Vec<Waiting>)> {
        self.namespaces.retain(|_, namespace| {
            let is_delayed = namespace.not_before.is_some_and(|at| at > now);
            namespace.is_reading || is_delayed || !namespace.waiting.is_empty()
        });
        let (name, namespace) = self.namespaces.iter_mut().find(|(_, namespace)| {
            let is_delayed = namespace.not_before.is_some_and(|at| at > now);
            !namespace.is_reading && !is_delayed && !namespace.waiting.is_empty()
        })?;
        namespace.is_reading = true;
        namespace.not_before = Some(now + READ_INTERVAL);
        Some((Arc::clone(name), std::mem::take(&mut namespace.waiting)))
    }

    /// Result of the latest read for a resource. It is stale for the next plan.
    pub(super) fn of(&mut self, subject: &Subject, now: Instant) -> Option<(Arc<References>, Age)> {
        let found = self.found.get_mut(subject)?;
        let is_fresh = std::mem::take(&mut found.is_fresh) && now < found.started + MAX_AGE;
        let age = if is_fresh {
            Age::Fresh
        } else {
            let due = found.started + RECHECK.step(found.reads.saturating_sub(1));
            Age::Stale {
                retry_after: due.saturating_duration_since(now),
            }
        };
        Some((Arc::clone(&found.references), age))
    }

    /// Keeps references to claims with this prefix if some of them are in use; otherwise forgets all.
    pub(super) fn settle(&mut self, subject: &Subject, in_use: Option<&str>) {
        match (in_use, self.found.get_mut(subject)) {
            (Some(prefix), Some(found)) => {
                found.references = Arc::new(found.references.of_claims(prefix));
            }
            _ => self.forget(subject),
        }
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.found.remove(subject);
    }
}

impl Controller {
    /// Requests a read of the references, shared with other Machines of the namespace.
    pub(super) fn request_references(
        &mut self,
        subject: Subject,
        target: &Target,
        generation: Option<i64>,
    ) {
        self.reads.request(Waiting {
            subject,
            uid: target.uid.clone(),
            generation,
        });
    }

    pub(super) fn start_reads(&mut self, now: Instant) {
        while self.inputs.in_flight.reads() < self.options.concurrency {
            let Some((namespace, waiting)) = self.reads.next(now) else {
                break;
            };
            let is_served = self.caches.is_served(Watched::VirtualMachines)
                && self.caches.is_served(Watched::Instances);
            let requests = self.clusters.workload.clone();
            self.inputs.in_flight.push_read(async move {
                let result = read(&requests, &namespace, is_served).await;
                Completed::References(CompletedRead {
                    result: result.map_err(|error| refused(&namespace, &error)),
                    namespace,
                    waiting,
                    started: now,
                })
            });
        }
    }

    /// Passes the result of a read to the Machines that were waiting for it.
    pub(super) fn on_references_read(&mut self, completed: CompletedRead) {
        let CompletedRead {
            namespace,
            waiting,
            started,
            result,
        } = completed;
        let now = Instant::now();
        if let Some(namespace) = self.reads.namespaces.get_mut(&namespace) {
            namespace.is_reading = false;
        }
        let result = result.map(Arc::new);
        for waiting in waiting {
            let Waiting {
                subject,
                uid,
                generation,
            } = waiting;
            if self.caches.uid_of(&subject) == Some(uid.as_str()) {
                match &result {
                    Ok(references) => self.found(&subject, Arc::clone(references), started),
                    Err(refusal) => {
                        self.deps.report.read_refused(&subject, refusal);
                        let refused = Refused {
                            refusal: refusal.clone(),
                            generation,
                        };
                        self.retries.fail_steps(&subject, refused, None, now);
                    }
                }
            }
            self.queue.done(&subject, Requeue::At(now), now);
        }
    }

    fn found(&mut self, subject: &Subject, references: Arc<References>, started: Instant) {
        self.retries.steps.clear(subject);
        let before = self.reads.found.get(subject).map_or(0, |found| found.reads);
        let found = Found {
            references,
            started,
            is_fresh: true,
            reads: before.saturating_add(1),
        };
        self.reads.found.insert(subject.clone(), found);
    }
}

#[cfg(test)]
mod tests {
    use runtime::cache::Key;

    use super::*;

    fn subject(name: &str) -> Subject {
        Subject::machine(Key::new("default", name))
    }

    fn waiting(name: &str) -> Waiting {
        Waiting {
            subject: subject(name),
            uid: name.to_owned(),
            generation: None,
        }
    }

    fn names(waiting: &[Waiting]) -> Vec<&str> {
        waiting.iter().map(|it| it.uid.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_during_a_read_share_the_next_read() {
        let mut reads = Reads::default();
        let now = Instant::now();
        reads.request(waiting("a"));
        let (namespace, first) = reads.next(now).unwrap();
        assert_eq!(names(&first), ["a"]);
        reads.request(waiting("b"));
        reads.request(waiting("c"));
        assert!(
            reads.next(now + READ_INTERVAL).is_none(),
            "one is in flight"
        );
        reads.namespaces.get_mut(&namespace).unwrap().is_reading = false;
        assert!(reads.next(now).is_none(), "one per second");
        assert_eq!(reads.next_wake(now), Some(now + READ_INTERVAL));
        let (_, second) = reads.next(now + READ_INTERVAL).unwrap();
        assert_eq!(names(&second), ["b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_fresh_once_and_reread_with_growing_delay() {
        let mut reads = Reads::default();
        let now = Instant::now();
        let web = subject("web");
        let found = |reads: &mut Reads, count, started| {
            let found = Found {
                references: Arc::default(),
                started,
                is_fresh: true,
                reads: count,
            };
            reads.found.insert(web.clone(), found);
        };
        for (count, seconds) in [(1, 10), (2, 20), (3, 40), (4, 60), (400, 60)] {
            found(&mut reads, count, now);
            assert_eq!(reads.of(&web, now).unwrap().1, Age::Fresh);
            let retry_after = Duration::from_secs(seconds);
            assert_eq!(reads.of(&web, now).unwrap().1, Age::Stale { retry_after });
        }
        found(&mut reads, 1, now);
        let late = reads.of(&web, now + MAX_AGE).unwrap().1;
        assert!(matches!(late, Age::Stale { .. }), "{late:?}");
        reads.settle(&web, None);
        assert!(reads.of(&web, now).is_none());
    }
}
