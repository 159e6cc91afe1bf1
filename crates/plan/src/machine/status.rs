//! Status of a Machine: phase, conditions, addresses and node, from observed state.
//!
//! Guarantees:
//! - phases change only along the transitions of [`phase`];
//! - failures that KubeVirt reports for a few seconds only are not reported;
//! - `Ready` is True only while KubeVirt reports the instance as ready (see [`readiness`]);
//! - the status is written only for a significant change (see [`significance`]): a Machine with one disk
//!   is Running after three writes, and its guest agent's first report is a fourth;
//! - the status has only fields that the API server stores;
//! - an Event follows from a change of the status, and is not repeated.

mod addresses;
mod events;
mod failure;
mod guest;
mod part_conditions;
mod phase;
mod readiness;
mod ready;
mod reason;
mod significance;
mod size;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod volumes;

pub use self::addresses::{trim_addresses, trim_ledger};
pub(crate) use self::reason::{CLUSTER_UNKNOWN, CLUSTER_UNREACHABLE, READY};

use std::{borrow::Cow, time::Duration};

use api::{
    Condition, DiskStatus, GuestAddresses, Json, MachineStatus, Phase, Time,
    kubevirt::ObservedInstance,
};

use serde_json::json;

use self::{
    addresses::{Addresses, unless_empty},
    failure::{Failure, Failures},
    guest::Guest,
    readiness::Readiness,
    ready::ReadyReport,
    size::Size,
    view::View,
};
use super::{
    Observed, Obstacle, ResolvedMachine, SpecError, cluster,
    plan::{adoption::KeptSpec, ledger, record},
};
use crate::{
    Event,
    conditions::{self, ConditionUpdate},
};

/// The message while KubeVirt is being removed.
pub(super) fn kubevirt_is_removed() -> &'static str {
    "KubeVirt is being removed, so nothing is created or started: the Machine continues by itself \
     once KubeVirt is installed again"
}

/// The message while KubeVirt is missing.
pub(super) fn kubevirt_is_missing(observed: &Observed<'_>) -> String {
    format!(
        "KubeVirt is not installed in {}: install it, and the operator continues with the Machine",
        cluster::described(observed)
    )
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StatusInput<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) resolved: Resolved<'a>,
    pub(super) obstacles: &'a [Obstacle],
    /// Why the size differs from the current class, if it does.
    pub(super) class_mismatch: Option<&'a ClassMismatch>,
    /// Why a change needs a restart, if KubeVirt does not report it itself.
    pub(super) restart_required: Option<&'a str>,
    /// Whether the present generation does not count as observed. While the deletion policy of a removed disk
    /// is not recorded, the next generation may have another policy; while its protection blocks a deletion,
    /// nothing is written.
    pub(super) keeps_observed_generation: bool,
    /// Whether the VirtualMachine lacks a change of the Machine, other than by tampering.
    pub(super) vm_is_outdated: bool,
    /// Modes in `spec.disks` that differ from those of the claims.
    pub(super) ignored_modes: &'a [String],
    /// Present while the spec of an adopted VirtualMachine stays as it is.
    pub(super) kept_spec: Option<&'a KeptSpec>,
    pub(super) now: &'a Time,
}

/// Result of resolving a Machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resolved<'a> {
    Valid(&'a ResolvedMachine),
    Invalid(&'a [SpecError]),
    /// A Machine that is being deleted is not resolved.
    Terminating,
}

impl<'a> Resolved<'a> {
    fn machine(self) -> Option<&'a ResolvedMachine> {
        match self {
            Self::Valid(machine) => Some(machine),
            Self::Invalid(_) | Self::Terminating => None,
        }
    }
}

/// Why a size differs from the current class, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassMismatch {
    Changed(String),
    /// The class was deleted, disabled or withdrawn.
    Unavailable(String),
}

/// Status of a Machine, with its Events.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatusReport {
    /// The Machine's current status if the change is not significant.
    pub(super) status: MachineStatus,
    /// Events to record after the status write.
    pub(super) events: Vec<Event>,
    /// Requeue delay, for changes that come with time alone.
    pub(super) requeue_after: Option<Duration>,
}

/// Evaluates the status of a Machine.
pub(super) fn report(input: StatusInput<'_>) -> StatusReport {
    let view = View::new(input);
    if view.is_terminating() {
        return deleting(&view);
    }
    let guest = Guest::of(&view);
    let failures = Failures::of(&view, guest);
    let old_phase = view.old.and_then(|old| old.phase);
    let (target, mut ready) = ready::evaluate(&view, guest, &failures);
    let phase = phase::next(old_phase, target);
    let settling = view
        .instance
        .and_then(|instance| match Readiness::of(&view, instance) {
            Readiness::Settling(left) => Some(left),
            _ => None,
        });
    let mut requeue_after = failures.requeue_after.into_iter().chain(settling).min();
    if phase != target {
        ready = ReadyReport::not_ready(
            reason::CREATING,
            "the operator is creating the virtual machine",
        );
        requeue_after = Some(Duration::ZERO);
    }
    let mut conditions = vec![ready.condition()];
    conditions.extend(part_conditions::evaluate(&view, guest, &failures));
    let mut status = status(&view, Some(phase), conditions);
    status.state = Some(state::evaluate(&view, phase, guest));
    if let Some(Failure {
        error_type,
        message,
        ..
    }) = failures.all.first()
    {
        status.failure_reason = Some(error_type.as_str().to_owned());
        status.failure_message = Some(conditions::bounded(message.clone()));
    }
    let unfilled = volumes::unfilled(&view);
    let new_storage = storage_condition(Some(&status)).map(|it| it.message.as_str());
    let old_storage = storage_condition(view.old);
    let must_write = unfilled.as_ref().is_some_and(|it| !it.is_retrying)
        && new_storage != old_storage.map(|it| it.message.as_str());
    let mut report = report_if_significant(&view, status, &ready, requeue_after, must_write);
    // `Ready` of a running guest does not mention a disk that is being added.
    let unnamed = unfilled.filter(|it| must_write && it.reason != ready.reason);
    let unreported =
        unnamed.filter(|it| old_storage.is_none_or(|storage| storage.reason != it.reason));
    report
        .events
        .extend(unreported.map(|unfilled| {
            Event::warning(unfilled.reason, conditions::bounded(unfilled.message))
        }));
    report
}

/// The status of a Machine that is being deleted: it keeps its phase, and reports what it waits for.
fn deleting(view: &View<'_>) -> StatusReport {
    let message = ready::waiting_for(view).unwrap_or_else(|| "the Machine is being deleted".into());
    let ready = ReadyReport::not_ready(reason::DELETING, message);
    let phase = view.old.and_then(|old| old.phase);
    let conditions = [Some(ready.condition()), part_conditions::disk_in_use(view)];
    let status = status(view, phase, conditions.into_iter().flatten().collect());
    report_if_significant(view, status, &ready, None, false)
}

fn report_if_significant(
    view: &View<'_>,
    status: MachineStatus,
    ready: &ReadyReport,
    requeue_after: Option<Duration>,
    must_write: bool,
) -> StatusReport {
    let served = &view.input.observed.surroundings.served;
    let status = served.machine_status(Cow::Owned(status)).into_owned();
    let is_significant = |old: &MachineStatus| {
        let stored = served.machine_status(Cow::Borrowed(old));
        significance::is_significant(&stored, &status)
    };
    match view.old {
        Some(old) if !must_write && !is_significant(old) => StatusReport {
            status: old.clone(),
            events: Vec::new(),
            requeue_after,
        },
        _ => StatusReport {
            events: events::events(view.old, view.old_reason(), &status, ready)
                .into_iter()
                .chain(events::shared_address(view.old, &status))
                .chain(events::ignored_annotations(view.old, &status))
                .chain(events::blocked_deletion(view.old, &status))
                .collect(),
            status,
            requeue_after,
        },
    }
}

fn status(
    view: &View<'_>,
    phase: Option<Phase>,
    conditions: Vec<ConditionUpdate>,
) -> MachineStatus {
    let StatusInput { observed, now, .. } = view.input;
    let old = view.old.cloned().unwrap_or_default();
    let generation = if view.input.keeps_observed_generation {
        old.observed_generation
    } else {
        observed.machine.metadata.generation
    };
    let mut kept: Vec<Condition> = old.conditions.clone().unwrap_or_default();
    kept.retain(|condition| !part_conditions::is_stale(view, &condition.type_));
    let conditions = conditions::merged(Some(&kept), conditions, generation, now);
    // A finished instance has no node and no addresses.
    let instance = view.instance.filter(|it| !it.status.phase.is_final());
    let size = Size::of(view, &old);
    let never_ran = old.ip_addresses == GuestAddresses::NeverRan && phase != Some(Phase::Running);
    let addresses = collect_addresses(view, instance.filter(|_| !never_ran)).unwrap_or_default();
    let ipv6_addresses = addresses.ipv6();
    let ip_addresses = if never_ran {
        GuestAddresses::NeverRan
    } else {
        GuestAddresses::HasRun(addresses.shown)
    };
    let vm = view.vm.map(|vm| &vm.metadata);
    MachineStatus {
        phase,
        state: old.state,
        provider: Some(observed.surroundings.provider.to_string()),
        failure_reason: None,
        failure_message: None,
        conditions: Some(conditions),
        observed_generation: generation,
        vm_name: match vm {
            Some(vm) => vm.name.clone(),
            // Without KubeVirt's API it cannot be observed.
            None if !observed.installed.kubevirt => old.vm_name,
            None => None,
        },
        machine_id: match vm {
            Some(vm) => vm.uid.clone(),
            None if !observed.installed.kubevirt => old.machine_id,
            None => None,
        },
        vmi_name: instance.and_then(|it| it.metadata.name.clone()),
        ip_addresses,
        public_ip_addresses: unless_empty(addresses.public),
        private_ip_addresses: unless_empty(addresses.private),
        ipv6_addresses: unless_empty(ipv6_addresses),
        network_interfaces: unless_empty(addresses.interfaces),
        hostname: instance.and_then(hostname),
        operating_system: instance.and_then(operating_system),
        node_name: instance.and_then(|it| it.status.node_name.clone()),
        vcpus: size.vcpus,
        cpus: size.vcpus,
        memory: size.memory,
        memory_quantity: size.memory_quantity,
        requested_vcpus: size.requested_vcpus,
        requested_memory: size.requested_memory,
        disks: disks(view, instance),
        last_updated: Some(now.clone()),
        resource_version: vm.and_then(|vm| vm.resource_version.clone()),
    }
}

/// Host name of a guest: without one in its spec, KubeVirt takes the first label of the instance's name.
fn hostname(instance: &ObservedInstance) -> Option<String> {
    const MAX_LABEL: usize = 63;
    if let Some(hostname) = spec_hostname(instance) {
        return Some(hostname);
    }
    let label = instance.metadata.name.as_deref()?.split('.').next()?;
    Some(label.chars().take(MAX_LABEL).collect())
}

fn spec_hostname(instance: &ObservedInstance) -> Option<String> {
    let spec = instance.spec.as_ref()?.value();
    let hostname = spec["hostname"].as_str()?;
    (!hostname.is_empty()).then(|| hostname.to_owned())
}

/// Drops the spec of an instance, except for the host name, which its status does not have.
pub fn trim_instance_spec(instance: &mut ObservedInstance) {
    let hostname = spec_hostname(instance);
    instance.spec = hostname.map(|it| Json::from(&json!({ "hostname": it })));
}

/// Operating system that the guest agent reports.
fn operating_system(instance: &ObservedInstance) -> Option<String> {
    let os = instance.status.guest_os_info.as_ref()?;
    let name = match os.pretty_name.as_str() {
        "" => format!("{} {}", os.name, os.version).trim().to_owned(),
        name => name.to_owned(),
    };
    (!name.is_empty()).then_some(name)
}

/// Device of a disk in the guest.
fn device(instance: &ObservedInstance, disk: &str) -> Option<String> {
    let mut volumes = instance.status.volume_status.iter();
    let volume = volumes.find(|volume| volume.name == disk && !volume.target.is_empty())?;
    Some(format!("/dev/{}", volume.target))
}

/// Disks that contain data, and those whose data is lost, with their devices in a guest.
fn disks(view: &View<'_>, instance: Option<&ObservedInstance>) -> Option<Vec<DiskStatus>> {
    let mut records = recorded_disks(view)?;
    for record in &mut records {
        record.device = instance.and_then(|it| device(it, &record.name));
    }
    Some(records)
}

fn recorded_disks(view: &View<'_>) -> Option<Vec<DiskStatus>> {
    let observed = view.input.observed;
    match view.input.resolved {
        Resolved::Valid(machine) if !view.is_terminating() => {
            let disks = machine.disks.iter();
            let records = disks.filter_map(|disk| record(observed, &machine.identity.name, disk));
            let records: Vec<DiskStatus> = records.collect();
            let was_recorded = view.old.is_some_and(|old| old.disks.is_some());
            (was_recorded || !records.is_empty()).then_some(records)
        }
        _ => view.old.and_then(|old| old.disks.clone()),
    }
}

/// Addresses and interfaces of the guest. Addresses of further sources are merged here.
fn collect_addresses(view: &View<'_>, instance: Option<&ObservedInstance>) -> Option<Addresses> {
    let machine = view.input.resolved.machine();
    let interfaces = machine.map_or(&[][..], |it| &it.interfaces);
    let names: Vec<&str> = interfaces.iter().map(|it| it.name.as_str()).collect();
    let guest = instance.map(|it| addresses::addresses(&it.status, &names))?;
    let ledger = ledger::own(view.input.observed);
    Some(addresses::with_ledger_addresses(guest, ledger))
}

fn storage_condition(status: Option<&MachineStatus>) -> Option<&Condition> {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions::find(conditions, reason::STORAGE_READY)
}

impl ReadyReport {
    fn condition(&self) -> ConditionUpdate {
        ConditionUpdate {
            type_: READY,
            is_true: self.ready,
            reason: self.reason,
            message: self.message.clone(),
        }
    }
}
