//! What is told of a Machine: phase, conditions, addresses, node, from what is observed.

use std::time::Duration;

use api::{MachineStatus, Time};

use super::{Observed, Obstacle, ResolvedMachine, SpecError};
use crate::Event;

/// What a status is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// What is observed.
    pub(super) observed: &'a Observed<'a>,
    /// What the Machine resolved to, or every error.
    pub(super) resolved: Result<&'a ResolvedMachine, &'a [SpecError]>,
    /// What is in the way.
    pub(super) obstacles: &'a [Obstacle],
    /// Why the size is not the one of the class as it is now, if so.
    pub(super) class_behind: Option<&'a str>,
    /// Why the guest has to be restarted for a change to take effect, if we know better than
    /// KubeVirt.
    pub(super) restart_required: Option<&'a str>,
    /// Now.
    pub(super) now: &'a Time,
}

/// A status, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// The status; the one that the Machine has when nothing worth a write has changed.
    pub(super) status: MachineStatus,
    /// What to tell people once it is written.
    pub(super) events: Vec<Event>,
    /// When to look again, although nothing may have changed.
    pub(super) look_again: Option<Duration>,
}

/// Tells how a Machine is.
pub(super) fn tell(facts: Facts<'_>) -> Told {
    let status = facts.observed.machine.status.clone().unwrap_or_default();
    Told {
        status,
        events: Vec::new(),
        look_again: None,
    }
}
