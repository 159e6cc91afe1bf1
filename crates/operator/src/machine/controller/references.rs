//! Live reads of who refers to claims, shared by the Machines of a namespace.
//!
//! A namespace has at most one read under way, and one a second. Machines that ask meanwhile share the
//! next one, since a read that began before they asked may miss what they wait for. So deleting many
//! Machines costs reads in proportion to the time it takes, not to their number.
//!
//! A result is fresh for one plan. Afterwards only what it says of disks in use is kept, until the next.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plan::machine::{Age, References, Refusal};
use runtime::work_queue::Requeue;
use tokio::time::Instant;

use super::{Controller, Trouble};
use crate::machine::{
    caches::Subject,
    execute::Target,
    references::{read, refused},
    watches::Watched,
};

/// Time between two reads of a namespace.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// How long after a read began a plan may rely on it.
const FRESH: Duration = Duration::from_secs(10);

/// Time until a disk in use is checked again: foreign VirtualMachines are not watched.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

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

/// A Machine that waits for a read.
pub(super) struct Waiting {
    subject: Subject,
    uid: String,
    generation: Option<i64>,
}

struct Found {
    references: Arc<References>,
    began: Instant,
    is_fresh: bool,
    reads: u32,
}

/// A read that came to its end.
pub(super) struct Read {
    namespace: Arc<str>,
    waiting: Vec<Waiting>,
    began: Instant,
    result: Result<References, Refusal>,
}

impl Reads {
    fn ask(&mut self, waiting: Waiting) {
        let namespace = Arc::clone(&waiting.subject.key.namespace);
        let namespace = self.namespaces.entry(namespace).or_default();
        namespace.waiting.push(waiting);
    }

    /// When the next read is due.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let waiting = self
            .namespaces
            .values()
            .filter(|namespace| !namespace.is_reading && !namespace.waiting.is_empty());
        waiting
            .map(|namespace| namespace.not_before.unwrap_or(now))
            .min()
    }

    /// A read that is due, and those who wait for it.
    fn next(&mut self, now: Instant) -> Option<(Arc<str>, Vec<Waiting>)> {
        self.namespaces.retain(|_, namespace| {
            let is_resting = namespace.not_before.is_some_and(|at| at > now);
            namespace.is_reading || is_resting || !namespace.waiting.is_empty()
        });
        let (name, namespace) = self.namespaces.iter_mut().find(|(_, namespace)| {
            let is_resting = namespace.not_before.is_some_and(|at| at > now);
            !namespace.is_reading && !is_resting && !namespace.waiting.is_empty()
        })?;
        namespace.is_reading = true;
        namespace.not_before = Some(now + READ_INTERVAL);
        Some((Arc::clone(name), std::mem::take(&mut namespace.waiting)))
    }

    /// What was read for a resource. The next plan finds it stale.
    pub(super) fn of(&mut self, subject: &Subject, now: Instant) -> Option<(Arc<References>, Age)> {
        let found = self.found.get_mut(subject)?;
        let is_fresh = std::mem::take(&mut found.is_fresh) && now < found.began + FRESH;
        let age = if is_fresh {
            Age::Fresh
        } else {
            let (first, longest) = RETRY;
            let doubled = 2_u32.saturating_pow(found.reads.saturating_sub(1));
            let due = found.began + first.saturating_mul(doubled).min(longest);
            Age::Stale {
                retry_after: due.saturating_duration_since(now),
            }
        };
        Some((Arc::clone(&found.references), age))
    }

    /// Keeps what a plan found to be in use, among claims with this prefix, or nothing.
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
    /// Has the references read for a Machine, together with others.
    pub(super) fn ask_for_references(
        &mut self,
        subject: Subject,
        target: &Target,
        generation: Option<i64>,
    ) {
        self.reads.ask(Waiting {
            subject,
            uid: target.uid.clone(),
            generation,
        });
    }

    /// Starts the reads that are due.
    pub(super) fn start_reads(&mut self, now: Instant) {
        while self.reading.len() < self.options.concurrency {
            let Some((namespace, waiting)) = self.reads.next(now) else {
                break;
            };
            let is_served = self.caches.is_served(Watched::VirtualMachines)
                && self.caches.is_served(Watched::Instances);
            let requests = self.requests.clone();
            self.reading.push(Box::pin(async move {
                let result = read(&requests, &namespace, is_served).await;
                Read {
                    result: result.map_err(|error| refused(&namespace, &error)),
                    namespace,
                    waiting,
                    began: now,
                }
            }));
        }
    }

    /// Hands the result of a read to those who waited for it.
    pub(super) fn references_read(&mut self, read: Read) {
        let Read {
            namespace,
            waiting,
            began,
            result,
        } = read;
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
                    Ok(references) => self.found(&subject, Arc::clone(references), began),
                    Err(refusal) => {
                        self.tools.report.refused(&subject, refusal);
                        let trouble = Trouble {
                            refusal: refusal.clone(),
                            until: now + self.pause(&subject, None),
                            generation,
                        };
                        self.troubles.insert(subject.clone(), trouble);
                    }
                }
            }
            self.queue.done(&subject, Requeue::At(now), now);
        }
    }

    fn found(&mut self, subject: &Subject, references: Arc<References>, began: Instant) {
        self.end_trouble(subject);
        let before = self.reads.found.get(subject).map_or(0, |found| found.reads);
        let found = Found {
            references,
            began,
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
    async fn those_who_ask_during_a_read_share_the_next_one() {
        let mut reads = Reads::default();
        let now = Instant::now();
        reads.ask(waiting("a"));
        let (namespace, first) = reads.next(now).unwrap();
        assert_eq!(names(&first), ["a"]);
        reads.ask(waiting("b"));
        reads.ask(waiting("c"));
        assert!(
            reads.next(now + READ_INTERVAL).is_none(),
            "one is under way"
        );
        reads.namespaces.get_mut(&namespace).unwrap().is_reading = false;
        assert!(reads.next(now).is_none(), "one a second");
        assert_eq!(reads.next_wake(now), Some(now + READ_INTERVAL));
        let (_, second) = reads.next(now + READ_INTERVAL).unwrap();
        assert_eq!(names(&second), ["b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_fresh_once_and_is_read_again_less_and_less_often() {
        let mut reads = Reads::default();
        let now = Instant::now();
        let web = subject("web");
        let found = |reads: &mut Reads, count, began| {
            let found = Found {
                references: Arc::default(),
                began,
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
        let late = reads.of(&web, now + FRESH).unwrap().1;
        assert!(matches!(late, Age::Stale { .. }), "{late:?}");
        reads.settle(&web, None);
        assert!(reads.of(&web, now).is_none());
    }
}
