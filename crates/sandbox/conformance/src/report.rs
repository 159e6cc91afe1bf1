//! What came of a run.

use std::fmt;

use crate::compare::Difference;

/// The outcome of all cases that were asked for, in the order of the cases.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The version of the server, as `v1.37`.
    pub server: String,
    /// The names of the cases that passed.
    pub passed: Vec<String>,
    /// The cases that failed.
    pub failed: Vec<Failure>,
    /// The cases that mean nothing on this server.
    pub skipped: Vec<Skip>,
}

/// A case that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The area it belongs to.
    pub area: String,
    /// Its name.
    pub case: String,
    /// The step that failed, from one, and the request it made.
    pub step: String,
    /// What went wrong.
    pub cause: Cause,
}

/// Why a case failed.
#[derive(Debug, Clone)]
pub enum Cause {
    /// The server answered something else.
    Differs(Vec<Difference>),
    /// The step could not be taken.
    Broken(String),
}

/// A case that was left out.
#[derive(Debug, Clone)]
pub struct Skip {
    /// The area it belongs to.
    pub area: String,
    /// Its name.
    pub case: String,
    /// What the server would have to be able to do.
    pub missing: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAILED {}: {}", self.area, self.case)?;
        writeln!(f, "  {}", self.step)?;
        match &self.cause {
            Cause::Broken(why) => writeln!(f, "    {why}"),
            Cause::Differs(differences) => differences.iter().try_for_each(|difference| {
                difference
                    .to_string()
                    .lines()
                    .try_for_each(|line| writeln!(f, "    {line}"))
            }),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failed {
            writeln!(f, "{failure}")?;
        }
        for skip in &self.skipped {
            writeln!(
                f,
                "skipped {}: {} (needs {})",
                skip.area, skip.case, skip.missing
            )?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed.len(),
            self.failed.len(),
            self.skipped.len()
        )
    }
}
