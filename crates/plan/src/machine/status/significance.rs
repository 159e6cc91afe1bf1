//! Significance of status changes: whether users or programs wait for them, and so need a write.

use api::{Condition, InterfaceStatus, MachineStatus, Phase, QuantityValue};

use super::{reason, size::Size};
use crate::conditions::find;

/// Whether the change from `old` to `new` needs a status write.
pub(super) fn is_significant(old: &MachineStatus, new: &MachineStatus) -> bool {
    old.phase != new.phase
        || old.observed_generation != new.observed_generation
        || conditions_differ(old, new)
        || becomes_readable(old, new)
        || !is_deleting(new)
            && (size_or_name(old) != size_or_name(new)
                || identity_differs(old, new)
                || location_differs(old, new)
                || guest_differs(old, new)
                || records_differ(old, new))
}

fn conditions_differ(old: &MachineStatus, new: &MachineStatus) -> bool {
    let was = old.conditions.as_deref();
    let is = new.conditions.as_deref().unwrap_or_default();
    let messages_matter = messages_matter(new);
    was.map_or(0, <[Condition]>::len) != is.len()
        || is.iter().any(|is| {
            find(was, &is.type_).is_none_or(|was| {
                was.status != is.status
                    || was.reason != is.reason
                    || was.observed_generation != is.observed_generation
                    || was.message != is.message && messages_matter && has_relevant_message(is)
            })
        })
}

/// Messages of a guest that is starting or stopping are soon outdated.
fn messages_matter(status: &MachineStatus) -> bool {
    let passing = [reason::CREATING, reason::STARTING, reason::STOPPING];
    status.phase != Some(Phase::Creating)
        && ready_reason(status).is_none_or(|reason| !passing.contains(&reason))
}

fn has_relevant_message(condition: &Condition) -> bool {
    condition.status == "False" || condition.type_ == reason::RESTART_REQUIRED
}

fn is_deleting(status: &MachineStatus) -> bool {
    ready_reason(status) == Some(reason::DELETING)
}

fn ready_reason(status: &MachineStatus) -> Option<&str> {
    find(status.conditions.as_deref(), reason::READY).map(|ready| ready.reason.as_str())
}

fn size_or_name(status: &MachineStatus) -> impl PartialEq {
    (status.vm_name.as_deref(), Size::reported(status))
}

/// Clients of other programs cannot decode a list that has memory as text.
fn becomes_readable(old: &MachineStatus, new: &MachineStatus) -> bool {
    let is_text =
        |status: &MachineStatus| matches!(status.memory, Some(QuantityValue::Quantity(_)));
    is_text(old) && !is_text(new)
}

/// The state of a guest that is starting or stopping is soon outdated.
fn identity_differs(old: &MachineStatus, new: &MachineStatus) -> bool {
    old.provider != new.provider
        || messages_matter(new) && (old.machine_id != new.machine_id || old.state != new.state)
}

/// Interfaces and the operating system matter while a guest runs. Addresses count with its location.
fn guest_differs(old: &MachineStatus, new: &MachineStatus) -> bool {
    new.phase == Some(Phase::Running)
        && (old.hostname != new.hostname
            || old.operating_system != new.operating_system
            || !interfaces(old).eq(interfaces(new)))
}

/// Who reports an interface, and the state of its link, change with the guest agent's answers.
fn interfaces(status: &MachineStatus) -> impl Iterator<Item = InterfaceStatus> {
    status
        .network_interfaces
        .iter()
        .flatten()
        .map(|interface| InterfaceStatus {
            state: None,
            type_: None,
            ..interface.clone()
        })
}

/// A guest that has never run has no data to lose.
fn records_differ(old: &MachineStatus, new: &MachineStatus) -> bool {
    new.phase != Some(Phase::Creating) && old.disks != new.disks
}

/// Node, instance and addresses matter while a guest runs, and when they disappear.
fn location_differs(old: &MachineStatus, new: &MachineStatus) -> bool {
    let (old_addresses, new_addresses) = (old.ip_addresses.list(), new.ip_addresses.list());
    let is_cleared = old.node_name.is_some() && new.node_name.is_none()
        || old.vmi_name.is_some() && new.vmi_name.is_none()
        || !old_addresses.is_empty() && new_addresses.is_empty();
    let differs = old.node_name != new.node_name
        || old.vmi_name != new.vmi_name
        || old_addresses != new_addresses;
    is_cleared || new.phase == Some(Phase::Running) && differs
}
