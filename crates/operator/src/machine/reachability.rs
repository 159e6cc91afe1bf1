//! Reachability of the cluster of virtual machines, as its watches and calls show it.
//!
//! - Nothing is polled while the cluster answers: failures of watches and reads are what shows that it does
//!   not. Silent connections end within five minutes. A write without an answer may only wait for a webhook, so
//!   it is followed by a read.
//! - A failure counts once it has lasted for [`GRACE`], so that the restart of an API server changes no status.
//! - The cluster can be used again once no watch fails and the last call was answered: the caches are then
//!   in step with it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use plan::machine::{ClusterProblem, ClusterProblemKind};
use runtime::{
    client::{Call, CallObserver, CallOutcome, Verb},
    reflector::WatchFailure,
};
use tokio::time::Instant;

use super::watches::Watched;
use crate::requests::in_one_line;

/// Time without an answer after which the cluster counts as unreachable.
const GRACE: Duration = Duration::from_secs(30);

/// Time between calls to a cluster that no watch reports on, and that did not answer the last call.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// Longest cause in a message.
const MAX_CAUSE: usize = 300;

/// Outcomes of the calls to a cluster. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Unanswered>>);

#[derive(Debug, Default)]
struct Unanswered {
    /// Whether the last call had no answer.
    last: bool,
    reads: Option<Silence>,
}

/// Reads without an answer.
#[derive(Clone, Debug)]
struct Silence {
    since: Instant,
    cause: &'static str,
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, Unanswered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallObserver for Calls {
    fn on_call(&self, call: &Call<'_>) {
        let cause = match call.outcome {
            CallOutcome::Status(_) => {
                *self.state() = Unanswered::default();
                return;
            }
            CallOutcome::Timeout => "its API server does not answer",
            CallOutcome::Error => "the connection to its API server fails",
        };
        let mut state = self.state();
        state.last = true;
        if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) {
            state.reads.get_or_insert(Silence {
                since: Instant::now(),
                cause,
            });
        }
    }
}

/// A watch that fails.
struct FailingWatch {
    since: Instant,
    cause: String,
}

/// State of one cluster.
pub(super) struct Reachability {
    cluster: String,
    calls: Calls,
    watches: BTreeMap<Watched, FailingWatch>,
    problem: Option<ClusterProblem>,
    /// A problem that only another configuration ends.
    is_fixed: bool,
    next_probe: Option<Instant>,
}

impl Reachability {
    pub(super) fn new(cluster: &str, calls: Calls) -> Self {
        Self {
            cluster: cluster.to_owned(),
            calls,
            watches: BTreeMap::new(),
            problem: None,
            is_fixed: false,
            next_probe: None,
        }
    }

    /// A cluster without a usable configuration.
    pub(super) fn unusable(cluster: &str, message: String) -> Self {
        Self {
            problem: Some(ClusterProblem {
                kind: ClusterProblemKind::Unknown,
                message,
            }),
            is_fixed: true,
            ..Self::new(cluster, Calls::default())
        }
    }

    pub(super) fn problem(&self) -> Option<&ClusterProblem> {
        self.problem.as_ref()
    }

    /// Records the failure or the recovery of a watch.
    pub(super) fn on_watch(
        &mut self,
        watched: Watched,
        health: Result<(), &WatchFailure>,
        now: Instant,
    ) {
        match health {
            Ok(()) => drop(self.watches.remove(&watched)),
            Err(failure) => {
                let since = self.watches.get(&watched).map_or(now, |it| it.since);
                let cause = format!("cannot watch {}: {}", watched.name(), failure.summary);
                let cause = in_one_line(&cause).chars().take(MAX_CAUSE).collect();
                self.watches.insert(watched, FailingWatch { since, cause });
            }
        }
    }

    /// Forgets a watch that was stopped.
    pub(super) fn forget(&mut self, watched: Watched) {
        self.watches.remove(&watched);
    }

    /// Evaluates the state. Returns whether it changed.
    pub(super) fn evaluate(&mut self, now: Instant) -> bool {
        if self.is_fixed {
            return false;
        }
        let silence = self.calls.state().reads.clone();
        let watch = self.watches.values().min_by_key(|watch| watch.since);
        let failures = [
            watch.map(|watch| (watch.since, watch.cause.clone())),
            silence.map(|silence| (silence.since, silence.cause.to_owned())),
        ];
        let first = failures.into_iter().flatten().min_by_key(|it| it.0);
        match (first, &self.problem) {
            (None, Some(_)) => {
                self.problem = None;
                true
            }
            (Some((since, cause)), None) if now >= since + GRACE => {
                self.problem = Some(ClusterProblem {
                    kind: ClusterProblemKind::Unreachable,
                    message: format!(
                        "cluster {} cannot be reached: {cause}. Nothing is changed there meanwhile, and the \
                         operator continues once the cluster answers",
                        self.cluster
                    ),
                });
                true
            }
            _ => false,
        }
    }

    /// Time of the next evaluation that time alone makes due.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let next = self.next_probe?;
        (self.watches.is_empty() && self.calls.state().last).then_some(next)
    }

    /// Whether a call is due to find out whether the cluster answers again. Failing watches are retried
    /// anyway.
    pub(super) fn begin_probe(&mut self, now: Instant) -> bool {
        let is_due = self.next_probe.is_none_or(|at| at <= now);
        if !is_due || !self.watches.is_empty() || !self.calls.state().last {
            return false;
        }
        self.next_probe = Some(now + PROBE_INTERVAL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(calls: &Calls, outcome: CallOutcome) {
        call_of(calls, Verb::Get, outcome);
    }

    fn call_of(calls: &Calls, verb: Verb, outcome: CallOutcome) {
        calls.on_call(&Call {
            verb,
            resource: "virtualmachines",
            outcome,
            duration: Duration::ZERO,
        });
    }

    fn failure(summary: &'static str) -> WatchFailure {
        WatchFailure {
            code: None,
            summary: summary.to_owned(),
            retry_after: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_counts_after_a_grace_period_and_ends_with_the_last_one() {
        let calls = Calls::default();
        let mut cluster = Reachability::new("east", calls.clone());
        let now = Instant::now();
        call(&calls, CallOutcome::Timeout);
        assert!(!cluster.evaluate(now + GRACE / 2));
        let refused = failure("connection refused");
        cluster.on_watch(Watched::Claims, Err(&refused), now + GRACE / 2);
        assert!(cluster.evaluate(now + GRACE));
        let problem = cluster.problem().unwrap().clone();
        assert!(problem.message.contains("does not answer"), "{problem:?}");
        call(&calls, CallOutcome::Status(http::StatusCode::OK));
        assert!(!cluster.evaluate(now + GRACE * 2), "a watch still fails");
        assert_eq!(cluster.problem(), Some(&problem), "the message stays");
        cluster.on_watch(Watched::Claims, Ok(()), now + GRACE * 2);
        assert!(cluster.evaluate(now + GRACE * 2));
        assert_eq!(cluster.problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_interruption_is_not_reported() {
        let calls = Calls::default();
        let mut cluster = Reachability::new("east", calls.clone());
        call(&calls, CallOutcome::Error);
        call(&calls, CallOutcome::Status(http::StatusCode::CONFLICT));
        assert!(!cluster.evaluate(Instant::now() + GRACE * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_probed_only_while_nothing_else_shows_that_it_answers() {
        let calls = Calls::default();
        let mut cluster = Reachability::new("east", calls.clone());
        let now = Instant::now();
        assert!(!cluster.begin_probe(now));
        call_of(&calls, Verb::Create, CallOutcome::Timeout);
        assert!(!cluster.evaluate(now + GRACE), "a webhook may be slow");
        assert!(cluster.begin_probe(now + GRACE));
        assert!(!cluster.begin_probe(now + GRACE), "one at a time");
        let refused = failure("connection refused");
        cluster.on_watch(Watched::Claims, Err(&refused), now + GRACE);
        assert!(!cluster.begin_probe(now + GRACE + PROBE_INTERVAL));
    }
}
