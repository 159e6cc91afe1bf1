//! Health of the process: state behind `/healthz` and `/readyz`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::text::{one_line, prefix};

/// A control loop without a heartbeat for this long hangs: it sends one every
/// [`Health::HEARTBEAT_INTERVAL`].
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without an answer of the API server after which the process is not ready.
const API_TIMEOUT: Duration = Duration::from_secs(30);

const MAX_REASON_BYTES: usize = 256;

/// Health of the process. Clones share their state.
#[derive(Clone, Debug)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    last_heartbeat: Instant,
    standby: bool,
    caches: BTreeMap<&'static str, bool>,
    requirements: BTreeMap<&'static str, Result<(), String>>,
    last_answer: Option<Instant>,
    /// Why the last call to the API server failed, if it did.
    failure: Option<String>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Longest interval at which the control loop calls [`Health::heartbeat`].
    pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

    /// Alive and not ready.
    pub fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                last_heartbeat: Instant::now(),
                standby: false,
                caches: BTreeMap::new(),
                requirements: BTreeMap::new(),
                last_answer: None,
                failure: None,
            })),
        }
    }

    /// Reports that the control loop runs.
    pub fn heartbeat(&self) {
        self.state().last_heartbeat = Instant::now();
    }

    /// Whether another replica leads. A standby replica is ready without caches.
    pub fn set_standby(&self, standby: bool) {
        self.state().standby = standby;
    }

    /// Whether this cache is synced. The process is ready when all named caches are.
    pub fn set_synced(&self, cache: &'static str, synced: bool) {
        self.state().caches.insert(cache, synced);
    }

    /// Removes a cache that no longer exists.
    pub fn forget(&self, cache: &'static str) {
        self.state().caches.remove(cache);
    }

    /// Whether a requirement of every replica, standby or not, is met; if not, why.
    pub fn set_requirement(&self, requirement: &'static str, met: Result<(), String>) {
        self.state().requirements.insert(requirement, met);
    }

    /// Reports an answer of the API server, also a refusal.
    pub fn api_answered(&self) {
        let mut state = self.state();
        state.last_answer = Some(Instant::now());
        state.failure = None;
    }

    /// Reports a call without an answer.
    pub fn api_failed(&self, reason: &str) {
        let reason = one_line(reason);
        self.state().failure = Some(prefix(&reason, MAX_REASON_BYTES).to_owned());
    }

    /// Report of `/healthz`: fails if a restart would help.
    pub fn alive(&self) -> Report {
        let age = self.state().last_heartbeat.elapsed();
        let event_loop = if age < HEARTBEAT_TIMEOUT {
            Ok(())
        } else {
            Err(format!("no heartbeat for {}s", age.as_secs()))
        };
        Report {
            name: "healthz",
            checks: vec![("event-loop", event_loop)],
        }
    }

    /// Report of `/readyz`: fails if the process cannot do its work.
    pub fn ready(&self) -> Report {
        let state = self.state();
        let mut checks = vec![("caches", state.caches()), ("api", state.api())];
        let requirements = state.requirements.iter();
        checks.extend(requirements.map(|(name, met)| (*name, met.clone())));
        Report {
            name: "readyz",
            checks,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn caches(&self) -> Result<(), String> {
        if self.standby {
            return Ok(());
        }
        if self.caches.is_empty() {
            return Err("not started".to_owned());
        }
        let waiting: Vec<&str> = self
            .caches
            .iter()
            .filter_map(|(name, synced)| (!synced).then_some(*name))
            .collect();
        if waiting.is_empty() {
            Ok(())
        } else {
            Err(format!("not synced: {}", waiting.join(", ")))
        }
    }

    fn api(&self) -> Result<(), String> {
        match (
            self.last_answer.map(|answered| answered.elapsed()),
            &self.failure,
        ) {
            (None, None) => Err("no answer yet".to_owned()),
            (None, Some(reason)) => Err(reason.clone()),
            // A converged operator makes no calls.
            (Some(_), None) => Ok(()),
            (Some(age), Some(_)) if age < API_TIMEOUT => Ok(()),
            (Some(age), Some(reason)) => Err(format!("no answer for {}s: {reason}", age.as_secs())),
        }
    }
}

/// Checks by name, each with the reason of its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    name: &'static str,
    checks: Vec<(&'static str, Result<(), String>)>,
}

impl Report {
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|(_, check)| check.is_ok())
    }
}

/// As Kubernetes API servers print it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, check) in &self.checks {
            match check {
                Ok(()) => writeln!(f, "[+]{name} ok")?,
                Err(reason) => writeln!(f, "[-]{name} failed: {reason}")?,
            }
        }
        let outcome = if self.passed() { "passed" } else { "failed" };
        writeln!(f, "{} check {outcome}", self.name)
    }
}
