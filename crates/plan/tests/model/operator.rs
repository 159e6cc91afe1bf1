//! The operator of the model: caches, the real plan, one step at a time.
//!
//! A plan depends on a handful of numbers, so each plan is computed once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use api::{Machine, MachineStatus, core::StorageClass};
use plan::machine::{
    Action, Age, CloudInitSecret, ErrorType, Installed, Kind, Known, LiveReferences, Observed,
    Part, Plan, References, Refusal, Surroundings, plan,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, DISKS, Edit, INSTANCE, Id, MACHINES, OTHER_VM, TIME, Uid, VM,
        base, mentions,
    },
    state::{Memory, Pending, State},
    steps::{Answer, Refused, disk_bit, slot_of},
};

/// Key of a plan: the Machine's number, its cached objects, and the operator's memory.
type Key = (usize, [Id; 7], Memory, bool);

/// The parts of a plan that the model needs.
pub(crate) struct Planned {
    steps: Vec<u32>,
    machine: Option<Uid>,
    /// The new `status.disks`.
    record: Value,
    mentions: u128,
    /// Whether it waits for users of a disk.
    is_in_use: bool,
}

/// The condition Ready of a Machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) is_ready: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// All plans and steps that occurred.
pub(crate) struct Plans {
    all: Vec<Planned>,
    made: HashMap<Key, u32>,
    verdicts: HashMap<(Key, bool), Verdict>,
    pub(crate) steps: Vec<(Action, String)>,
    /// Objects that live reads found.
    reads: Vec<Referrers>,
}

/// Objects that may refer to claims.
type Referrers = [Id; 3 * MACHINES.len()];

impl Plans {
    pub(crate) fn new() -> Self {
        let none = Planned {
            steps: Vec::new(),
            machine: None,
            record: Value::Null,
            mentions: 0,
            is_in_use: false,
        };
        Self {
            all: vec![none],
            made: HashMap::new(),
            verdicts: HashMap::new(),
            steps: Vec::new(),
            reads: vec![Default::default()],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    fn intern(&mut self, action: Action, reason: String) -> u32 {
        let found = self.steps.iter().position(|(known, _)| *known == action);
        let number = found.unwrap_or_else(|| {
            self.steps.push((action, reason));
            self.steps.len() - 1
        });
        u32::try_from(number).unwrap()
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn surroundings() -> Surroundings {
    let class: StorageClass = read(json!({
        "metadata": { "name": "fast",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
        "allowVolumeExpansion": true,
    }));
    Surroundings {
        machine_classes: Known::all([]),
        storage_classes: Known::all([("fast".to_owned(), Arc::new(class))]),
        networks: Known::all([]),
        secrets: Known::all([]),
        config_maps: Known::all([]),
        kept_classes: BTreeMap::new(),
        clone_sources: plan::machine::CloneSources::default(),
        provider: plan::machine::Provider::default(),
        ..Surroundings::default()
    }
}

impl Model {
    pub(crate) fn mentions(&self, pending: Pending) -> u128 {
        self.plans.all[pending.plan as usize].mentions
    }

    /// Uids that live reads mention.
    pub(crate) fn mentions_in_memory(&self, memory: &Memory) -> u128 {
        let ids = self.plans.reads[usize::from(memory.read)].iter();
        let found = ids.filter_map(|id| self.known(*id).map(|facts| facts.mentions));
        let lost = memory.lost.into_iter().flatten().map(Uid::bits);
        found.chain(lost).fold(0, |all, bits| all | bits)
    }

    fn referrers(state: &State) -> Referrers {
        let mut found = [ABSENT; 3 * MACHINES.len()];
        for machine in 0..MACHINES.len() {
            for (at, kind) in [VM, INSTANCE, OTHER_VM].into_iter().enumerate() {
                found[machine * 3 + at] = state.objects[base(machine) + kind];
            }
        }
        found
    }

    /// Whether the operator has something to do for a Machine, or a live read to evaluate.
    pub(crate) fn has_turn(&mut self, state: &State, machine: usize) -> bool {
        state.memory[machine].is_fresh
            || self.next_step(state, machine).is_some()
            || self.due_record(state, machine).is_some()
    }

    /// The plan whose record of claims the status lacks.
    fn due_record(&mut self, state: &State, machine: usize) -> Option<u32> {
        let plan = self.plan(state, machine);
        let observed = state.cache[base(machine)];
        let is_due = plan != 0
            && self.objects.value(observed)["status"]["disks"] != self.planned(plan).record;
        is_due.then_some(plan)
    }

    /// Records claims in the status, as the plan for the caches says.
    fn write_record(&mut self, state: &mut State, machine: usize, is_lost: bool) {
        let Some(plan) = self.due_record(state, machine) else {
            return;
        };
        let owner = self.planned(plan).machine.unwrap();
        if self.same(state, base(machine), &owner.text()).is_err() {
            return;
        }
        let record = self.planned(plan).record.clone();
        self.edit(state, base(machine), Edit::Record(plan), |object| {
            object["status"]["disks"] = record;
        });
        if !is_lost {
            self.learn(state, base(machine), state.objects[base(machine)]);
        }
    }

    fn key(&self, state: &State, machine: usize) -> Option<Key> {
        let from = base(machine);
        let mut ids: [Id; 7] = state.cache[from..from + 7].try_into().unwrap();
        for id in &mut ids[CLAIM..7] {
            let is_its = self
                .known(*id)
                .is_some_and(|facts| facts.machine == Some(machine));
            if !is_its {
                *id = ABSENT;
            }
        }
        // A stale read is repeated after a while: that matters once something changed.
        let memory = state.memory[machine];
        let is_due = !memory.is_fresh
            && Self::referrers(state) != self.plans.reads[usize::from(memory.read)];
        (ids[0] != ABSENT).then_some((machine, ids, memory, is_due))
    }

    /// The plan for a Machine as the caches have it; 0 without a Machine.
    pub(crate) fn plan(&mut self, state: &State, machine: usize) -> u32 {
        let Some(key) = self.key(state, machine) else {
            return 0;
        };
        if let Some(made) = self.plans.made.get(&key) {
            return *made;
        }
        let Plan {
            steps,
            obstacles,
            status,
            ..
        } = self.make_plan(&key, None, false);
        let record = status.disks.filter(|disks| !disks.is_empty());
        let steps: Vec<_> = steps
            .into_iter()
            .map(|step| self.plans.intern(step.action, step.reason))
            .collect();
        let text = steps
            .iter()
            .map(|step| format!("{:?}", self.plans.steps[*step as usize].0));
        let text: String = text.collect();
        let machine = self.objects.facts(key.1[0]);
        self.plans.all.push(Planned {
            machine: Some(machine.uid),
            record: json!(record),
            is_in_use: obstacles
                .iter()
                .any(|it| it.error_type == Some(ErrorType::DiskInUse)),
            mentions: mentions(&text) | machine.mentions,
            steps,
        });
        let number = u32::try_from(self.plans.all.len() - 1).unwrap();
        self.plans.made.insert(key, number);
        number
    }

    /// The final status of a Machine, if nothing else changes.
    pub(crate) fn verdict(&mut self, state: &State, machine: usize) -> Verdict {
        let key = self.key(state, machine).unwrap();
        // A step that remains at rest is one that the API server refuses: the name is in use.
        let is_refused = self.next_step(state, machine).is_some();
        if let Some(verdict) = self.plans.verdicts.get(&(key, is_refused)) {
            return verdict.clone();
        }
        let mut status = None;
        // A status passes through the phases, one write at a time.
        for _ in 0..6 {
            status = Some(self.make_plan(&key, status, is_refused).status);
        }
        let conditions = status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let ready = conditions.into_iter().find(|it| it.type_ == "Ready");
        let verdict = ready.map_or_else(Verdict::default, |ready| Verdict {
            is_ready: ready.status == "True",
            reason: ready.reason,
            message: ready.message,
        });
        self.plans
            .verdicts
            .insert((key, is_refused), verdict.clone());
        verdict
    }

    pub(crate) fn planned(&self, plan: u32) -> &Planned {
        &self.plans.all[plan as usize]
    }

    fn make_plan(
        &self,
        (machine_number, ids, memory, is_due): &Key,
        status: Option<MachineStatus>,
        is_refused: bool,
    ) -> Plan {
        fn all<T: DeserializeOwned>(model: &Model, ids: &[Id]) -> Vec<T> {
            let ids = ids.iter().filter(|id| **id != ABSENT);
            ids.map(|id| read(model.objects.versioned(*id))).collect()
        }
        let mut machine: Machine = read(self.objects.versioned(ids[0]));
        if status.is_some() {
            machine.status = status;
        }
        let vms = all(self, &ids[VM..=VM]);
        let instances = all(self, &ids[INSTANCE..=INSTANCE]);
        // Caches list by name, and data comes before root.
        let claims = all(self, &[ids[CLAIM + 1], ids[CLAIM]]);
        let volumes = all(self, &[ids[DATA_VOLUME + 1], ids[DATA_VOLUME]]);
        let refusal = Refusal {
            error_type: ErrorType::ForeignObject,
            part: Part::Storage,
            message: "an object of that name exists".to_owned(),
            is_persistent: true,
        };
        let mut references = References::default();
        for (at, id) in self.plans.reads[usize::from(memory.read)]
            .iter()
            .enumerate()
        {
            if *id != ABSENT {
                let kind = if at % 3 == 1 {
                    Kind::VirtualMachineInstance
                } else {
                    Kind::VirtualMachine
                };
                references.add(kind, read(self.objects.versioned(*id)));
            }
        }
        let retry_after = Duration::from_secs(if *is_due { 0 } else { 10 });
        let live = LiveReferences {
            found: &references,
            age: if memory.is_fresh {
                Age::Fresh
            } else {
                Age::Stale { retry_after }
            },
        };
        let lost: Vec<String> = memory.lost.into_iter().flatten().map(Uid::text).collect();
        let unconfirmed: Vec<(Kind, String)> = (CLAIM..OTHER_VM)
            .filter(|slot| memory.unconfirmed & disk_bit(*slot) != 0)
            .map(|slot| {
                let kind = if slot < DATA_VOLUME {
                    Kind::PersistentVolumeClaim
                } else {
                    Kind::DataVolume
                };
                let name = DISKS[(slot - CLAIM) % DISKS.len()];
                (kind, format!("{}-{name}", MACHINES[*machine_number]))
            })
            .collect();
        let observed = Observed {
            references: (memory.read != 0).then_some(live),
            lost_claims: lost.iter().map(String::as_str).collect(),
            unconfirmed_disks: unconfirmed
                .iter()
                .map(|(kind, name)| (*kind, name.as_str()))
                .collect(),
            orphaned: memory.is_orphaned,
            machine: &machine,
            surroundings: surroundings(),
            installed: Installed {
                kubevirt: true,
                kubevirt_is_removed: false,
                cdi: true,
                multus: true,
            },
            virtual_machine: vms.first(),
            instance: instances.first(),
            claims: claims.iter().collect(),
            data_volumes: volumes.iter().collect(),
            cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
            digest_key: None,
            mac_address_rivals: Vec::new(),
            attachments: Vec::new(),
            ledger: None,
            refusal: is_refused.then_some(&refusal),
        };
        plan(&observed, &read(TIME.into()))
    }

    /// The next step of the operator for a Machine, and its position in the plan.
    pub(crate) fn next_step(&mut self, state: &State, machine: usize) -> Option<(u32, Pending)> {
        let pending = state.pending[machine];
        let pending = if pending.plan == 0 {
            Pending {
                plan: self.plan(state, machine),
                next: 0,
            }
        } else {
            pending
        };
        let steps = &self.planned(pending.plan).steps;
        let step = steps.get(usize::from(pending.next))?;
        Some((*step, pending))
    }

    pub(crate) fn describe_step(&mut self, state: &State, machine: usize) -> String {
        match self.next_step(state, machine) {
            None if self.due_record(state, machine).is_some() => {
                "records the claims of disks in the status".to_owned()
            }
            None => "evaluates what it read".to_owned(),
            Some((step, _)) => {
                let (action, reason) = &self.plans.steps[step as usize];
                format!("{}, because {reason}", action.describe())
            }
        }
    }

    pub(crate) fn step(&mut self, state: &mut State, machine: usize, is_lost: bool) {
        let Some((step, pending)) = self.next_step(state, machine) else {
            state.pending[machine] = Pending::default();
            self.write_record(state, machine, is_lost);
            self.settle(state, machine);
            return;
        };
        let owner = self.planned(pending.plan).machine.unwrap();
        state.pending[machine] = Pending::default();
        if pending.next == 0 {
            self.settle(state, machine);
        }
        let carried_out = self.carry_out(state, owner, step);
        if is_lost {
            if let Action::Create(object) = &self.plans.steps[step as usize].0 {
                let slot = slot_of(object.kind(), object.name()).unwrap();
                state.memory[machine].unconfirmed |= disk_bit(slot);
            }
            return;
        }
        match carried_out {
            Err(Refused) => {
                // The status is written while a step is postponed.
                self.write_record(state, machine, false);
                return;
            }
            Ok(Answer::Nothing) => {}
            Ok(Answer::ClaimLost(disk, uid)) => state.memory[machine].lost[disk] = Some(uid),
            Ok(Answer::Absent(slot)) => state.memory[machine].unconfirmed &= !disk_bit(slot),
            Ok(Answer::Known(slot)) => {
                state.memory[machine].unconfirmed &= !disk_bit(slot);
                self.learn(state, slot, state.objects[slot]);
            }
            Ok(Answer::Referrers) => {
                let found = Self::referrers(state);
                // The first one stands for none.
                let known = self
                    .plans
                    .reads
                    .iter()
                    .skip(1)
                    .position(|read| *read == found);
                let known = known.map(|number| number + 1);
                let read = known.unwrap_or_else(|| {
                    self.plans.reads.push(found);
                    self.plans.reads.len() - 1
                });
                let memory = &mut state.memory[machine];
                memory.read = u16::try_from(read).unwrap();
                memory.is_fresh = true;
            }
        }
        let next = pending.next + 1;
        if usize::from(next) < self.planned(pending.plan).steps.len() {
            state.pending[machine] = Pending { next, ..pending };
        }
    }

    /// Marks a live read as used: from now on it only serves for reports.
    fn settle(&mut self, state: &mut State, machine: usize) {
        if !state.memory[machine].is_fresh {
            return;
        }
        let plan = self.plan(state, machine);
        let memory = &mut state.memory[machine];
        memory.is_fresh = false;
        if !self.planned(plan).is_in_use {
            memory.read = 0;
        }
    }

    /// Whether a plan in execution is about to delete a claim.
    pub(crate) fn is_about_to_delete(&self, pending: Pending, claim: usize) -> bool {
        let steps = self
            .planned(pending.plan)
            .steps
            .iter()
            .skip(usize::from(pending.next));
        steps
            .into_iter()
            .any(|step| match &self.plans.steps[*step as usize].0 {
                Action::Delete { kind, name, .. } => slot_of(*kind, name) == Some(claim),
                _ => false,
            })
    }
}
