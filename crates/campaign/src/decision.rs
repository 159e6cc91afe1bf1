//! Decisions of a run: all random choices of a seed, as a list that can be shortened.
//!
//! A run depends on its [`Script`] only, so a script with fewer decisions is as repeatable.
//! Minimisation relies on that.

use std::{fmt, time::Duration};

use serde_json::Value;

/// The operator under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Subject {
    Machine,
    Kubevirt,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "machine",
            Self::Kubevirt => "kubevirt",
        })
    }
}

/// When a decision takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// This long after the start.
    At(Duration),
    /// Right before the operator's request of this number reaches the API server. Watches and Lease
    /// requests have no number.
    Before(u32),
    /// Right after that request took effect, before its answer.
    After(u32),
}

/// How a deletion treats dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// `--cascade=background`.
    Background,
    /// `--cascade=foreground`.
    Foreground,
    /// `--cascade=orphan`.
    Orphan,
}

/// Action of a user, an administrator or another controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create {
        kind: &'static str,
        /// The object, without `apiVersion` and `kind`.
        object: Value,
    },
    /// Merge patch.
    Patch {
        kind: &'static str,
        name: String,
        patch: Value,
    },
    Delete {
        kind: &'static str,
        name: String,
        propagation: Propagation,
    },
    /// Calls a subresource of a VirtualMachine, as virtctl does.
    Virtctl { call: &'static str, name: String },
}

/// Fault of the operator, or between it and the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process that sends the request crashes; the next starts after `down`.
    Crash { down: Duration },
    /// All replicas are down.
    Down { down: Duration },
    /// The connection breaks before the answer.
    Lost,
    /// There is no answer until the client times out.
    Silence,
    /// The answer has this code: instead of the effect for [`Trigger::Before`], after it for
    /// [`Trigger::After`].
    Status(u16),
    /// Watches of one resource, or of all, deliver nothing.
    Stale {
        /// Plural; `None`: all.
        resource: Option<&'static str>,
        lasts: Duration,
    },
    /// Watches deliver no bookmarks.
    NoBookmarks { lasts: Duration },
    /// All watches end.
    Cut,
    /// All watches end and the history is compacted, so they cannot be resumed.
    Compact,
    /// Every request fails: code 0 is a refused connection, else the code of the answer.
    Outage { code: u16, lasts: Duration },
    /// The leader cannot reach the Lease, but everything else.
    Partition { lasts: Duration },
    /// The clock of all replicas is off by this many seconds from now on.
    Clock { by: i64 },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Action(Action),
    Fault(Fault),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub trigger: Trigger,
    pub effect: Effect,
}

impl Decision {
    /// An action this many seconds after the start.
    pub fn at(seconds: u64, action: Action) -> Self {
        Self {
            trigger: Trigger::At(Duration::from_secs(seconds)),
            effect: Effect::Action(action),
        }
    }
}

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Script {
    pub subject: Subject,
    /// Seed of UIDs, jitter and scheduling.
    pub seed: u64,
    /// Replicas of the operator, each a candidate for the Lease.
    pub replicas: usize,
    /// Time without requests that the end state requires.
    pub quiet: Duration,
    pub decisions: Vec<Decision>,
}

/// Default of [`Script::quiet`]: twice the longest backoff, and twenty resync intervals.
pub const QUIET_PERIOD: Duration = Duration::from_secs(600);

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "at {} s", at.as_secs_f64()),
            Self::Before(index) => write!(f, "before request {index}"),
            Self::After(index) => write!(f, "after request {index}"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { kind, object } => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let rest = object.get("spec").or(object.get("stringData"));
                write!(f, "create {kind} {name}")?;
                rest.map_or(Ok(()), |rest| write!(f, " {rest}"))
            }
            Self::Patch { kind, name, patch } => write!(f, "patch {kind} {name} {patch}"),
            Self::Delete {
                kind,
                name,
                propagation,
            } => {
                let propagation = match propagation {
                    Propagation::Background => "background",
                    Propagation::Foreground => "foreground",
                    Propagation::Orphan => "orphan",
                };
                write!(f, "delete {kind} {name} --cascade={propagation}")
            }
            Self::Virtctl { call, name } => write!(f, "virtctl {call} {name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { down } => write!(f, "the operator crashes, back after {down:?}"),
            Self::Down { down } => write!(f, "all replicas are down for {down:?}"),
            Self::Lost => f.write_str("the connection breaks before the answer"),
            Self::Silence => f.write_str("no answer until the client times out"),
            Self::Status(code) => write!(f, "answered with {code}"),
            Self::Stale { resource, lasts } => write!(
                f,
                "watches of {} deliver nothing for {lasts:?}",
                resource.unwrap_or("everything")
            ),
            Self::NoBookmarks { lasts } => write!(f, "no bookmarks for {lasts:?}"),
            Self::Cut => f.write_str("all watches end"),
            Self::Compact => f.write_str("all watches end and the history is compacted"),
            Self::Outage { code: 0, lasts } => write!(f, "connections are refused for {lasts:?}"),
            Self::Outage { code, lasts } => {
                write!(f, "every request is answered with {code} for {lasts:?}")
            }
            Self::Partition { lasts } => {
                write!(f, "the leader cannot reach the Lease for {lasts:?}")
            }
            Self::Clock { by } => write!(f, "the operator's clock jumps by {by} s"),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.effect {
            Effect::Action(action) => write!(f, "{}: {action}", self.trigger),
            Effect::Fault(fault) => write!(f, "{}: {fault}", self.trigger),
        }
    }
}
