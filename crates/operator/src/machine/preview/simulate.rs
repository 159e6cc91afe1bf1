//! Carries plans out in memory, on the caches, until there is nothing left to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{DiskStatus, Machine, Time, core::Secret, labels};
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::Client;
use plan::{
    machine::{
        Action, Age, CloudInitSecret, Kind as ObjectKind, Known, LiveReferences, Observed,
        References, Step, has_keyed_digest, plan as machine_plan,
    },
    naming,
    network::plan as network_plan,
    preview::overlay,
};
use runtime::cache::Key;
use serde_json::{Value, json};

use super::{CONCURRENCY, Given, live};
use crate::{
    machine::{
        caches::{Affected, Caches, Subject},
        execute::{self, Answer, Target},
        paths::Owner,
        secrets,
    },
    manifests::Resource,
    requests::Requests,
};

/// How often a resource is planned for. A plan that asks for more than this has no end.
const ROUNDS: usize = 20;

/// The Secrets that Machines name, and those with their data where digests are keyed.
pub(super) struct Secrets {
    read: BTreeMap<Key, Read>,
    /// The digests on the latter, by Machine.
    digests: BTreeMap<Key, String>,
}

enum Read {
    Found(Arc<Secret>),
    Missing,
    Unread(String),
}

impl Secrets {
    /// Reads each Secret that is named by the Machines that are concerned, once. Those among the
    /// documents are taken from there.
    pub(super) async fn fetch(
        client: &Client,
        caches: &Caches,
        concerned: &BTreeSet<Subject>,
        wanted: &[(&Given, Value)],
        others: &[Resource],
    ) -> Self {
        let mut read = BTreeMap::new();
        for resource in others {
            if let Resource::Secret(secret) = resource {
                let key = Key::of(&secret.metadata);
                read.insert(key, Read::Found(Arc::clone(secret)));
            }
        }
        let machines = concerned
            .iter()
            .filter(|subject| subject.owner == Owner::Machine);
        let live = machines
            .clone()
            .filter_map(|subject| caches.machines.get(&subject.key).map(Arc::clone));
        let new = wanted
            .iter()
            .filter_map(|(_, value)| decode::from_value_ref(value).ok())
            .map(Arc::new);
        let named: BTreeSet<Key> = live
            .chain(new)
            .filter_map(|machine: Arc<Machine>| key_of(&machine))
            .filter(|key| !read.contains_key(key))
            .collect();
        let requests = Requests::new(client.clone(), labels::MANAGER);
        let fetched: Vec<_> = stream::iter(named)
            .map(|key| fetch(&requests, key))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        read.extend(fetched);
        let own: Vec<(Key, Key)> = machines
            .filter(|subject| {
                let vm = caches.virtual_machines.get(&subject.key);
                vm.and_then(|vm| vm.unpack())
                    .is_some_and(|vm| has_keyed_digest(&vm))
            })
            .map(|subject| {
                let Key { namespace, name } = &subject.key;
                let secret = Key::new(namespace, &naming::cloud_init_secret(name));
                (subject.key.clone(), secret)
            })
            .collect();
        let fetched: Vec<_> = stream::iter(own)
            .map(|(machine, key)| fetch(&requests, key).map(|(key, found)| (machine, key, found)))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut digests = BTreeMap::new();
        for (machine, key, found) in fetched {
            match found {
                Read::Found(secret) => digests.extend(
                    secret
                        .metadata
                        .annotations
                        .as_ref()
                        .and_then(|all| Some((machine, all.get(labels::CLOUD_INIT)?.clone()))),
                ),
                Read::Missing => {}
                Read::Unread(_) => drop(read.insert(key, found)),
            }
        }
        Self { read, digests }
    }

    /// What is known of the Secret with a Machine's data.
    fn cloud_init(&self, machine: &Key) -> CloudInitSecret<'_> {
        CloudInitSecret::Read {
            digest: self.digests.get(machine).map(String::as_str),
        }
    }

    /// The Secret that a Machine names.
    pub(super) fn of(&self, machine: &Machine) -> Known<Secret> {
        let Some(key) = key_of(machine) else {
            return Known::all([]);
        };
        match self.read.get(&key) {
            Some(Read::Found(secret)) => Known::all([(key.name.to_string(), Arc::clone(secret))]),
            Some(Read::Missing) => Known::all([]),
            Some(Read::Unread(_)) | None => Known::some([]),
        }
    }

    fn is_unread(&self, machine: &Machine) -> bool {
        let key = key_of(machine);
        key.is_some_and(|key| matches!(self.read.get(&key), Some(Read::Unread(_)) | None))
    }

    /// What to tell of those that cannot be read.
    pub(super) fn unread(&self) -> impl Iterator<Item = String> {
        self.read.iter().filter_map(|(key, read)| match read {
            Read::Unread(why) => Some(format!(
                "Secret {key} cannot be read, so changes of it are not told: {why}"
            )),
            Read::Found(_) | Read::Missing => None,
        })
    }
}

fn key_of(machine: &Machine) -> Option<Key> {
    let (name, _) = secrets::named(machine)?;
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, name))
}

async fn fetch(requests: &Requests, key: Key) -> (Key, Read) {
    let target = Target {
        owner: Owner::Machine,
        namespace: key.namespace.to_string(),
        name: String::new(),
        uid: String::new(),
        finalizers: Vec::new(),
    };
    let read = match execute::read_secret(requests, &target, &key.name).await {
        Ok(Some(secret)) => Read::Found(Arc::new(secret)),
        Ok(None) => Read::Missing,
        Err(error) => Read::Unread(error.to_string()),
    };
    (key, read)
}

/// What a run did for a resource.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Objects, in the order in which they were first written to.
    pub(super) touched: Vec<Touched>,
    /// The guest that ran before, as its instance.
    pub(super) guest: Option<Value>,
    /// Whether it was ended so that it starts anew.
    pub(super) is_restarted: bool,
    /// What the last plan found to be wrong.
    pub(super) problems: Vec<String>,
    /// What the last plan waits for.
    pub(super) waits: Vec<String>,
    /// Why the size is not that of the class.
    pub(super) behind: Option<String>,
    /// Whether cloud-init's data is not known.
    pub(super) is_unread: bool,
    rounds: usize,
}

/// An object that was written to.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
    pub(super) reason: String,
    /// Whether this waits for KubeVirt to let go of it.
    pub(super) is_late: bool,
}

/// What a run did.
pub(super) type Outcome = BTreeMap<Subject, Record>;

/// A cluster in memory in which only the operator acts.
pub(super) struct Simulation {
    caches: Caches,
    secrets: Secrets,
    /// What we own of VirtualMachines, by Machine.
    owned: BTreeMap<Key, Value>,
    now: Time,
    made: usize,
    records: Outcome,
    is_late: bool,
    /// Who else refers to claims, by namespace.
    others: BTreeMap<Arc<str>, References>,
    /// The Machines that have asked for it.
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
        let mut others = references;
        for (key, _) in caches.virtual_machines.iter() {
            if let Some(found) = others.remove(&key.namespace) {
                let found = found
                    .without(ObjectKind::VirtualMachine, &key.name)
                    .without(ObjectKind::VirtualMachineInstance, &key.name);
                others.insert(Arc::clone(&key.namespace), found);
            }
        }
        Self {
            others,
            reads: BTreeSet::new(),
            caches,
            secrets,
            owned,
            now,
            made: 0,
            records: BTreeMap::new(),
            is_late: false,
        }
    }

    /// Takes a document for applied.
    pub(super) fn lay_over(&mut self, given: &Given, value: &Value) -> Result<(), &'static str> {
        let told = live::applied(given.kind, value)
            .ok_or("the API server takes it, but this version cannot understand it")?;
        let scope = self.caches.scope_of(&given.key.namespace).to_owned();
        self.caches.told(&scope, told);
        Ok(())
    }

    /// Plans for these resources until there is nothing left to do, lets KubeVirt and the storage
    /// catch up, and plans again. Other resources stay as they are.
    pub(super) fn run(&mut self, subjects: &BTreeSet<Subject>) -> Outcome {
        self.is_late = false;
        self.settle(subjects);
        self.catch_up(subjects);
        self.is_late = true;
        self.settle(subjects);
        std::mem::take(&mut self.records)
    }

    fn settle(&mut self, subjects: &BTreeSet<Subject>) {
        let mut work = subjects.clone();
        while let Some(subject) = work.pop_first() {
            let steps = self.look(&subject);
            let record = self.records.entry(subject.clone()).or_default();
            if steps.is_empty() || record.rounds >= ROUNDS {
                continue;
            }
            record.rounds += 1;
            for step in steps {
                let affected = self.carry_out(&subject, step).subjects;
                work.extend(affected.into_iter().filter(|it| subjects.contains(it)));
            }
            work.insert(subject);
        }
    }

    fn look(&mut self, subject: &Subject) -> Vec<Step> {
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
                let references = self
                    .reads
                    .contains(subject)
                    .then(|| references(&self.caches, &self.others, &subject.key.namespace));
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
                record.behind = condition(plan.status.conditions.as_deref(), "MachineClassCurrent");
                record.is_unread = self.secrets.is_unread(&machine);
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

    /// Writes what is recorded of disks to the status, on which deletions wait, and plans again.
    fn record_disks(
        &mut self,
        subject: &Subject,
        mut machine: Arc<Machine>,
        disks: Option<&Vec<DiskStatus>>,
    ) -> Vec<Step> {
        let changed = Arc::make_mut(&mut machine);
        changed.status.get_or_insert_default().disks = disks.cloned();
        let machine = serde_json::to_value(&*machine).unwrap_or_default();
        self.caches.answered(subject, Answer::Owner(machine));
        let machine = self.caches.machines.get(&subject.key);
        let recorded = machine.and_then(|machine| machine.status.as_ref()?.disks.as_ref());
        if recorded == disks {
            self.look(subject)
        } else {
            Vec::new()
        }
    }

    fn carry_out(&mut self, subject: &Subject, step: Step) -> Affected {
        let Step { action, reason, .. } = step;
        let namespace = Arc::clone(&subject.key.namespace);
        match action {
            Action::AddFinalizer => self.change_owner(subject, |finalizers, ours| {
                finalizers.push(ours.into());
            }),
            Action::RemoveFinalizer => self.change_owner(subject, |finalizers, ours| {
                finalizers.retain(|held| held != ours);
            }),
            Action::Create(object) | Action::Recreate(object) => {
                let mut after = serde_json::to_value(&object).unwrap_or_default();
                self.made += 1;
                after["metadata"]["uid"] = format!("preview-{}", self.made).into();
                after["metadata"]["namespace"] = (*namespace).into();
                self.write(subject, object.kind(), object.name(), Some(after), reason)
            }
            Action::ObserveReferences => {
                self.reads.insert(subject.clone());
                Affected::default()
            }
            Action::RecoverClaim { uid, .. } => {
                self.caches.answered(subject, Answer::ClaimLost { uid })
            }
            Action::ObserveDisk { kind, name } => {
                self.caches.answered(subject, Answer::Absent { kind, name })
            }
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
                let wanted = serde_json::to_value(&object).unwrap_or_default();
                let owned = (kind == ObjectKind::VirtualMachine)
                    .then(|| self.owned.get(&subject.key))
                    .flatten();
                let after = overlay(found.unwrap_or_default(), owned, &wanted);
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
                // Secrets are not listed. A VirtualMachine that reads this one tells that it is there.
                let vm = self.virtual_machine(subject);
                let is_there = vm.is_some_and(|vm| vm.to_string().contains(&format!("{name:?}")));
                let before = is_there.then(|| json!({}));
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
                self.change_instance(subject, &name, paused, "it is paused")
            }
            Action::Unpause { name } => {
                self.change_instance(subject, &name, json!([]), "it goes on after a pause")
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

    fn change_owner(
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
            .answered(subject, Answer::Owner(unversioned(owner)))
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

    /// Takes an object for written, and notes it.
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
        let affected = self.caches.answered(subject, answer);
        if is_gone && kind == ObjectKind::VirtualMachine {
            // Its guest goes with it.
            let kind = ObjectKind::VirtualMachineInstance;
            if let Some(instance) = self.caches.object(kind, &key) {
                let uid = instance["metadata"]["uid"].as_str().unwrap_or_default();
                let (name, uid) = (name.to_owned(), uid.to_owned());
                self.caches
                    .answered(subject, Answer::Gone { kind, name, uid });
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
        let again = touched
            .iter_mut()
            .find(|touched| touched.kind == kind && touched.name == name);
        match again {
            Some(touched) => {
                touched.after = after;
                touched.reason = reason;
                touched.is_late = self.is_late;
            }
            None => touched.push(Touched {
                kind,
                name: name.to_owned(),
                before,
                after,
                reason,
                is_late: self.is_late,
            }),
        }
    }

    /// KubeVirt lets go of the disks that a guest no longer has, and claims are bound.
    fn catch_up(&mut self, subjects: &BTreeSet<Subject>) {
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
                if claim.status.phase != "Bound"
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
                    .answered(subject, Answer::Object(kind, unversioned(value)));
            }
        }
    }
}

/// Who refers to claims: others, as they are, and the VirtualMachines of Machines, as they would be.
fn references(
    caches: &Caches,
    others: &BTreeMap<Arc<str>, References>,
    namespace: &Arc<str>,
) -> References {
    let mut references = others.get(namespace).cloned().unwrap_or_default();
    for (key, vm) in caches.virtual_machines.iter() {
        if key.namespace == *namespace
            && let Some(vm) = vm.read()
        {
            references.add(ObjectKind::VirtualMachine, vm);
        }
    }
    references
}

/// An object without labels and annotations that have no value.
fn pruned(mut object: Value) -> Value {
    for field in ["labels", "annotations"] {
        if let Some(entries) = object["metadata"][field].as_object_mut() {
            entries.retain(|_, value| !value.is_null());
        }
    }
    object
}

/// The instance of a Machine, if its guest runs or is about to.
fn guest(observed: &Observed<'_>) -> Option<Value> {
    let instance = observed.instance.filter(|instance| {
        !instance.status.phase.is_final() && instance.metadata.deletion_timestamp.is_none()
    });
    to_value(instance)
}

fn to_value(object: Option<&impl serde::Serialize>) -> Option<Value> {
    object.and_then(|object| serde_json::to_value(object).ok())
}

/// What was not written has no version; the caches take it as it comes.
fn unversioned(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

/// What a condition says that is False.
fn condition(conditions: Option<&[api::Condition]>, type_: &str) -> Option<String> {
    let conditions = conditions.unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "False")?;
    Some(found.message.clone())
}
