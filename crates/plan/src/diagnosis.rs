//! Diagnosis of a Machine: the first cause that keeps it from running, and the remedy.
//!
//! [`diagnose`] is a function of the [`Observed`] objects and the time. It walks from the Machine to the
//! objects that it depends on. Each check is independent and returns what it finds; the verdict is the most
//! severe finding, of several the one that is earlier in the walk, because it explains the later ones.
//!
//! Messages quote conditions and Events of other components, never the content of a Secret.

mod checks;
mod observed;
mod walk;

use std::fmt;

use api::Time;

pub use observed::{
    Container, ContainerState, Event, Instance, InstanceStatus, Involved, MigrationState, Node,
    NodeStatus, Observed, Operation, OperationSpec, OperationStatus, Pod, PodSpec, PodStatus,
    Reference, Terminated, Waiting,
};
pub use walk::{Link, walk};

/// Diagnosis of one Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub verdict: Finding,
    /// Further findings, in the order of the walk.
    pub others: Vec<Finding>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub cause: Cause,
    pub severity: Severity,
    /// Kind and name of the object that has the cause.
    pub object: String,
    pub message: String,
    /// What to do; empty if nothing needs to be done.
    pub remedy: String,
}

/// How much a finding matters, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The machine is not in the state that its spec asks for.
    Broken,
    /// The machine runs, but something around it does not work.
    Degraded,
    /// On its way: nothing to do yet.
    Progressing,
    Healthy,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "Broken",
            Self::Degraded => "Degraded",
            Self::Progressing => "Progressing",
            Self::Healthy => "Healthy",
        }
    }
}

/// The cause of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    OtherProvider,
    Deleting,
    KubeVirtMissing,
    /// A component of KubeVirt has no ready pod.
    KubeVirtNotReady,
    VirtApiUnavailable,
    NotReconciled,
    InvalidSpec,
    DataLost,
    ProvisioningFailed,
    ClaimLost,
    ImportFailed,
    NetworkNotReady,
    NodeNotReady,
    Unschedulable,
    ImagePullFailed,
    LauncherExited,
    PodNotReady,
    GuestCrashLoop,
    GuestCrashed,
    GuestShutdown,
    GuestNotReady,
    MigrationFailed,
    ResizeFailed,
    SnapshotFailed,
    RestoreFailed,
    RestartRequired,
    NothingToBoot,
    MacAddressShared,
    /// A reason of the condition `Ready` that no check explains.
    Reported(String),
    Creating,
    Starting,
    Stopping,
    Paused,
    Stopped,
    Running,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported(reason) => f.write_str(reason),
            cause => write!(f, "{cause:?}"),
        }
    }
}

/// Finds what keeps a Machine from running.
pub fn diagnose(observed: &Observed, now: &Time) -> Diagnosis {
    let view = checks::View { observed, now };
    let mut findings: Vec<Finding> = checks::ALL.iter().flat_map(|check| check(&view)).collect();
    let is_explained = |finding: &Finding| finding.severity != Severity::Degraded;
    if !findings.iter().any(is_explained) {
        findings.push(checks::state(&view));
    }
    // A stable sort: of equally severe findings the earliest explains the others.
    findings.sort_by_key(|finding| finding.severity);
    let mut findings = findings.into_iter();
    let verdict = findings.next().unwrap_or_else(|| checks::state(&view));
    let others = findings
        .filter(|finding| finding.severity <= Severity::Degraded)
        .collect();
    Diagnosis { verdict, others }
}

#[cfg(test)]
mod tests;
