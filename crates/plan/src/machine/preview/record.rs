//! Record of the simulated writes by Machine and NetworkConfiguration.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Time, core::ClaimPhase, labels};
use serde_json::{Value, json};

use super::Secrets;
use crate::{
    Id,
    machine::{
        Action, Age, CloudInitObjects, Kind, LiveReferences, Observed, Plan, References, Step,
        plan,
        simulation::{Simulation, child, is_machine, secret},
    },
    network,
    simulation::Written,
};

/// Maximum number of plans per resource, in case they never become empty.
const MAX_ROUNDS: usize = 20;

/// Simulated changes of a resource.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Objects, in the order of their first write.
    pub(super) touched: Vec<Touched>,
    /// Instance of the guest that ran before.
    pub(super) guest: Option<Value>,
    pub(super) is_restarted: bool,
    /// Errors in the last plan.
    pub(super) problems: Vec<String>,
    /// Obstacles in the last plan that resolve by themselves.
    pub(super) waits: Vec<String>,
    /// Fields in which an adopted VirtualMachine differs and stays as it is.
    pub(super) differences: Vec<String>,
    /// Message of the condition that the size is not that of the class.
    pub(super) outdated_class: Option<String>,
    /// Whether the Secret with user data could not be read.
    pub(super) is_cloud_init_unknown: bool,
    rounds: usize,
}

/// Object with a simulated write.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) written: Written<Value>,
    pub(super) reason: String,
    /// Whether the write happens after KubeVirt has detached a disk.
    pub(super) after_detach: bool,
}

pub(super) type Records = BTreeMap<Id, Record>;

/// Cluster in which only the operator, KubeVirt and the storage write.
pub(super) struct Recorder<'a> {
    pub(super) simulation: Simulation,
    secrets: Secrets,
    now: &'a Time,
    records: Records,
    after_detach: bool,
    /// References of foreign objects to claims, by namespace.
    foreign_references: BTreeMap<Arc<str>, References>,
    /// Machines whose plan has asked for the references.
    reads: BTreeSet<Id>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        simulation: Simulation,
        secrets: Secrets,
        references: BTreeMap<Arc<str>, References>,
        now: &'a Time,
    ) -> Self {
        let mut foreign_references = references;
        for id in simulation.objects().keys().filter(|id| is_vm(id)) {
            if let Some(found) = foreign_references.remove(&id.namespace) {
                let found = found
                    .without(Kind::VirtualMachine, &id.name)
                    .without(Kind::VirtualMachineInstance, &id.name);
                foreign_references.insert(Arc::clone(&id.namespace), found);
            }
        }
        Self {
            simulation,
            secrets,
            now,
            records: BTreeMap::new(),
            after_detach: false,
            foreign_references,
            reads: BTreeSet::new(),
        }
    }

    /// Applies a document.
    pub(super) fn put(&mut self, id: &Id, resource: Value) {
        // Every value can be stored.
        let _ = self.simulation.put(id, resource, self.now);
    }

    /// Plans for these resources until their plans are empty, simulates KubeVirt and the storage, and
    /// plans again. Other resources do not change.
    pub(super) fn run(&mut self, subjects: &BTreeSet<Id>) -> Records {
        self.after_detach = false;
        self.settle(subjects);
        for machine in subjects.iter().filter(|id| is_machine(id)) {
            self.bind_and_detach(machine);
        }
        self.after_detach = true;
        self.settle(subjects);
        std::mem::take(&mut self.records)
    }

    fn settle(&mut self, subjects: &BTreeSet<Id>) {
        let mut work = subjects.clone();
        while let Some(subject) = work.pop_first() {
            let steps = self.plan(&subject);
            let record = self.records.entry(subject.clone()).or_default();
            if steps.is_empty() || record.rounds >= MAX_ROUNDS {
                continue;
            }
            record.rounds += 1;
            for step in steps {
                let affected = self.execute(&subject, step);
                work.extend(affected.into_iter().filter(|it| subjects.contains(it)));
            }
            work.insert(subject);
        }
    }

    fn plan(&mut self, subject: &Id) -> Vec<Step> {
        if !is_machine(subject) {
            let record = self.records.entry(subject.clone()).or_default();
            let plan = self
                .simulation
                .observe_network(subject, |observed| network::plan(observed, self.now));
            let Some(plan) = plan else {
                return Vec::new();
            };
            let not_ready = condition(plan.status.conditions.as_deref(), "Ready");
            record.problems = not_ready.into_iter().collect();
            return plan.steps;
        }
        let Some(plan) = self.plan_machine(subject) else {
            return Vec::new();
        };
        let disks = plan.status.disks;
        if plan.steps.is_empty() && disks != self.recorded_disks(subject) {
            // Deletions wait for the disks in the status.
            let written = self.simulation.update(subject, |machine| {
                machine["status"]["disks"] = json!(disks);
            });
            if written.is_ok() && disks == self.recorded_disks(subject) {
                return self.plan(subject);
            }
        }
        plan.steps
    }

    fn recorded_disks(&self, machine: &Id) -> Option<Vec<api::DiskStatus>> {
        let machine = self.simulation.machine(machine)?;
        machine.status.as_ref()?.disks.clone()
    }

    fn plan_machine(&mut self, id: &Id) -> Option<Plan> {
        let is_new = !self.records.contains_key(id);
        let record = self.records.entry(id.clone()).or_default();
        let Some(machine) = self.simulation.machine(id) else {
            record.problems.clear();
            record.waits.clear();
            record.differences.clear();
            record.outdated_class = None;
            return None;
        };
        record.is_cloud_init_unknown = self.secrets.is_cloud_init_unknown(machine);
        let secrets = self.secrets.of(machine);
        let references = self.reads.contains(id).then(|| {
            let foreign = self.foreign_references.get(&id.namespace);
            references(&self.simulation, foreign, &id.namespace)
        });
        let mut plan = self.simulation.observe(id, secrets, |observed| {
            let observed = Observed {
                references: references.as_ref().map(|found| LiveReferences {
                    found,
                    age: Age::Fresh,
                }),
                cloud_init_secret: self.secrets.cloud_init(id),
                ..observed
            };
            if is_new {
                record.guest = guest(&observed);
            }
            plan(&observed, self.now)
        })?;
        let (wrong, waits): (Vec<_>, Vec<_>) = plan
            .obstacles
            .iter()
            .partition(|obstacle| obstacle.error_type.is_some());
        let errors = plan.errors.iter().map(ToString::to_string);
        let wrong = wrong
            .iter()
            .filter_map(|obstacle| Some(format!("{}: {}", obstacle.error_type?, obstacle.message)));
        record.problems = errors.chain(wrong).collect();
        record.waits = waits.iter().map(|it| it.message.clone()).collect();
        record.outdated_class = condition(plan.status.conditions.as_deref(), "MachineClassCurrent");
        record.differences.clone_from(&plan.differences);
        let reads = |step: &Step| matches!(step.action, Action::LabelAdopted { .. });
        if plan.steps.iter().any(reads) {
            plan.steps.clear();
            record.waits.push(format!(
                "there is no VirtualMachine to adopt: to create one, remove the annotation {}",
                labels::ADOPT
            ));
        }
        Some(plan)
    }

    /// Executes a step, records it, and returns the resources that it concerns.
    fn execute(&mut self, subject: &Id, step: Step) -> BTreeSet<Id> {
        let Step { action, reason, .. } = step;
        let reason = match &action {
            Action::ObserveReferences => {
                self.reads.insert(subject.clone());
                return BTreeSet::new();
            }
            Action::WriteSecret(written) => {
                let name = written.metadata.name.as_deref().unwrap_or_default();
                // Secrets are not listed: assume that it exists if the VirtualMachine refers to it.
                let vm = self.simulation.virtual_machine(subject);
                let vm = vm.and_then(|id| self.simulation.get(&id));
                let exists = vm.is_some_and(|vm| vm.to_string().contains(&format!("{name:?}")));
                self.touch_secret(subject, name, exists, true, reason);
                return BTreeSet::new();
            }
            Action::DeleteSecret { name } => {
                self.touch_secret(subject, name, true, false, reason);
                return BTreeSet::new();
            }
            Action::Pause { .. } => "the guest is paused".to_owned(),
            Action::Unpause { .. } => "the guest is resumed".to_owned(),
            _ => reason,
        };
        let Ok(Some(written)) = self.simulation.execute(subject, &action, self.now) else {
            return BTreeSet::new();
        };
        let affected = self.simulation.affected(&written);
        match action {
            Action::AddFinalizer
            | Action::Place { .. }
            | Action::ReplaceFormerFinalizer
            | Action::RemoveFinalizer
            | Action::ApplyNetwork { .. } => {
                return affected;
            }
            Action::Delete { kind, name, .. } => self.on_delete(subject, kind, &name),
            _ => {}
        }
        self.touch(subject, written, reason);
        affected
    }

    fn on_delete(&mut self, subject: &Id, kind: Kind, name: &str) {
        let instance = child(Kind::VirtualMachineInstance, &subject.namespace, name);
        match kind {
            Kind::VirtualMachineInstance => {
                let machine = self.simulation.machine(subject);
                let is_deleted =
                    machine.is_some_and(|machine| machine.metadata.deletion_timestamp.is_some());
                let record = self.records.entry(subject.clone()).or_default();
                record.is_restarted |= !is_deleted;
            }
            Kind::VirtualMachine => {
                // The garbage collector deletes its instance, if there is one.
                let _ = self.simulation.delete(&instance, None, self.now, |_| true);
            }
            _ => {}
        }
    }

    fn touch_secret(
        &mut self,
        subject: &Id,
        name: &str,
        exists: bool,
        is_kept: bool,
        reason: String,
    ) {
        let written = Written {
            id: secret(&subject.namespace, name),
            before: exists.then(|| json!({})),
            after: is_kept.then(|| json!({})),
        };
        self.touch(subject, written, reason);
    }

    fn touch(&mut self, subject: &Id, written: Written<Value>, reason: String) {
        let after_detach = self.after_detach;
        let touched = &mut self.records.entry(subject.clone()).or_default().touched;
        let earlier = touched
            .iter_mut()
            .find(|touched| touched.written.id == written.id);
        match earlier {
            Some(earlier) => {
                earlier.written.after = written.after;
                earlier.reason = reason;
                earlier.after_detach = after_detach;
            }
            None => touched.push(Touched {
                written,
                reason,
                after_detach,
            }),
        }
    }

    /// Simulates the storage, which binds claims, and KubeVirt, which detaches disks that a guest no
    /// longer has.
    fn bind_and_detach(&mut self, machine: &Id) {
        let found = self
            .simulation
            .observe(machine, CloudInitObjects::none(), |observed| {
                let claims = observed.claims.iter();
                let unbound = claims.filter(|claim| claim.status.phase != ClaimPhase::Bound);
                let unbound = unbound.filter_map(|claim| claim.metadata.name.clone());
                let vm = observed.virtual_machine.zip(observed.instance);
                let volumes = vm.map(|(vm, _)| {
                    let volumes = vm.spec.value().pointer("/template/spec/volumes").cloned();
                    volumes.unwrap_or_else(|| json!([]))
                });
                (unbound.collect::<Vec<_>>(), volumes)
            });
        let Some((unbound, volumes)) = found else {
            return;
        };
        for name in unbound {
            let id = child(Kind::PersistentVolumeClaim, &machine.namespace, &name);
            let _ = self
                .simulation
                .update(&id, |claim| claim["status"]["phase"] = "Bound".into());
        }
        let vm = self.simulation.virtual_machine(machine);
        if let (Some(volumes), Some(vm)) = (volumes, vm) {
            let id = child(Kind::VirtualMachineInstance, &vm.namespace, &vm.name);
            let _ = self.simulation.update(&id, |instance| {
                instance["status"]["volumeStatus"] = volumes;
            });
        }
    }
}

fn is_vm(id: &Id) -> bool {
    id.is("kubevirt.io", Kind::VirtualMachine.as_str())
}

/// References to claims: of foreign objects, and of the simulated VirtualMachines.
fn references(
    simulation: &Simulation,
    foreign: Option<&References>,
    namespace: &Arc<str>,
) -> References {
    let mut references = foreign.cloned().unwrap_or_default();
    let objects = simulation.objects().iter();
    for (_, vm) in objects.filter(|(id, _)| is_vm(id) && id.namespace == *namespace) {
        if let Ok(vm) = decode::from_value_ref(vm) {
            references.add(Kind::VirtualMachine, vm);
        }
    }
    references
}

/// Instance of a Machine whose guest runs or starts.
fn guest(observed: &Observed<'_>) -> Option<Value> {
    let instance = observed.instance.filter(|instance| {
        !instance.status.phase.is_final() && instance.metadata.deletion_timestamp.is_none()
    });
    instance.and_then(|instance| serde_json::to_value(instance).ok())
}

/// Message of a condition that is False.
fn condition(conditions: Option<&[api::Condition]>, type_: &str) -> Option<String> {
    let conditions = conditions.unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "False")?;
    Some(found.message.clone())
}
