//! One step of a plan.

use crate::Event;

/// A write, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<A> {
    pub action: A,
    /// Shown in logs and by the `plan` commands.
    pub reason: String,
    /// Published after the write has succeeded.
    pub event: Option<Event>,
}
