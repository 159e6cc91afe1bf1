//! The decisions of a run: everything that a seed chooses, as a list that can be shortened.
//!
//! A run depends on nothing but its [`Script`]: leaving decisions out gives another run that is as
//! repeatable. Minimisation relies on that.

use std::{fmt, time::Duration};

use serde_json::Value;

/// Which operator a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Subject {
    /// The Machine operator.
    Machine,
    /// The KubeVirt operator.
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
pub enum When {
    /// So long after the start.
    At(Duration),
    /// Right before the operator's request of this number reaches the API server. Watches and
    /// requests about the Lease have no number.
    Before(u32),
    /// Right after that request took effect, before it is answered.
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

/// Something that a user, an administrator or another controller does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates an object.
    Create {
        /// Its kind.
        kind: &'static str,
        /// The object, without `apiVersion` and `kind`.
        object: Value,
    },
    /// Changes an object by a merge patch.
    Patch {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What happens to its dependents.
        propagation: Propagation,
    },
    /// Calls a subresource of a VirtualMachine, as virtctl does.
    Virtctl {
        /// The subresource.
        call: &'static str,
        /// The VirtualMachine.
        name: String,
    },
}

/// Something that goes wrong between the operator and the API server, or with the operator itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process that sends the request dies; another starts after so long.
    Crash {
        /// How long nothing runs in its place.
        down: Duration,
    },
    /// All replicas are gone for so long.
    Down {
        /// How long.
        down: Duration,
    },
    /// The answer does not arrive: the connection breaks.
    Lost,
    /// The answer does not arrive: nothing is heard until the client gives up.
    Silence,
    /// The request is answered with this code: instead of being served for [`When::Before`], after
    /// it took effect for [`When::After`].
    Status(u16),
    /// Watches deliver nothing for so long, of one resource or of all.
    Stale {
        /// The resource's plural; None: all.
        resource: Option<&'static str>,
        /// How long.
        lasts: Duration,
    },
    /// No bookmark is delivered for so long.
    NoBookmarks {
        /// How long.
        lasts: Duration,
    },
    /// All watches end.
    Cut,
    /// All watches end, and the history is gone: they cannot be resumed.
    Compact,
    /// Every request fails for so long: 0 is refused connections, else the code of the answer.
    Outage {
        /// The code.
        code: u16,
        /// How long.
        lasts: Duration,
    },
    /// The leader cannot reach the Lease for so long, but everything else.
    Partition {
        /// How long.
        lasts: Duration,
    },
    /// The clock of all replicas is wrong by so many seconds from now on.
    Clock {
        /// Seconds.
        by: i64,
    },
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Somebody does something.
    Action(Action),
    /// Something fails.
    Fault(Fault),
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When it takes effect.
    pub when: When,
    /// What happens.
    pub what: What,
}

impl Decision {
    /// Somebody does something so many seconds after the start.
    pub fn at(seconds: u64, action: Action) -> Self {
        Self {
            when: When::At(Duration::from_secs(seconds)),
            what: What::Action(action),
        }
    }
}

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Script {
    /// The operator.
    pub subject: Subject,
    /// Where uids, jitter and the order of equals come from.
    pub seed: u64,
    /// How many replicas of the operator there are, each a candidate for the Lease.
    pub replicas: usize,
    /// How long nothing may be asked in the end.
    pub quiet: Duration,
    /// What happens.
    pub decisions: Vec<Decision>,
}

/// How long nothing may be asked in the end, unless a longer time is asked for: twice the longest
/// backoff, and twenty times the interval of resyncs.
pub const QUIET: Duration = Duration::from_secs(600);

impl fmt::Display for When {
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
            Self::Silence => f.write_str("no answer until the client gives up"),
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
        match &self.what {
            What::Action(action) => write!(f, "{}: {action}", self.when),
            What::Fault(fault) => write!(f, "{}: {fault}", self.when),
        }
    }
}
