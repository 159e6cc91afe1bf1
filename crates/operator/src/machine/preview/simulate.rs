//! Simulation of the Machine controller: applies plans to the caches until they are empty.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{DiskStatus, Machine, Time, core::ClaimPhase};
use plan::{
    machine::{
        Action, Age, Kind as ObjectKind, Known, LiveReferences, Observed, References, Step,
        plan as machine_plan,
    },
    network::plan as network_plan,
    preview::overlay,
};
use runtime::cache::Key;
use serde_json::{Value, json};

use super::{GivenDocument, live, secrets::Secrets};
use crate::machine::{
    caches::{Affected, Caches, Subject},
    execute::Answer,
    paths::Owner,
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
    /// Message of the condition that the size is not that of the class.
    pub(super) outdated_class: Option<String>,
    /// Whether the Secret with user data could not be read.
    pub(super) is_cloud_init_unknown: bool,
    rounds: usize,
}

/// Object with a simulated write.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
    pub(super) reason: String,
    /// Whether the write happens after KubeVirt has detached a disk.
    pub(super) after_detach: bool,
}

pub(super) type Records = BTreeMap<Subject, Record>;

/// In-memory cluster in which only the operator writes.
pub(super) struct Simulation {
    caches: Caches,
    secrets: Secrets,
    /// Owned fields of VirtualMachines, by Machine.
    owned: BTreeMap<Key, Value>,
    now: Time,
    created: usize,
    records: Records,
    after_detach: bool,
    /// References of foreign objects to claims, by namespace.
    foreign_references: BTreeMap<Arc<str>, References>,
    /// Machines whose plan has asked for the references.
    reads: BTreeSet<Subject>,
}

impl Simulation {
    pub(super) fn new(
        caches: Caches,
        secrets: Secrets,
        owned: BTreeMap<Key, Value>,
        references: BTreeMap<Arc<str>, References>,
        now: Time,
    ) -> Self {
        let mut foreign_references = references;
        for (key, _) in caches.virtual_machines.iter() {
            if let Some(found) = foreign_references.remove(&key.namespace) {
                let found = found
                    .without(ObjectKind::VirtualMachine, &key.name)
                    .without(ObjectKind::VirtualMachineInstance, &key.name);
                foreign_references.insert(Arc::clone(&key.namespace), found);
            }
        }
        Self {
            foreign_references,
            reads: BTreeSet::new(),
            caches,
            secrets,
            owned,
            now,
            created: 0,
            records: BTreeMap::new(),
            after_detach: false,
        }
    }

    /// Applies a document to the caches.
    pub(super) fn apply(
        &mut self,
        given: &GivenDocument,
        value: &Value,
    ) -> Result<(), &'static str> {
        let event = live::applied_event(given.kind, value).ok_or(
            "the API server accepts the document, but this version of kubevirt-operator cannot \
             decode it",
        )?;
        let scope = self.caches.scope_of(&given.key.namespace);
        self.caches.on_event(&scope, event);
        Ok(())
    }

    /// Plans for these resources until their plans are empty, simulates KubeVirt and the storage, and
    /// plans again. Other resources do not change.
    pub(super) fn run(&mut self, subjects: &BTreeSet<Subject>) -> Records {
        self.after_detach = false;
        self.settle(subjects);
        self.simulate_controllers(subjects);
        self.after_detach = true;
        self.settle(subjects);
        std::mem::take(&mut self.records)
    }

    fn settle(&mut self, subjects: &BTreeSet<Subject>) {
        let mut work = subjects.clone();
        while let Some(subject) = work.pop_first() {
            let steps = self.plan(&subject);
            let record = self.records.entry(subject.clone()).or_default();
            if steps.is_empty() || record.rounds >= MAX_ROUNDS {
                continue;
            }
            record.rounds += 1;
            for step in steps {
                let affected = self.execute(&subject, step).subjects;
                work.extend(affected.into_iter().filter(|it| subjects.contains(it)));
            }
            work.insert(subject);
        }
    }

    fn plan(&mut self, subject: &Subject) -> Vec<Step> {
        let is_new = !self.records.contains_key(subject);
        let record = self.records.entry(subject.clone()).or_default();
        match subject.owner {
            Owner::Machine => {
                let Some(machine) = self.caches.machines.get(&subject.key).map(Arc::clone) else {
                    return Vec::new();
                };
                let secrets = self.secrets.of(&machine);
                let Some(children) = self.caches.children(&machine) else {
                    return Vec::new();
                };
                let references = self.reads.contains(subject).then(|| {
                    let namespace = &subject.key.namespace;
                    references(&self.caches, &self.foreign_references, namespace)
                });
                let observed = Observed {
                    references: references.as_ref().map(|found| LiveReferences {
                        found,
                        age: Age::Fresh,
                    }),
                    cloud_init_secret: self.secrets.cloud_init(&subject.key),
                    ..self.caches.observe(&machine, &children, secrets, None)
                };
                if is_new {
                    record.guest = guest(&observed);
                }
                let plan = machine_plan(&observed, &self.now);
                let (wrong, waits): (Vec<_>, Vec<_>) = plan
                    .obstacles
                    .iter()
                    .partition(|obstacle| obstacle.error_type.is_some());
                let errors = plan.errors.iter().map(ToString::to_string);
                let wrong = wrong.iter().filter_map(|obstacle| {
                    Some(format!("{}: {}", obstacle.error_type?, obstacle.message))
                });
                record.problems = errors.chain(wrong).collect();
                record.waits = waits.iter().map(|it| it.message.clone()).collect();
                record.outdated_class =
                    condition(plan.status.conditions.as_deref(), "MachineClassCurrent");
                record.is_cloud_init_unknown = self.secrets.is_cloud_init_unknown(&machine);
                let before = machine.status.as_ref().and_then(|it| it.disks.as_ref());
                if plan.steps.is_empty() && plan.status.disks.as_ref() != before {
                    return self.record_disks(subject, machine, plan.status.disks.as_ref());
                }
                plan.steps
            }
            Owner::Network => {
                let Some(network) = self.caches.networks.get(&subject.key).map(Arc::clone) else {
                    return Vec::new();
                };
                let observed = self.caches.observe_network(&network, None);
                let plan = network_plan(&observed, &self.now);
                let not_ready = condition(plan.status.conditions.as_deref(), "Ready");
                record.problems = not_ready.into_iter().collect();
                plan.steps
            }
        }
    }

    /// Writes the disks to the status, which deletions wait for, and plans again.
    fn record_disks(
        &mut self,
        subject: &Subject,
        mut machine: Arc<Machine>,
        disks: Option<&Vec<DiskStatus>>,
    ) -> Vec<Step> {
        let changed = Arc::make_mut(&mut machine);
        changed.status.get_or_insert_default().disks = disks.cloned();
        let machine = serde_json::to_value(&*machine).unwrap_or_default();
        self.caches.on_answer(subject, Answer::Owner(machine));
        let machine = self.caches.machines.get(&subject.key);
        let recorded = machine.and_then(|machine| machine.status.as_ref()?.disks.as_ref());
        if recorded == disks {
            self.plan(subject)
        } else {
            Vec::new()
        }
    }

    fn execute(&mut self, subject: &Subject, step: Step) -> Affected {
        let Step { action, reason, .. } = step;
        let namespace = Arc::clone(&subject.key.namespace);
        match action {
            Action::AddFinalizer => self.change_finalizers(subject, |finalizers, own| {
                finalizers.push(own.into());
            }),
            Action::RemoveFinalizer => self.change_finalizers(subject, |finalizers, own| {
                finalizers.retain(|finalizer| finalizer != own);
            }),
            Action::Create(object) | Action::Recreate(object) => {
                let mut after = serde_json::to_value(&object).unwrap_or_default();
                self.created += 1;
                after["metadata"]["uid"] = format!("preview-{}", self.created).into();
                after["metadata"]["namespace"] = (*namespace).into();
                self.write(subject, object.kind(), object.name(), Some(after), reason)
            }
            Action::ObserveReferences => {
                self.reads.insert(subject.clone());
                Affected::default()
            }
            Action::RecoverClaim { uid, .. } => {
                self.caches.on_answer(subject, Answer::ClaimLost { uid })
            }
            Action::ObserveDisk { kind, name } => self
                .caches
                .on_answer(subject, Answer::Absent { kind, name }),
            Action::ChangeMetadata {
                kind, name, change, ..
            } => {
                let found = self.caches.object(kind, &Key::new(&namespace, &name));
                let Some(mut after) = found else {
                    return Affected::default();
                };
                for (field, entries) in [
                    ("labels", change.labels),
                    ("annotations", change.annotations),
                ] {
                    for (name, value) in entries {
                        after["metadata"][field][name] = value.into();
                    }
                }
                if let Some((owners, _)) = change.owners {
                    after["metadata"]["ownerReferences"] =
                        serde_json::to_value(owners).unwrap_or_default();
                }
                self.write(subject, kind, &name, Some(pruned(after)), reason)
            }
            Action::Apply { object, .. } | Action::RestoreOwner { object, .. } => {
                let (kind, name) = (object.kind(), object.name());
                let found = self.caches.object(kind, &Key::new(&namespace, name));
                let desired = serde_json::to_value(&object).unwrap_or_default();
                let owned = (kind == ObjectKind::VirtualMachine)
                    .then(|| self.owned.get(&subject.key))
                    .flatten();
                let after = overlay(found.unwrap_or_default(), owned, &desired);
                self.write(subject, kind, name, Some(after), reason)
            }
            Action::Delete { kind, name, .. } => {
                let is_restarted =
                    kind == ObjectKind::VirtualMachineInstance && !self.is_deleted(subject);
                let record = self.records.entry(subject.clone()).or_default();
                record.is_restarted |= is_restarted;
                self.write(subject, kind, &name, None, reason)
            }
            Action::WriteSecret(secret) => {
                let name = secret.metadata.name.unwrap_or_default();
                // Secrets are not listed: assume that it exists if the VirtualMachine refers to it.
                let vm = self.virtual_machine(subject);
                let exists = vm.is_some_and(|vm| vm.to_string().contains(&format!("{name:?}")));
                let before = exists.then(|| json!({}));
                self.touch(subject, "Secret", &name, before, Some(json!({})), reason);
                Affected::default()
            }
            Action::DeleteSecret { name } => {
                self.touch(subject, "Secret", &name, Some(json!({})), None, reason);
                Affected::default()
            }
            Action::Pause { name } => {
                let paused =
                    json!([{ "type": "Paused", "status": "True", "reason": "PausedByUser" }]);
                self.change_instance(subject, &name, paused, "the guest is paused")
            }
            Action::Unpause { name } => {
                self.change_instance(subject, &name, json!([]), "the guest is resumed")
            }
        }
    }

    fn is_deleted(&self, machine: &Subject) -> bool {
        let machine = self.caches.machines.get(&machine.key);
        machine.is_some_and(|machine| machine.metadata.deletion_timestamp.is_some())
    }

    fn virtual_machine(&self, machine: &Subject) -> Option<Value> {
        let found = self.caches.machines.get(&machine.key)?;
        let name = found.spec.name.as_deref().unwrap_or(&machine.key.name);
        let key = Key::new(&machine.key.namespace, name);
        self.caches.object(ObjectKind::VirtualMachine, &key)
    }

    fn change_finalizers(
        &mut self,
        subject: &Subject,
        change: impl Fn(&mut Vec<Value>, &str),
    ) -> Affected {
        let owner = match subject.owner {
            Owner::Machine => to_value(self.caches.machines.get(&subject.key).map(Arc::as_ref)),
            Owner::Network => to_value(self.caches.networks.get(&subject.key).map(Arc::as_ref)),
        };
        let Some(mut owner) = owner else {
            return Affected::default();
        };
        let mut finalizers = owner["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        change(&mut finalizers, subject.owner.finalizer());
        owner["metadata"]["finalizers"] = finalizers.into();
        self.caches
            .on_answer(subject, Answer::Owner(unversioned(owner)))
    }

    fn change_instance(
        &mut self,
        subject: &Subject,
        name: &str,
        conditions: Value,
        reason: &str,
    ) -> Affected {
        let kind = ObjectKind::VirtualMachineInstance;
        let key = Key::new(&subject.key.namespace, name);
        let Some(mut instance) = self.caches.object(kind, &key) else {
            return Affected::default();
        };
        instance["status"]["conditions"] = conditions;
        self.write(subject, kind, name, Some(instance), reason.to_owned())
    }

    /// Writes an object to the caches, and records the change.
    fn write(
        &mut self,
        subject: &Subject,
        kind: ObjectKind,
        name: &str,
        after: Option<Value>,
        reason: String,
    ) -> Affected {
        let key = Key::new(&subject.key.namespace, name);
        let before = self.caches.object(kind, &key);
        self.touch(
            subject,
            kind.as_str(),
            name,
            before.clone(),
            after.clone(),
            reason,
        );
        let answer = match after {
            Some(after) => Answer::Object(kind, unversioned(after)),
            None => Answer::Gone {
                kind,
                name: name.to_owned(),
                uid: before
                    .as_ref()
                    .and_then(|before| before["metadata"]["uid"].as_str())
                    .unwrap_or_default()
                    .to_owned(),
            },
        };
        let is_gone = matches!(answer, Answer::Gone { .. });
        let affected = self.caches.on_answer(subject, answer);
        if is_gone && kind == ObjectKind::VirtualMachine {
            // The garbage collector deletes its instance.
            let kind = ObjectKind::VirtualMachineInstance;
            if let Some(instance) = self.caches.object(kind, &key) {
                let uid = instance["metadata"]["uid"].as_str().unwrap_or_default();
                let (name, uid) = (name.to_owned(), uid.to_owned());
                self.caches
                    .on_answer(subject, Answer::Gone { kind, name, uid });
            }
        }
        affected
    }

    fn touch(
        &mut self,
        subject: &Subject,
        kind: &'static str,
        name: &str,
        before: Option<Value>,
        after: Option<Value>,
        reason: String,
    ) {
        let touched = &mut self.records.entry(subject.clone()).or_default().touched;
        let existing = touched
            .iter_mut()
            .find(|touched| touched.kind == kind && touched.name == name);
        match existing {
            Some(touched) => {
                touched.after = after;
                touched.reason = reason;
                touched.after_detach = self.after_detach;
            }
            None => touched.push(Touched {
                kind,
                name: name.to_owned(),
                before,
                after,
                reason,
                after_detach: self.after_detach,
            }),
        }
    }

    /// Simulates KubeVirt, which detaches disks that a guest no longer has, and the storage, which binds
    /// claims.
    fn simulate_controllers(&mut self, subjects: &BTreeSet<Subject>) {
        for subject in subjects {
            let Some(machine) = self.caches.machines.get(&subject.key).map(Arc::clone) else {
                continue;
            };
            if subject.owner != Owner::Machine {
                continue;
            }
            let Some(children) = self.caches.children(&machine) else {
                continue;
            };
            let observed = self
                .caches
                .observe(&machine, &children, Known::all([]), None);
            let mut answers = Vec::new();
            for claim in &observed.claims {
                if claim.status.phase != ClaimPhase::Bound
                    && let Some(mut claim) = to_value(Some(claim))
                {
                    claim["status"]["phase"] = "Bound".into();
                    answers.push((ObjectKind::PersistentVolumeClaim, claim));
                }
            }
            if let (Some(vm), Some(instance)) = (observed.virtual_machine, observed.instance)
                && let Some(mut instance) = to_value(Some(instance))
            {
                let volumes = vm.spec.value().pointer("/template/spec/volumes").cloned();
                instance["status"]["volumeStatus"] = volumes.unwrap_or_else(|| json!([]));
                answers.push((ObjectKind::VirtualMachineInstance, instance));
            }
            for (kind, value) in answers {
                self.caches
                    .on_answer(subject, Answer::Object(kind, unversioned(value)));
            }
        }
    }
}

/// References to claims: of foreign objects, and of the simulated VirtualMachines.
fn references(
    caches: &Caches,
    foreign: &BTreeMap<Arc<str>, References>,
    namespace: &Arc<str>,
) -> References {
    let mut references = foreign.get(namespace).cloned().unwrap_or_default();
    for (key, vm) in caches.virtual_machines.iter() {
        if key.namespace == *namespace
            && let Some(vm) = vm.read()
        {
            references.add(ObjectKind::VirtualMachine, vm);
        }
    }
    references
}

/// Removes labels and annotations without value.
fn pruned(mut object: Value) -> Value {
    for field in ["labels", "annotations"] {
        if let Some(entries) = object["metadata"][field].as_object_mut() {
            entries.retain(|_, value| !value.is_null());
        }
    }
    object
}

/// Instance of a Machine whose guest runs or starts.
fn guest(observed: &Observed<'_>) -> Option<Value> {
    let instance = observed.instance.filter(|instance| {
        !instance.status.phase.is_final() && instance.metadata.deletion_timestamp.is_none()
    });
    to_value(instance)
}

fn to_value(object: Option<&impl serde::Serialize>) -> Option<Value> {
    object.and_then(|object| serde_json::to_value(object).ok())
}

/// Removes the version, so that the caches accept the simulated object as the newest.
fn unversioned(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

/// Message of a condition that is False.
fn condition(conditions: Option<&[api::Condition]>, type_: &str) -> Option<String> {
    let conditions = conditions.unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "False")?;
    Some(found.message.clone())
}
