//! Conditions of a Machine's parts.

use api::{cdi::DataVolumePhase, condition, core::ClaimPhase, kubevirt::ObservedVirtualMachine};

use super::{
    super::{
        Attachment, ErrorType, Part, ResolvedMachine, SizingSource, SpecError, ignored_switches,
        nothing_to_boot,
        plan::{adoption::KeptSpec, ledger},
        protection,
    },
    ClassMismatch, Resolved,
    failure::{self, Failures},
    guest::{Guest, StopCause},
    reason,
    view::View,
    volumes,
};
use crate::{
    admission::machine::{shared_addresses, virtual_machine as vm_name},
    conditions::{self, ConditionUpdate},
    naming,
};

/// Conditions to update. Those that cannot be evaluated because the spec is invalid stay unchanged.
pub(super) fn evaluate(view: &View<'_>, guest: Guest, failures: &Failures) -> Vec<ConditionUpdate> {
    let conditions = [
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
        kept_spec(view),
        deletion(view),
    ];
    conditions.into_iter().flatten().collect()
}

/// Whether a condition that exists only while there is something to report is to be removed.
pub(super) fn is_stale(view: &View<'_>, type_: &str) -> bool {
    match type_ {
        reason::MACHINE_CLASS_CURRENT => {
            view.input.resolved.machine().is_some() && class(view).is_none()
        }
        reason::MAC_ADDRESS_SHARED => mac_addresses(view).is_none(),
        reason::DATA_LOST => view.input.resolved.machine().is_some() && data_lost(view).is_none(),
        reason::ANNOTATIONS_VALID => annotations(view).is_none(),
        reason::SPEC_APPLIED => {
            view.input.resolved.machine().is_some() && view.input.kept_spec.is_none()
        }
        reason::DELETION_BLOCKED => deletion(view).is_none(),
        reason::BOOTABLE => view.input.resolved.machine().is_some() && bootable(view).is_none(),
        _ => false,
    }
}

/// Present only while there is nothing to boot. The guest runs anyway, so `Ready` does not depend on it.
/// After a run, the disk may have been filled, as by an installer whose CD-ROM is removed afterwards.
fn bootable(view: &View<'_>) -> Option<ConditionUpdate> {
    let old = view.old.and_then(|old| old.conditions.as_deref());
    let is_old = |type_, status: &str| {
        conditions::find(old, type_).is_some_and(|condition| condition.status == status)
    };
    // A Machine that failed after it ran is recognized by its spec, which was valid then.
    let is_evaluated = view.has_run() || is_old(reason::SPEC_VALID, "True");
    if is_evaluated && !is_old(reason::BOOTABLE, "False") {
        return None;
    }
    let note = nothing_to_boot(view.input.observed.machine, view.input.resolved.machine()?)?;
    let message = format!("{}: {}", note.path, note.message);
    Some(ConditionUpdate::as_false(
        reason::BOOTABLE,
        "NothingToBoot",
        message,
    ))
}

/// Present only while the spec of an adopted VirtualMachine stays as it is.
fn kept_spec(view: &View<'_>) -> Option<ConditionUpdate> {
    let KeptSpec { reason, message } = view.input.kept_spec?;
    let message = conditions::bounded(message.clone());
    Some(ConditionUpdate::as_false(
        reason::SPEC_APPLIED,
        reason,
        message,
    ))
}

/// Present only while its protection blocks the deletion of the Machine.
fn deletion(view: &View<'_>) -> Option<ConditionUpdate> {
    let machine = view.input.observed.machine;
    protection::blocks_deletion(machine).then(|| {
        let message = format!(
            "the Machine was deleted, which cannot be taken back, but spec.deletionProtection is true: \
             the operator deletes and changes nothing until then; {}",
            protection::REMEDY
        );
        ConditionUpdate::as_true(reason::DELETION_BLOCKED, "DeletionProtection", message)
    })
}

/// Present only while annotations have no effect.
fn annotations(view: &View<'_>) -> Option<ConditionUpdate> {
    let ignored = ignored_switches(view.input.observed.machine);
    let messages: Vec<String> = ignored
        .iter()
        .map(|note| format!("{}: {}", note.path, note.message))
        .collect();
    (!messages.is_empty()).then(|| {
        let message = messages.join("; ");
        ConditionUpdate::as_false(reason::ANNOTATIONS_VALID, "AnnotationIgnored", message)
    })
}

fn virtual_machine(view: &View<'_>, guest: Guest, failures: &Failures) -> ConditionUpdate {
    let type_ = reason::VIRTUAL_MACHINE_READY;
    let was_created = view.old.is_some_and(|old| old.vm_name.is_some());
    match failures.of_part(Part::VirtualMachine) {
        Some(message) if view.input.observed.installed.kubevirt || was_created => {
            ConditionUpdate::as_false(type_, reason::VM_FAILED, message)
        }
        Some(message) => ConditionUpdate::as_false(type_, reason::VM_PENDING, message),
        None if guest == Guest::Ended(StopCause::Crashed) => {
            let message = "the guest crashed, or could not start";
            ConditionUpdate::as_false(type_, reason::VM_FAILED, message)
        }
        None => {
            if let Some(vm) = view.vm {
                ConditionUpdate::as_true(type_, reason::VM_CREATED, created(vm))
            } else {
                let name = vm_name(view.input.observed.machine);
                let message = format!("VirtualMachine {name} has not been created");
                ConditionUpdate::as_false(type_, reason::VM_PENDING, message)
            }
        }
    }
}

fn created(vm: &ObservedVirtualMachine) -> String {
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    format!("VirtualMachine {name} exists")
}

fn storage(view: &View<'_>, failures: &Failures) -> Option<ConditionUpdate> {
    let type_ = reason::STORAGE_READY;
    let pending = |message| {
        Some(ConditionUpdate::as_false(
            type_,
            reason::PVC_PENDING,
            message,
        ))
    };
    let obstacles = obstacles(view, Part::Storage);
    let failed = failures.of_part(Part::Storage);
    if let Some(lost) = data_lost(view) {
        return Some(ConditionUpdate::as_false(
            type_,
            reason::DATA_LOST,
            lost.message,
        ));
    }
    if let Some(in_use) = disk_in_use(view).filter(|_| failed.is_none()) {
        return Some(in_use);
    }
    if let Some(message) = failed.or(obstacles) {
        return pending(message);
    }
    match view.input.resolved {
        Resolved::Terminating => None,
        Resolved::Invalid(errors) => {
            errors_of(errors, ErrorType::StorageClassNotFound).and_then(pending)
        }
        Resolved::Valid(machine) => match unbound(view, machine) {
            None => {
                let bound = ["all disks are bound"].into_iter();
                let ignored = view.input.ignored_modes.iter().map(String::as_str);
                let message: Vec<&str> = bound.chain(ignored).collect();
                Some(ConditionUpdate::as_true(
                    type_,
                    reason::PVC_BOUND,
                    message.join("; "),
                ))
            }
            Some(message) => {
                let unfilled = volumes::unfilled(view);
                let reason = unfilled.map_or(reason::PVC_PENDING, |unfilled| unfilled.reason);
                Some(ConditionUpdate::as_false(type_, reason, message))
            }
        },
    }
}

/// Present only while a disk's data is lost or about to be.
fn data_lost(view: &View<'_>) -> Option<ConditionUpdate> {
    let obstacles = view.input.obstacles.iter();
    let lost = obstacles.filter(|it| it.error_type == Some(ErrorType::DataLost));
    let messages: Vec<&str> = lost.map(|obstacle| obstacle.message.as_str()).collect();
    let message = messages.join("; ");
    (!messages.is_empty())
        .then(|| ConditionUpdate::as_true(reason::DATA_LOST, "ClaimGone", message))
}

/// The condition about disks that cannot be deleted because they are in use.
pub(super) fn disk_in_use(view: &View<'_>) -> Option<ConditionUpdate> {
    let obstacles = view.input.obstacles.iter();
    let in_use = obstacles.filter(|it| it.error_type == Some(ErrorType::DiskInUse));
    let messages: Vec<&str> = in_use.map(|obstacle| obstacle.message.as_str()).collect();
    let message = messages.join("; ");
    (!messages.is_empty())
        .then(|| ConditionUpdate::as_false(reason::STORAGE_READY, reason::DISK_IN_USE, message))
}

/// The disks that are not bound, with CDI's messages.
pub(super) fn unbound(view: &View<'_>, machine: &ResolvedMachine) -> Option<String> {
    let observed = view.input.observed;
    let is_bound = |name: &str| {
        let claims = observed.claims.iter();
        let is_filled = observed
            .data_volumes
            .iter()
            .filter(|volume| volume.metadata.name.as_deref() == Some(name))
            .all(|volume| volume.status.phase == DataVolumePhase::Succeeded);
        let mut named = claims.filter(|claim| claim.metadata.name.as_deref() == Some(name));
        is_filled && named.any(|claim| claim.status.phase == ClaimPhase::Bound)
    };
    let names = machine
        .disks
        .iter()
        .map(|disk| disk.claim(&machine.identity.name));
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

fn network(view: &View<'_>, failures: &Failures) -> Option<ConditionUpdate> {
    let type_ = reason::NETWORK_READY;
    let failed = |message| {
        Some(ConditionUpdate::as_false(
            type_,
            reason::NETWORK_FAILED,
            message,
        ))
    };
    let obstacles = obstacles(view, Part::Network);
    let machine = view.input.resolved.machine();
    let namespace = machine.and_then(|it| it.network_namespace.as_ref());
    let address =
        machine.and_then(|it| ledger::awaited_address(view.input.observed, it, view.input.now));
    let failure = failures.of_part(Part::Network);
    // The only obstacle.
    let address = address
        .map(|it| it.message)
        .filter(|message| failure.is_none() && obstacles.as_ref() == Some(message));
    if let Some(message) = namespace.and_then(|it| it.pending.clone()).or(address) {
        return Some(ConditionUpdate::as_false(
            type_,
            reason::NETWORK_PENDING,
            message,
        ));
    }
    if let Some(message) = failure.or(obstacles) {
        return failed(message);
    }
    match view.input.resolved {
        Resolved::Terminating => None,
        Resolved::Invalid(errors) => {
            errors_of(errors, ErrorType::NetworkConfigurationNotFound).and_then(failed)
        }
        Resolved::Valid(machine) => match unattached(view, machine) {
            None => {
                let message = "all networks are configured";
                Some(ConditionUpdate::as_true(
                    type_,
                    reason::NETWORK_CONFIGURED,
                    message,
                ))
            }
            Some(message) => failed(message),
        },
    }
}

fn unattached(view: &View<'_>, machine: &ResolvedMachine) -> Option<String> {
    let observed = view.input.observed;
    let networks = machine
        .interfaces
        .iter()
        .filter_map(|it| match &it.attachment {
            Attachment::Network(name) => Some(name.clone()),
            Attachment::Vlan(id) => Some(naming::vlan(*id)),
            Attachment::PodNetwork => None,
        });
    let is_there = |name: &str| {
        let mut definitions = observed.attachments.iter();
        definitions.any(|definition| definition.metadata.name.as_deref() == Some(name))
    };
    let mut missing: Vec<String> = networks.filter(|name| !is_there(name)).collect();
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
    let obstacles = view.input.obstacles.iter();
    let messages: Vec<&str> = obstacles
        .filter(|obstacle| obstacle.part == part)
        .map(|obstacle| obstacle.message.as_str())
        .collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn errors_of(errors: &[SpecError], error_type: ErrorType) -> Option<String> {
    let errors = errors.iter().filter(|error| error.error_type == error_type);
    let messages: Vec<String> = errors.map(failure::describe).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn restart(view: &View<'_>) -> ConditionUpdate {
    let type_ = reason::RESTART_REQUIRED;
    let conditions = view.vm.map(|vm| vm.status.conditions.as_slice());
    let from_kubevirt = condition(conditions.unwrap_or_default(), "RestartRequired")
        .filter(|required| required.is_true())
        .map(|required| required.message.as_str());
    let reasons: Vec<&str> = view
        .input
        .restart_required
        .into_iter()
        .chain(from_kubevirt)
        .collect();
    if reasons.is_empty() {
        ConditionUpdate::as_false(type_, "UpToDate", "the guest has all changes")
    } else {
        let message = format!(
            "change spec.restartedAt to restart the guest: {}",
            reasons.join("; ")
        );
        ConditionUpdate::as_true(type_, "ChangesPending", message)
    }
}

fn spec(failures: &Failures) -> ConditionUpdate {
    let mut of_spec = failures.all.iter().filter(|it| it.part == Part::Spec);
    match (of_spec.next(), failures.of_part(Part::Spec)) {
        (Some(first), Some(message)) => {
            ConditionUpdate::as_false(reason::SPEC_VALID, first.error_type.as_str(), message)
        }
        _ => ConditionUpdate::as_true(reason::SPEC_VALID, "Valid", "the spec is valid"),
    }
}

/// Present only while another Machine requests one of the Machine's MAC addresses.
fn mac_addresses(view: &View<'_>) -> Option<ConditionUpdate> {
    let observed = view.input.observed;
    let shared = shared_addresses(observed.machine, &observed.mac_address_rivals);
    (!shared.is_empty()).then(|| {
        ConditionUpdate::as_true(
            reason::MAC_ADDRESS_SHARED,
            "DuplicateMacAddress",
            shared.join("; "),
        )
    })
}

/// Present only for Machines that are sized by a class.
fn class(view: &View<'_>) -> Option<ConditionUpdate> {
    let type_ = reason::MACHINE_CLASS_CURRENT;
    let SizingSource::Class { name, .. } = &view.input.resolved.machine()?.sizing else {
        return None;
    };
    Some(match view.input.class_mismatch {
        Some(ClassMismatch::Changed(message)) => {
            ConditionUpdate::as_false(type_, "NewerClassAvailable", message)
        }
        Some(ClassMismatch::Unavailable(message)) => {
            ConditionUpdate::as_false(type_, "ClassUnavailable", message)
        }
        None => ConditionUpdate::as_true(
            type_,
            "ClassCurrent",
            format!("the size is that of MachineClass {name}"),
        ),
    })
}
