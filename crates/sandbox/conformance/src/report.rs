//! Report of a run.

use std::fmt;

use crate::compare::Difference;

/// Results of the selected cases, in order.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// As in `v1.37`.
    pub server: String,
    pub passed: Vec<String>,
    pub failed: Vec<Failure>,
    pub skipped: Vec<Skip>,
}

#[derive(Debug, Clone)]
pub struct Failure {
    pub area: String,
    pub case: String,
    /// Number of the failed step, from 1, and its request.
    pub step: String,
    pub cause: Cause,
}

#[derive(Debug, Clone)]
pub enum Cause {
    /// The response differs from the recorded one.
    Differs(Vec<Difference>),
    /// The step could not be executed.
    Broken(String),
}

#[derive(Debug, Clone)]
pub struct Skip {
    pub area: String,
    pub case: String,
    /// Missing capability.
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
