//! What is to be done for a Machine, and what to tell of it.

use std::time::Duration;

use api::{MachineStatus, Time};

use super::{Observed, Step};
use crate::Event;

/// What is to be done for a Machine, and what to tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes, in order. After them, look and plan again.
    pub steps: Vec<Step>,
    /// The status of what was observed; the same as the Machine's when it need not be written.
    pub status: MachineStatus,
    /// What to tell people once the status is written.
    pub events: Vec<Event>,
    /// When to look again, although nothing may have changed.
    pub look_again: Option<Duration>,
}

/// Plans the next writes for a Machine.
pub fn plan(observed: &Observed<'_>, _now: &Time) -> Plan {
    Plan {
        steps: Vec::new(),
        status: observed.machine.status.clone().unwrap_or_default(),
        events: Vec::new(),
        look_again: None,
    }
}
