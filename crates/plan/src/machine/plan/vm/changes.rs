//! Reports of changes of a VirtualMachine: the reason of the step, and the Event.

use api::{PowerState, labels};

use super::ExistingVm;
use crate::{
    Event,
    machine::{
        ResolvedMachine,
        plan::{compare::Difference, ownership::name},
    },
    managed,
};

/// Changed fields of the VirtualMachine, without annotations that only record the operator's state.
fn reported_fields(changed: &[Difference]) -> Vec<&str> {
    changed
        .iter()
        .map(|difference| difference.path.as_str())
        .filter(|path| !labels::INTERNAL.iter().any(|label| path.ends_with(label)))
        .collect()
}

pub(super) fn reason(changed: &[Difference], is_own_change: bool) -> String {
    let fields = reported_fields(changed);
    match (fields.is_empty(), is_own_change) {
        (true, _) => "the operator's annotations change".to_owned(),
        (false, true) => format!("{} changes", fields.join(", ")),
        (false, false) => format!("another client changed {}", fields.join(", ")),
    }
}

pub(super) fn event(
    changed: &[Difference],
    existing: &ExistingVm<'_>,
    machine: &ResolvedMachine,
    is_own_change: bool,
) -> Option<Event> {
    let fields = reported_fields(changed);
    if fields.is_empty() {
        return None;
    }
    let vm = name(&existing.vm.metadata);
    if !is_own_change {
        let by = managed::changed_by(&existing.vm.metadata, &fields);
        let message = managed::repaired(&by, &format!("VirtualMachine {vm}"), &fields.join(", "));
        return Some(Event::normal("DriftCorrected", message));
    }
    if fields == ["spec.runStrategy"] {
        return Some(match machine.power_state {
            PowerState::Stopped => Event::normal("Stopping", "Stopping, as spec.powerState asks"),
            PowerState::Running | PowerState::Paused => {
                Event::normal("Starting", "Starting, as spec.powerState asks")
            }
        });
    }
    let domain = "spec.template.spec.domain";
    let is_size = |path: &&&str| {
        path.starts_with(&format!("{domain}.cpu")) || path.starts_with(&format!("{domain}.memory"))
    };
    if fields.iter().any(|path| is_size(&path)) {
        let message = format!(
            "Resized VirtualMachine {vm} to {} and {} of memory",
            cpus(machine.vcpus()),
            machine.memory
        );
        return Some(Event::normal("Resized", message));
    }
    let message = format!("Changed {} of VirtualMachine {vm}", fields.join(", "));
    Some(Event::normal("Updated", message))
}

pub(super) fn cpus(count: u32) -> String {
    match count {
        1 => "1 CPU".to_owned(),
        count => format!("{count} CPUs"),
    }
}
