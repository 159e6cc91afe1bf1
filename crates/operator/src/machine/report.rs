//! What the loop tells the world: lines in the log, figures, Events.

use std::{collections::BTreeMap, time::Duration};

use api::{
    Machine,
    core::{ClaimStatus, ObservedClaim},
    kubevirt::{ObservedVirtualMachine, VirtualMachineStatus},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use plan::{
    Severity,
    machine::{ErrorType, Plan, Refusal, Step},
};
use runtime::{
    events::{Event, EventType, Recorder},
    metrics::Metrics,
    store::Difference,
};
use serde::Deserialize;

use super::{
    caches::{Caches, Subject},
    packed::Packed,
    paths::Owner,
    watches::{Told, Watched},
};

/// What the loop tells the world.
pub(super) struct Report {
    metrics: Metrics,
    recorder: Recorder,
    machines: BTreeMap<(String, String), i64>,
    virtual_machines: BTreeMap<String, i64>,
    /// The errors that were last counted of each resource, so that each is counted once.
    errors: BTreeMap<Subject, Vec<&'static str>>,
}

impl Report {
    pub(super) fn new(metrics: Metrics, recorder: Recorder) -> Self {
        Self {
            metrics,
            recorder,
            machines: BTreeMap::new(),
            virtual_machines: BTreeMap::new(),
            errors: BTreeMap::new(),
        }
    }

    pub(super) fn queue_depth(&self, depth: usize) {
        self.metrics.set_queue_depth(depth);
    }

    /// There was nothing to do.
    pub(super) fn settled(&self, subject: &Subject, took: Duration) {
        self.metrics
            .reconciled(subject.owner.kind(), "unchanged", took);
    }

    /// Something was written, or refused.
    pub(super) fn written(
        &self,
        subject: &Subject,
        phase: Option<api::Phase>,
        refusal: Option<&Refusal>,
        took: Duration,
    ) {
        let controller = subject.owner.kind();
        let Some(refusal) = refusal else {
            self.metrics.reconciled(controller, "written", took);
            return;
        };
        self.metrics.reconciled(controller, "refused", took);
        self.metrics.error(controller, refusal.error_type.as_str());
        if subject.owner == Owner::Network {
            self.metrics.network_error(&subject.key.name);
        }
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        let phase = phase.map_or("Pending", phase_name);
        let error_type = refusal.error_type.as_str();
        if refusal.lasts {
            tracing::warn!(
                controller,
                machine,
                network_configuration,
                namespace,
                phase,
                error_type,
                "{}",
                refusal.message
            );
        } else {
            tracing::debug!(
                controller,
                machine,
                network_configuration,
                namespace,
                phase,
                error_type,
                "{}",
                refusal.message
            );
        }
    }

    /// The writes that are about to be made.
    pub(super) fn of_steps(subject: &Subject, phase: Option<api::Phase>, steps: &[Step]) {
        let controller = subject.owner.kind();
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        let phase = machine.map(|_| phase.map_or("Pending", phase_name));
        for step in steps {
            let what = step.action.describe();
            let reason = &step.reason;
            tracing::info!(
                controller,
                machine,
                network_configuration,
                namespace,
                phase,
                "{what}: {reason}"
            );
        }
    }

    /// Counts what is wrong with a Machine, once for as long as it lasts.
    pub(super) fn of_plan(&mut self, subject: &Subject, plan: &Plan, caches: &Caches) {
        let specs = plan.errors.iter().map(|error| error.error_type);
        let others = plan
            .obstacles
            .iter()
            .filter_map(|obstacle| obstacle.error_type);
        let found: Vec<_> = specs.chain(others).map(ErrorType::as_str).collect();
        let known = self.errors.get(subject);
        for error_type in &found {
            if known.is_none_or(|known| !known.contains(error_type)) {
                self.metrics.error(subject.owner.kind(), error_type);
                if *error_type == ErrorType::NetworkConfigurationNotFound.as_str() {
                    for network in caches.missing_networks(&subject.key) {
                        self.metrics.network_error(&network.name);
                    }
                }
            }
        }
        if found.is_empty() {
            self.errors.remove(subject);
        } else {
            self.errors.insert(subject.clone(), found);
        }
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.errors.remove(subject);
    }

    /// Nothing is known any more of a kind that is no longer served.
    pub(super) fn forget_kind(&mut self, watched: Watched) {
        match watched {
            Watched::Machines => {
                self.machines.clear();
                self.metrics.set_machines(&self.machines);
            }
            Watched::VirtualMachines => {
                self.virtual_machines.clear();
                self.metrics.set_virtual_machines(&self.virtual_machines);
            }
            _ => {}
        }
    }

    /// Events of what was done for a resource; the log has them too.
    pub(super) fn events(&self, subject: &Subject, caches: &Caches, events: Vec<plan::Event>) {
        if events.is_empty() {
            return;
        }
        let (uid, phase) = match subject.owner {
            Owner::Machine => {
                let machine = caches.machines.get(&subject.key);
                let status = machine.and_then(|machine| machine.status.as_ref());
                let phase = status.and_then(|status| status.phase);
                (
                    machine.and_then(|machine| machine.metadata.uid.clone()),
                    Some(phase.map_or("Pending", phase_name)),
                )
            }
            Owner::Network => {
                let network = caches.networks.get(&subject.key);
                (
                    network.and_then(|network| network.metadata.uid.clone()),
                    None,
                )
            }
        };
        let object = ObjectReference {
            api_version: Some(api::API_VERSION.to_owned()),
            kind: Some(subject.owner.kind().to_owned()),
            namespace: Some(subject.key.namespace.to_string()),
            name: Some(subject.key.name.to_string()),
            uid,
            ..ObjectReference::default()
        };
        let controller = subject.owner.kind();
        let (machine, network_configuration) = names(subject);
        let namespace = &*subject.key.namespace;
        for event in events {
            let (reason, message) = (event.reason, event.message.as_str());
            match event.severity {
                Severity::Normal => tracing::info!(
                    controller,
                    machine,
                    network_configuration,
                    namespace,
                    phase,
                    reason,
                    "{message}"
                ),
                Severity::Warning => tracing::warn!(
                    controller,
                    machine,
                    network_configuration,
                    namespace,
                    phase,
                    reason,
                    "{message}"
                ),
            }
            self.recorder.record(Event {
                object: object.clone(),
                event_type: match event.severity {
                    Severity::Normal => EventType::Normal,
                    Severity::Warning => EventType::Warning,
                },
                reason: event.reason.to_owned(),
                message: event.message,
            });
        }
    }

    /// Keeps the figures of what there is.
    pub(super) fn of_objects(
        &mut self,
        machines: &[Difference<Machine>],
        virtual_machines: &[Difference<Packed<ObservedVirtualMachine>>],
        claims: &[Difference<Packed<ObservedClaim>>],
        now: Timestamp,
    ) {
        for Difference { old, new, .. } in machines {
            count(
                &mut self.machines,
                old.as_deref().map(machine_labels),
                new.as_deref().map(machine_labels),
            );
        }
        if !machines.is_empty() {
            self.metrics.set_machines(&self.machines);
        }
        for Difference { old, new, .. } in virtual_machines {
            count(
                &mut self.virtual_machines,
                old.as_deref().and_then(shown_status),
                new.as_deref().and_then(shown_status),
            );
        }
        if !virtual_machines.is_empty() {
            self.metrics.set_virtual_machines(&self.virtual_machines);
        }
        for Difference { old, new, .. } in claims {
            let (Some(old), Some(new)) = (old, new) else {
                continue;
            };
            if is_bound(old) || !is_bound(new) {
                continue;
            }
            let Some(new) = new.unpack() else {
                continue;
            };
            let Some(created) = &new.metadata.creation_timestamp else {
                continue;
            };
            let class = new.spec.storage_class_name.as_deref().unwrap_or_default();
            let took = now.duration_since(created.0);
            self.metrics
                .storage_provisioned(class, took.try_into().unwrap_or_default());
        }
    }

    /// What is wrong with a watch.
    pub(super) fn of_watch(watched: Watched, told: &Told) {
        let kind = watched.name();
        match told {
            Told::Definition(change) => change.log(kind),
            Told::Machine(change) => change.log(kind),
            Told::Network(change) => change.log(kind),
            Told::Class(change) => change.log(kind),
            Told::StorageClass(change) => change.log(kind),
            Told::Attachment(change) => change.log(kind),
            Told::VirtualMachine(change) => change.log(kind),
            Told::Instance(change) => change.log(kind),
            Told::Claim(change) => change.log(kind),
            Told::DataVolume(change) => change.log(kind),
            Told::Quota(change) => change.log(kind),
        }
    }
}

/// The name of a resource, as the field of its kind in the log: a Machine's, or a
/// NetworkConfiguration's.
fn names(subject: &Subject) -> (Option<&str>, Option<&str>) {
    let name = &*subject.key.name;
    match subject.owner {
        Owner::Machine => (Some(name), None),
        Owner::Network => (None, Some(name)),
    }
}

fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, i64>, old: Option<K>, new: Option<K>) {
    if old == new {
        return;
    }
    if let Some(old) = old
        && let Some(held) = counts.get_mut(&old)
    {
        *held -= 1;
        if *held == 0 {
            counts.remove(&old);
        }
    }
    if let Some(new) = new {
        *counts.entry(new).or_insert(0) += 1;
    }
}

/// A part of an object: its status.
#[derive(Deserialize)]
struct Status<S> {
    status: S,
}

fn shown_status(vm: &Packed<ObservedVirtualMachine>) -> Option<String> {
    let vm: Status<VirtualMachineStatus> = vm.read()?;
    Some(vm.status.printable_status)
}

fn is_bound(claim: &Packed<ObservedClaim>) -> bool {
    let claim: Option<Status<ClaimStatus>> = claim.read();
    claim.is_some_and(|claim| claim.status.phase == "Bound")
}

fn machine_labels(machine: &Machine) -> (String, String) {
    let phase = machine.status.as_ref().and_then(|status| status.phase);
    let spec = &machine.spec;
    let size = [&spec.template, &spec.instance_type, &spec.machine_class]
        .into_iter()
        .find_map(Option::as_deref);
    (
        phase.map_or("Pending", phase_name).to_owned(),
        size.unwrap_or("default").to_owned(),
    )
}

pub(super) fn phase_name(phase: api::Phase) -> &'static str {
    match phase {
        api::Phase::Pending => "Pending",
        api::Phase::Creating => "Creating",
        api::Phase::Running => "Running",
        api::Phase::Stopped => "Stopped",
        api::Phase::Failed => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use runtime::store::Key;
    use serde_json::json;

    use super::*;
    use crate::machine::slim::Slim as _;

    #[test]
    fn virtual_machines_are_counted_once_when_their_kind_goes_and_comes_back() {
        let metrics = Metrics::new("0");
        let (recorder, _publisher) = runtime::events::channel("test", Timestamp::now);
        let mut report = Report::new(metrics.clone(), recorder);
        let vm: ObservedVirtualMachine = serde_json::from_value(json!({
            "metadata": { "name": "a" }, "status": { "printableStatus": "Running" },
        }))
        .unwrap();
        let listed = [Difference {
            key: Key::new("", "a"),
            old: None,
            new: Some(Arc::new(vm.slim())),
        }];
        let counted = || {
            let text = metrics.expose();
            let mut lines = text.lines();
            let line = lines.find(|line| line.contains(r#"status="Running""#));
            line.map(|line| line.rsplit_once(' ').unwrap().1.to_owned())
        };
        report.of_objects(&[], &listed, &[], Timestamp::UNIX_EPOCH);
        assert_eq!(counted().as_deref(), Some("1"));
        report.forget_kind(Watched::VirtualMachines);
        assert_eq!(counted().unwrap_or_else(|| "0".to_owned()), "0");
        report.of_objects(&[], &listed, &[], Timestamp::UNIX_EPOCH);
        assert_eq!(counted().as_deref(), Some("1"));
    }
}
