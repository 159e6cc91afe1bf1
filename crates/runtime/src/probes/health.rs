//! Whether the process is well, and why not.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::text::{one_line, start};

/// The event loop may be silent for so long. It beats every [`Health::HEARTBEAT_INTERVAL`], so this is a loop
/// that hangs, not one that works.
const SILENCE: Duration = Duration::from_secs(60);

/// The API server may be out of reach for so long before the process is not ready.
const OUTAGE: Duration = Duration::from_secs(30);

/// The longest reason that is shown, in bytes.
const REASON: usize = 256;

/// What the process knows of its own health. A clone speaks of the same.
#[derive(Clone, Debug)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    beat: Instant,
    standby: bool,
    caches: BTreeMap<&'static str, bool>,
    needs: BTreeMap<&'static str, Result<(), String>>,
    answered: Option<Instant>,
    /// Why the API server is out of reach, if the last call failed.
    failure: Option<String>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// How often the event loop is to call [`Health::heartbeat`], at least.
    pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

    /// Alive, and not ready: nothing is known yet.
    pub fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                beat: Instant::now(),
                standby: false,
                caches: BTreeMap::new(),
                needs: BTreeMap::new(),
                answered: None,
                failure: None,
            })),
        }
    }

    /// The event loop turns.
    pub fn heartbeat(&self) {
        self.state().beat = Instant::now();
    }

    /// Whether another replica acts. One that stands by needs no caches to be ready.
    pub fn set_standby(&self, standby: bool) {
        self.state().standby = standby;
    }

    /// Whether this cache holds what the cluster holds. One that is named must be synced before the
    /// process is ready.
    pub fn set_synced(&self, cache: &'static str, synced: bool) {
        self.state().caches.insert(cache, synced);
    }

    /// The cache is no longer kept.
    pub fn forget(&self, cache: &'static str) {
        self.state().caches.remove(cache);
    }

    /// Whether there is what the process cannot do its work without, whether it stands by or not; if
    /// not, why.
    pub fn set_requirement(&self, need: &'static str, met: Result<(), String>) {
        self.state().needs.insert(need, met);
    }

    /// The API server answered a call, even if it refused it.
    pub fn api_answered(&self) {
        let mut state = self.state();
        state.answered = Some(Instant::now());
        state.failure = None;
    }

    /// The API server did not answer a call.
    pub fn api_failed(&self, reason: &str) {
        let reason = one_line(reason);
        self.state().failure = Some(start(&reason, REASON).to_owned());
    }

    /// What `/healthz` says: whether a restart would help.
    pub fn alive(&self) -> Report {
        let silent = self.state().beat.elapsed();
        let event_loop = if silent < SILENCE {
            Ok(())
        } else {
            Err(format!("silent for {}s", silent.as_secs()))
        };
        Report {
            name: "healthz",
            checks: vec![("event-loop", event_loop)],
        }
    }

    /// What `/readyz` says: whether the process can do its work.
    pub fn ready(&self) -> Report {
        let state = self.state();
        let mut checks = vec![("caches", state.caches()), ("api", state.api())];
        let needs = state.needs.iter();
        checks.extend(needs.map(|(name, met)| (*name, met.clone())));
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
            self.answered.map(|answered| answered.elapsed()),
            &self.failure,
        ) {
            (None, None) => Err("no answer yet".to_owned()),
            (None, Some(reason)) => Err(reason.clone()),
            // Without calls there are no answers, and a converged fleet needs no calls.
            (Some(_), None) => Ok(()),
            (Some(age), Some(_)) if age < OUTAGE => Ok(()),
            (Some(age), Some(reason)) => Err(format!("no answer for {}s: {reason}", age.as_secs())),
        }
    }
}

/// Checks by name, each with the reason why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    name: &'static str,
    checks: Vec<(&'static str, Result<(), String>)>,
}

impl Report {
    /// Whether all checks passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|(_, check)| check.is_ok())
    }
}

/// As a Kubernetes API server writes it.
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
