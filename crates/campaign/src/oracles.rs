//! Oracles: properties of a run, judged from the API server's own history.
//!
//! None of them relies on the operator. Actions of users are known from the script and are never
//! blamed on the operator.

mod adoption;
mod disks;
mod end;
mod ownership;
mod process;
mod status;

use std::{fmt, time::Duration};

use crate::{
    decision::{Action, Subject},
    history::History,
    user::User,
};

/// Resources of a Machine's children, which users create too.
const CHILD_RESOURCES: [&str; 6] = [
    "virtualmachines",
    "virtualmachineinstances",
    "persistentvolumeclaims",
    "datavolumes",
    "secrets",
    "network-attachment-definitions",
];

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub oracle: &'static str,
    /// Since the start.
    pub at: Duration,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "{} at {at:.3} s: {}", self.oracle, self.text)
    }
}

/// Violations in the history.
pub fn judge(subject: Subject, history: &History) -> Vec<Violation> {
    let mut violations = process::judge(subject, history);
    if subject == Subject::Machine {
        violations.extend(adoption::judge(history));
        violations.extend(disks::judge(history));
        violations.extend(ownership::judge(history));
        violations.extend(status::judge(history));
    } else {
        violations.extend(ownership::judge_installation(history));
    }
    violations
}

/// Unmet expectations of the end state, and the remedies that the operator's messages give users. An
/// unmet expectation without a remedy is a violation.
pub async fn end_state(
    subject: Subject,
    user: &User,
) -> (Vec<(&'static str, String)>, Vec<Action>) {
    match subject {
        Subject::Machine => end::machines(user).await,
        Subject::Kubevirt => end::installation(user).await,
    }
}
