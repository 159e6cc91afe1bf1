//! Oracles: what must hold of a run, judged from the API server's own history.
//!
//! None of them asks the operator. What a user did is known from the script, and is never held
//! against the operator.

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

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle.
    pub oracle: &'static str,
    /// When, since the start.
    pub at: Duration,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "{} at {at:.3} s: {}", self.oracle, self.text)
    }
}

/// Judges everything that happened.
pub fn judge(subject: Subject, history: &History) -> Vec<Violation> {
    let mut violations = process::judge(subject, history);
    if subject == Subject::Machine {
        violations.extend(disks::judge(history));
        violations.extend(ownership::judge(history));
        violations.extend(status::judge(history));
    } else {
        violations.extend(ownership::judge_installation(history));
    }
    violations
}

/// What of the end state is not as it must be, and what a user can do about it by the operator's
/// own words. An unmet expectation without a remedy is a violation.
pub async fn end_state(
    subject: Subject,
    user: &User,
) -> (Vec<(&'static str, String)>, Vec<Action>) {
    match subject {
        Subject::Machine => end::machines(user).await,
        Subject::Kubevirt => end::installation(user).await,
    }
}
