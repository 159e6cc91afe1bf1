//! What is told of a Machine: phase, conditions, addresses, node, from what is observed.
//!
//! Guaranteed:
//! - phases change only along the ways of the reference's table (see [`phase`]);
//! - what KubeVirt reports and takes back within seconds is not shown as a failure;
//! - `Ready` is True only while KubeVirt reports the instance as ready (see [`readiness`]);
//! - a status is changed only when something changed that somebody waits for: a Machine with one
//!   disk is Running after three writes;
//! - an event follows from a change of status, and is not repeated.

mod addresses;
mod events;
mod failure;
mod guest;
mod parts;
mod phase;
mod readiness;
mod ready;
mod reason;
mod significance;
mod size;
#[cfg(test)]
mod tests;
mod view;
mod volumes;

pub use self::addresses::trim_addresses;

use std::time::Duration;

use api::{Condition, DiskStatus, MachineStatus, Phase, Time, kubevirt::ObservedInstance};

use self::{
    addresses::Addresses, failure::Failures, guest::Guest, readiness::Readiness, ready::Verdict,
    size::Size, view::View,
};
use super::{Observed, Obstacle, ResolvedMachine, SpecError, plan::record};
use crate::{
    Event,
    conditions::{self, Said},
};

/// What is waited for while KubeVirt is being removed.
pub(super) fn kubevirt_is_removed() -> &'static str {
    "KubeVirt is being removed, so nothing is created or started: the Machine continues by itself \
     once KubeVirt is installed again"
}

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
    pub(super) class_behind: Option<&'a Behind>,
    /// Why the guest has to be restarted for a change to take effect, if we know better than
    /// KubeVirt.
    pub(super) restart_required: Option<&'a str>,
    /// Whether it is not recorded yet what becomes of a disk that was removed. Until then the generation
    /// that removed it does not count as observed: the next one may have another policy.
    pub(super) removal_is_pending: bool,
    /// Whether the VirtualMachine is behind what the Machine asks for, and not because somebody else
    /// changed it.
    pub(super) vm_is_behind: bool,
    /// What the spec lists of disks and their claims do not have.
    pub(super) ignored_modes: &'a [String],
    /// Now.
    pub(super) now: &'a Time,
}

/// Why a size is not the one that its class gives now, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// The class has changed.
    Newer(String),
    /// The class cannot be had any more.
    Lost(String),
}

/// A status, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// The status; the one that the Machine has when nothing worth a write has changed.
    pub(super) status: MachineStatus,
    /// What to tell people once it is written.
    pub(super) events: Vec<Event>,
    /// When to look again, although nothing may have changed.
    pub(super) requeue_after: Option<Duration>,
}

/// Tells how a Machine is.
pub(super) fn tell(facts: Facts<'_>) -> Told {
    let view = View::new(facts);
    if view.is_deleted() {
        return deleting(&view);
    }
    let guest = Guest::of(&view);
    let failures = Failures::of(&view, guest);
    let old_phase = view.old.and_then(|old| old.phase);
    let (target, mut verdict) = ready::verdict(&view, guest, &failures);
    let phase = phase::next(old_phase, target);
    let settling = view
        .instance
        .and_then(|instance| match Readiness::of(&view, instance) {
            Readiness::Settling(left) => Some(left),
            _ => None,
        });
    let mut requeue_after = failures.requeue_after.into_iter().chain(settling).min();
    if phase != target {
        verdict = Verdict::not_ready(reason::CREATING, "the machine is being made");
        requeue_after = Some(Duration::ZERO);
    }
    let mut said = vec![verdict.condition()];
    said.extend(parts::parts(&view, guest, &failures));
    let status = status(&view, Some(phase), said);
    let unfilled = volumes::unfilled(&view);
    let insists = unfilled.as_ref().is_some_and(|it| !it.is_retrying)
        && storage_message(Some(&status)) != storage_message(view.old);
    let mut told = told(&view, status, &verdict, requeue_after, insists);
    // `Ready` of a guest that runs does not name the disk that is being added to it.
    let unnamed = unfilled.filter(|it| insists && it.reason != verdict.reason);
    told.events.extend(unnamed.and_then(|unfilled| {
        let old = storage_message(view.old).unwrap_or_default();
        (!old.contains(&unfilled.first))
            .then(|| Event::warning(unfilled.reason, conditions::bounded(unfilled.message)))
    }));
    told
}

/// A Machine that is being deleted keeps its phase; what is told is what is being waited for.
fn deleting(view: &View<'_>) -> Told {
    let message = ready::waited_for(view).unwrap_or_else(|| "the Machine is being deleted".into());
    let verdict = Verdict::not_ready(reason::DELETING, message);
    let phase = view.old.and_then(|old| old.phase);
    let said = [Some(verdict.condition()), parts::disk_in_use(view)];
    let status = status(view, phase, said.into_iter().flatten().collect());
    told(view, status, &verdict, None, false)
}

fn told(
    view: &View<'_>,
    status: MachineStatus,
    verdict: &Verdict,
    requeue_after: Option<Duration>,
    insists: bool,
) -> Told {
    match view.old {
        Some(old) if !insists && !significance::is_significant(old, &status) => Told {
            status: old.clone(),
            events: Vec::new(),
            requeue_after,
        },
        _ => Told {
            events: events::events(view.old, view.old_reason(), &status, verdict)
                .into_iter()
                .chain(events::shared_address(view.old, &status))
                .chain(events::ignored_annotations(view.old, &status))
                .collect(),
            status,
            requeue_after,
        },
    }
}

fn status(view: &View<'_>, phase: Option<Phase>, said: Vec<Said>) -> MachineStatus {
    let Facts { observed, now, .. } = view.facts;
    let old = view.old.cloned().unwrap_or_default();
    let generation = if view.facts.removal_is_pending {
        old.observed_generation
    } else {
        observed.machine.metadata.generation
    };
    let mut kept: Vec<Condition> = old.conditions.clone().unwrap_or_default();
    kept.retain(|condition| !parts::is_outdated(view, &condition.type_));
    let conditions = conditions::merged(Some(&kept), said, generation, now);
    // An instance that came to its end is nowhere.
    let instance = view.instance.filter(|it| !it.status.phase.is_final());
    let size = Size::of(view, &old);
    // Empty, rather than absent, once there was a guest.
    let has_run = phase == Some(Phase::Running) || old.ip_addresses.is_some();
    let vm = view.vm.map(|vm| &vm.metadata);
    MachineStatus {
        phase,
        conditions: Some(conditions),
        observed_generation: generation,
        vm_name: match vm {
            Some(vm) => vm.name.clone(),
            // Without KubeVirt nothing can be seen of it.
            None if !observed.installed.kubevirt => old.vm_name,
            None => None,
        },
        vmi_name: instance.and_then(|it| it.metadata.name.clone()),
        ip_addresses: has_run
            .then(|| addresses(view, instance).map_or_else(Vec::new, |it| it.shown)),
        node_name: instance.and_then(|it| it.status.node_name.clone()),
        vcpus: size.vcpus,
        memory: size.memory,
        requested_vcpus: size.requested_vcpus,
        requested_memory: size.requested_memory,
        disks: disks(view),
        last_updated: Some(now.clone()),
        resource_version: vm.and_then(|vm| vm.resource_version.clone()),
    }
}

/// The disks that hold data, with those that held some and are gone.
fn disks(view: &View<'_>) -> Option<Vec<DiskStatus>> {
    let observed = view.facts.observed;
    match view.facts.resolved {
        Ok(machine) if !view.is_deleted() => {
            let disks = machine.disks.iter();
            let records = disks.filter_map(|disk| record(observed, &machine.identity.name, disk));
            let records: Vec<DiskStatus> = records.collect();
            let was_recorded = view.old.is_some_and(|old| old.disks.is_some());
            (was_recorded || !records.is_empty()).then_some(records)
        }
        _ => view.old.and_then(|old| old.disks.clone()),
    }
}

fn addresses(view: &View<'_>, instance: Option<&ObservedInstance>) -> Option<Addresses> {
    let interfaces = view.facts.resolved.map_or(&[][..], |it| &it.interfaces);
    let names: Vec<&str> = interfaces.iter().map(|it| it.name.as_str()).collect();
    instance.map(|it| addresses::addresses(&it.status, &names))
}

/// What a status says of the disks.
fn storage_message(status: Option<&MachineStatus>) -> Option<&str> {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let storage = conditions::find(conditions, reason::STORAGE_READY);
    storage.map(|storage| storage.message.as_str())
}

impl Verdict {
    fn condition(&self) -> Said {
        Said {
            type_: reason::READY,
            holds: self.ready,
            reason: self.reason,
            message: self.message.clone(),
        }
    }
}
