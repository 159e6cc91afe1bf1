//! The conditions of a Machine's parts.

use api::{condition, kubevirt::ObservedVirtualMachine};

use super::{
    super::{
        Attachment, ErrorType, Part, ResolvedMachine, SizingSource, SpecError, ignored_switches,
        nothing_to_boot,
    },
    Behind,
    failure::{self, Failures},
    guest::{End, Guest},
    reason,
    view::View,
    volumes,
};
use crate::{
    admission::machine::shared_addresses,
    conditions::{self, Said},
    naming,
};

/// The conditions that can be told. What cannot, because the spec is not valid, stays as it was.
pub(super) fn parts(view: &View<'_>, guest: Guest, failures: &Failures) -> Vec<Said> {
    let said = [
        Some(virtual_machine(view, guest, failures)),
        storage(view, failures),
        network(view, failures),
        Some(restart(view)),
        Some(spec(failures)),
        class(view),
        mac_addresses(view),
        data_lost(view),
        annotations(view),
        bootable(view),
    ];
    said.into_iter().flatten().collect()
}

/// Whether what there is no longer to tell of goes away.
pub(super) fn is_outdated(view: &View<'_>, type_: &str) -> bool {
    match type_ {
        reason::MACHINE_CLASS_CURRENT => view.facts.resolved.is_ok() && class(view).is_none(),
        reason::MAC_ADDRESS_SHARED => mac_addresses(view).is_none(),
        reason::DATA_LOST => view.facts.resolved.is_ok() && data_lost(view).is_none(),
        reason::ANNOTATIONS_VALID => annotations(view).is_none(),
        reason::BOOTABLE => view.facts.resolved.is_ok() && bootable(view).is_none(),
        _ => false,
    }
}

/// Reported only while the guest finds nothing to boot. It runs all the same, so `Ready` does not
/// depend on it. A guest that ran with something to boot may have filled its disk, as an installer
/// does before its CD-ROM is removed.
fn bootable(view: &View<'_>) -> Option<Said> {
    let old = view.old.and_then(|old| old.conditions.as_deref());
    let is_old = |type_, status: &str| {
        conditions::find(old, type_).is_some_and(|condition| condition.status == status)
    };
    // A Machine that failed since it ran is recognised by the spec that was valid then.
    let is_evaluated = view.has_run() || is_old(reason::SPEC_VALID, "True");
    if is_evaluated && !is_old(reason::BOOTABLE, "False") {
        return None;
    }
    let note = nothing_to_boot(view.facts.observed.machine, view.facts.resolved.ok()?)?;
    let message = format!("{}: {}", note.path, note.message);
    Some(Said::no(reason::BOOTABLE, "NothingToBoot", message))
}

/// Reported only while there are annotations that have no effect.
fn annotations(view: &View<'_>) -> Option<Said> {
    let ignored = ignored_switches(view.facts.observed.machine);
    let messages: Vec<String> = ignored
        .iter()
        .map(|note| format!("{}: {}", note.path, note.message))
        .collect();
    (!messages.is_empty()).then(|| {
        let message = messages.join("; ");
        Said::no(reason::ANNOTATIONS_VALID, "AnnotationIgnored", message)
    })
}

fn virtual_machine(view: &View<'_>, guest: Guest, failures: &Failures) -> Said {
    let type_ = reason::VIRTUAL_MACHINE_READY;
    let was_made = view.old.is_some_and(|old| old.vm_name.is_some());
    match failures.of_part(Part::VirtualMachine) {
        Some(message) if view.facts.observed.installed.kubevirt || was_made => {
            Said::no(type_, reason::VM_FAILED, message)
        }
        Some(message) => Said::no(type_, reason::VM_PENDING, message),
        None if guest == Guest::Ended(End::Crashed) => {
            let message = "the guest crashed, or could not start";
            Said::no(type_, reason::VM_FAILED, message)
        }
        None => match view.vm {
            Some(vm) => Said::yes(type_, reason::VM_CREATED, created(vm)),
            None => Said::no(
                type_,
                reason::VM_PENDING,
                "the VirtualMachine is not made yet",
            ),
        },
    }
}

fn created(vm: &ObservedVirtualMachine) -> String {
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    format!("VirtualMachine {name} is made")
}

fn storage(view: &View<'_>, failures: &Failures) -> Option<Said> {
    let type_ = reason::STORAGE_READY;
    let pending = |message| Some(Said::no(type_, reason::PVC_PENDING, message));
    let obstacles = obstacles(view, Part::Storage);
    let failed = failures.of_part(Part::Storage);
    if let Some(lost) = data_lost(view) {
        return Some(Said::no(type_, reason::DATA_LOST, lost.message));
    }
    if let Some(in_use) = disk_in_use(view).filter(|_| failed.is_none()) {
        return Some(in_use);
    }
    if let Some(message) = failed.or(obstacles) {
        return pending(message);
    }
    match view.facts.resolved {
        Err(errors) => errors_of(errors, ErrorType::StorageClassNotFound).and_then(pending),
        Ok(machine) => match unbound(view, machine) {
            None => {
                let bound = ["every disk is bound"].into_iter();
                let ignored = view.facts.ignored_modes.iter().map(String::as_str);
                let message: Vec<&str> = bound.chain(ignored).collect();
                Some(Said::yes(type_, reason::PVC_BOUND, message.join("; ")))
            }
            Some(message) => pending(message),
        },
    }
}

/// Reported only while a disk's data is lost, or about to be.
fn data_lost(view: &View<'_>) -> Option<Said> {
    let obstacles = view.facts.obstacles.iter();
    let lost = obstacles.filter(|it| it.error_type == Some(ErrorType::DataLost));
    let messages: Vec<&str> = lost.map(|obstacle| obstacle.message.as_str()).collect();
    let message = messages.join("; ");
    (!messages.is_empty()).then(|| Said::yes(reason::DATA_LOST, "ClaimGone", message))
}

/// What keeps disks from being deleted that are to be.
pub(super) fn disk_in_use(view: &View<'_>) -> Option<Said> {
    let obstacles = view.facts.obstacles.iter();
    let in_use = obstacles.filter(|it| it.error_type == Some(ErrorType::DiskInUse));
    let messages: Vec<&str> = in_use.map(|obstacle| obstacle.message.as_str()).collect();
    let message = messages.join("; ");
    (!messages.is_empty()).then(|| Said::no(reason::STORAGE_READY, reason::DISK_IN_USE, message))
}

/// The disks that are waited for, and what CDI says of them.
pub(super) fn unbound(view: &View<'_>, machine: &ResolvedMachine) -> Option<String> {
    let observed = view.facts.observed;
    let is_bound = |name: &str| {
        let claims = observed.claims.iter();
        let is_filled = observed
            .data_volumes
            .iter()
            .filter(|volume| volume.metadata.name.as_deref() == Some(name))
            .all(|volume| volume.status.phase == "Succeeded");
        let mut named = claims.filter(|claim| claim.metadata.name.as_deref() == Some(name));
        is_filled && named.any(|claim| claim.status.phase == "Bound")
    };
    let names = machine
        .disks
        .iter()
        .map(|disk| naming::claim(&machine.identity.name, &disk.name));
    let missing: Vec<String> = names.filter(|name| !is_bound(name)).collect();
    if missing.is_empty() {
        return None;
    }
    let waits = format!("waiting for the disks to be bound: {}", missing.join(", "));
    match volumes::unfilled(view) {
        Some(unfilled) => Some(format!("{waits}; {}", unfilled.message)),
        None => Some(waits),
    }
}

fn network(view: &View<'_>, failures: &Failures) -> Option<Said> {
    let type_ = reason::NETWORK_READY;
    let failed = |message| Some(Said::no(type_, reason::NETWORK_FAILED, message));
    let obstacles = obstacles(view, Part::Network);
    if let Some(message) = failures.of_part(Part::Network).or(obstacles) {
        return failed(message);
    }
    match view.facts.resolved {
        Err(errors) => errors_of(errors, ErrorType::NetworkConfigurationNotFound).and_then(failed),
        Ok(machine) => match unattached(view, machine) {
            None => {
                let message = "every network is there";
                Some(Said::yes(type_, reason::NETWORK_CONFIGURED, message))
            }
            Some(message) => failed(message),
        },
    }
}

fn unattached(view: &View<'_>, machine: &ResolvedMachine) -> Option<String> {
    let observed = view.facts.observed;
    let networks = machine
        .interfaces
        .iter()
        .filter_map(|it| match &it.attachment {
            Attachment::Network(name) => Some(name.as_str()),
            Attachment::PodNetwork => None,
        });
    let is_there = |name: &str| {
        let mut definitions = observed.attachments.iter();
        definitions.any(|definition| definition.metadata.name.as_deref() == Some(name))
    };
    let mut missing: Vec<&str> = networks.filter(|name| !is_there(name)).collect();
    missing.dedup();
    match (missing.as_slice(), observed.installed.multus) {
        ([], _) => None,
        (_, false) => Some(
            "Multus is not installed in this cluster; install it, or take the networks out of \
             spec.networks"
                .to_owned(),
        ),
        (missing, true) => Some(format!(
            "waiting for the NetworkAttachmentDefinition of: {}",
            missing.join(", ")
        )),
    }
}

fn obstacles(view: &View<'_>, part: Part) -> Option<String> {
    let obstacles = view.facts.obstacles.iter();
    let messages: Vec<&str> = obstacles
        .filter(|obstacle| obstacle.part == part)
        .map(|obstacle| obstacle.message.as_str())
        .collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn errors_of(errors: &[SpecError], error_type: ErrorType) -> Option<String> {
    let errors = errors.iter().filter(|error| error.error_type == error_type);
    let messages: Vec<String> = errors.map(failure::words).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn restart(view: &View<'_>) -> Said {
    let type_ = reason::RESTART_REQUIRED;
    let conditions = view.vm.map(|vm| vm.status.conditions.as_slice());
    let theirs = condition(conditions.unwrap_or_default(), "RestartRequired")
        .filter(|required| required.is_true())
        .map(|required| required.message.as_str());
    let reasons: Vec<&str> = view
        .facts
        .restart_required
        .into_iter()
        .chain(theirs)
        .collect();
    if reasons.is_empty() {
        Said::no(type_, "UpToDate", "the guest has every change")
    } else {
        let message = format!(
            "change spec.restartedAt to restart the guest: {}",
            reasons.join("; ")
        );
        Said::yes(type_, "ChangesPending", message)
    }
}

fn spec(failures: &Failures) -> Said {
    let mut of_spec = failures.all.iter().filter(|it| it.part == Part::Spec);
    match (of_spec.next(), failures.of_part(Part::Spec)) {
        (Some(first), Some(message)) => {
            Said::no(reason::SPEC_VALID, first.error_type.as_str(), message)
        }
        _ => Said::yes(reason::SPEC_VALID, "Valid", "the spec is valid"),
    }
}

/// Present only while another Machine asks for one of the Machine's MAC addresses.
fn mac_addresses(view: &View<'_>) -> Option<Said> {
    let observed = view.facts.observed;
    let shared = shared_addresses(observed.machine, &observed.mac_address_rivals);
    (!shared.is_empty()).then(|| {
        Said::yes(
            reason::MAC_ADDRESS_SHARED,
            "DuplicateMacAddress",
            shared.join("; "),
        )
    })
}

/// Only machines that are sized by a class can be behind it.
fn class(view: &View<'_>) -> Option<Said> {
    let type_ = reason::MACHINE_CLASS_CURRENT;
    let SizingSource::Class { name, .. } = &view.facts.resolved.ok()?.sizing else {
        return None;
    };
    Some(match view.facts.class_behind {
        Some(Behind::Newer(message)) => Said::no(type_, "NewerClassAvailable", message),
        Some(Behind::Lost(message)) => Said::no(type_, "ClassUnavailable", message),
        None => Said::yes(
            type_,
            "ClassCurrent",
            format!("the size is that of MachineClass {name}"),
        ),
    })
}
