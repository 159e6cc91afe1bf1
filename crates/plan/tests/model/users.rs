//! Users and other controllers: anything that anybody may do to an object.

use api::labels;
use serde_json::{Value, json};

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, DISKS, Edit, INSTANCE, MACHINE, MACHINES, OTHER_VM,
        PER_MACHINE, Policy, Uid, VM, base, describe, machine_of,
    },
    server::{Propagation, is_claim},
    state::{State, disk, machine},
};

/// An action of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserAct {
    Delete(usize, Propagation),
    StripOwners(usize),
    StripManagedBy(usize),
    StripMachine(usize),
    StripAnnotations(usize),
    StripFinalizers(usize),
    SetPolicy(usize, Policy),
    ListData(usize, bool),
    CreateMachine(usize, Policy),
    /// Creates a VirtualMachine of another name that mounts a claim.
    Mount(usize),
    /// Creates an object under a name that a Machine needs.
    Squat(usize),
    Adopt(usize),
    /// Confirms that the claim of a disk, which is recorded, is lost.
    Confirm(usize, usize),
}

impl UserAct {
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Delete(slot, propagation) => format!(
                "kubectl delete {} --cascade={propagation:?}",
                describe(slot)
            )
            .to_lowercase(),
            Self::StripOwners(slot) => format!("strips the ownerReferences of {}", describe(slot)),
            Self::StripManagedBy(slot) => {
                format!("strips the label managed-by of {}", describe(slot))
            }
            Self::StripMachine(slot) => format!("strips the label machine of {}", describe(slot)),
            Self::StripAnnotations(slot) => format!("strips the annotations of {}", describe(slot)),
            Self::StripFinalizers(slot) => format!("strips the finalizers of {}", describe(slot)),
            Self::SetPolicy(slot, policy) => {
                format!("sets deletionPolicy of {} to {policy:?}", describe(slot))
            }
            Self::ListData(slot, true) => format!("adds disk data to {}", describe(slot)),
            Self::ListData(slot, false) => format!("removes disk data from {}", describe(slot)),
            Self::CreateMachine(slot, policy) => {
                format!("creates {} with deletionPolicy {policy:?}", describe(slot))
            }
            Self::Mount(slot) => format!("creates a VirtualMachine that mounts {}", describe(slot)),
            Self::Squat(slot) => format!("creates {}", describe(slot)),
            Self::Adopt(slot) => format!("annotates {} with adopt-disks", describe(slot)),
            Self::Confirm(slot, disk) => {
                format!(
                    "confirms that disk {} of {} is lost",
                    DISKS[disk],
                    describe(slot)
                )
            }
        }
    }
}

impl Model {
    /// Possible actions of users on a Machine and its children.
    pub(crate) fn user_acts(&self, state: &State, machine: usize) -> Vec<UserAct> {
        let mut acts = Vec::new();
        let own = base(machine)..base(machine) + PER_MACHINE;
        for slot in own {
            match self.at(state, slot) {
                Some(_) => self.acts_on(state, slot, &mut acts),
                None => self.acts_without(slot, &mut acts),
            }
        }
        for disk in 0..self.config.disks {
            let claim = base(machine) + CLAIM + disk;
            if state.objects[claim] != ABSENT && state.objects[base(machine) + OTHER_VM] == ABSENT {
                acts.push(UserAct::Mount(claim));
            }
        }
        acts
    }

    fn acts_on(&self, state: &State, slot: usize, acts: &mut Vec<UserAct>) {
        let facts = self.at(state, slot).unwrap();
        let kind = slot % PER_MACHINE;
        if !facts.is_deleting {
            acts.push(UserAct::Delete(slot, Propagation::Background));
            if matches!(kind, MACHINE | VM) {
                acts.push(UserAct::Delete(slot, Propagation::Foreground));
            }
            if matches!(kind, MACHINE | VM) || (DATA_VOLUME..OTHER_VM).contains(&kind) {
                acts.push(UserAct::Delete(slot, Propagation::Orphan));
            }
        }
        if kind == OTHER_VM {
            return;
        }
        if !facts.finalizers.is_empty() && matches!(kind, MACHINE | VM) {
            acts.push(UserAct::StripFinalizers(slot));
        }
        if kind == MACHINE {
            let policies = Policy::ALL
                .into_iter()
                .filter(|policy| *policy != facts.policy);
            acts.extend(policies.map(|policy| UserAct::SetPolicy(slot, policy)));
            if self.config.disks > 1 && !facts.is_deleting {
                acts.push(UserAct::ListData(slot, !facts.lists_data));
            }
            if !facts.adopts {
                acts.push(UserAct::Adopt(slot));
            }
            let lost = (0..DISKS.len()).filter(|disk| self.is_lost(state, slot, *disk));
            acts.extend(lost.map(|disk| UserAct::Confirm(slot, disk)));
            return;
        }
        if !facts.owners.is_empty() {
            acts.push(UserAct::StripOwners(slot));
        }
        if facts.is_managed {
            acts.push(UserAct::StripManagedBy(slot));
        }
        if facts.machine.is_some() {
            acts.push(UserAct::StripMachine(slot));
        }
        let has_annotations =
            self.objects.value(state.objects[slot])["metadata"]["annotations"].is_object();
        if has_annotations && kind != INSTANCE {
            acts.push(UserAct::StripAnnotations(slot));
        }
    }

    fn acts_without(&self, slot: usize, acts: &mut Vec<UserAct>) {
        match slot % PER_MACHINE {
            MACHINE => {
                let policies = Policy::ALL.into_iter();
                acts.extend(policies.map(|policy| UserAct::CreateMachine(slot, policy)));
            }
            VM => acts.push(UserAct::Squat(slot)),
            kind if is_claim(slot) && kind - CLAIM < self.config.disks => {
                acts.push(UserAct::Squat(slot));
            }
            _ => {}
        }
    }

    pub(crate) fn user(&mut self, state: &mut State, act: UserAct) {
        match act {
            UserAct::Delete(slot, propagation) => self.user_deletes(state, slot, propagation),
            UserAct::StripOwners(slot) => {
                // An orphaning deletion leaves a VirtualMachine without its owner.
                if slot % PER_MACHINE == VM {
                    for flags in &mut state.ghost.disks[machine_of(slot)] {
                        *flags |= disk::RETAINED;
                    }
                }
                self.edit(state, slot, Edit::StripOwners, |object| {
                    object["metadata"]["ownerReferences"] = Value::Null;
                });
            }
            UserAct::StripManagedBy(slot) => {
                self.strip(state, slot, Edit::StripManagedBy, |metadata| {
                    remove(&mut metadata["labels"], labels::MANAGED_BY);
                });
            }
            UserAct::StripMachine(slot) => {
                self.strip(state, slot, Edit::StripMachine, |metadata| {
                    remove(&mut metadata["labels"], labels::MACHINE);
                });
            }
            UserAct::StripAnnotations(slot) => {
                self.strip(state, slot, Edit::StripAnnotations, |metadata| {
                    metadata["annotations"] = Value::Null;
                });
            }
            UserAct::StripFinalizers(slot) => {
                if slot % PER_MACHINE == MACHINE {
                    state.ghost.machines[machine_of(slot)] |= machine::ABANDONED;
                }
                self.edit(state, slot, Edit::RemoveAllFinalizers, |object| {
                    object["metadata"]["finalizers"] = Value::Null;
                });
                self.remove_if_released(state, slot);
            }
            UserAct::SetPolicy(slot, policy) => {
                self.edit(state, slot, Edit::SetPolicy(policy), |object| {
                    object["spec"]["deletionPolicy"] = policy.value();
                });
                // A later deletion of a Machine that is being deleted counts as well as the first.
                if self.at(state, slot).unwrap().is_deleting {
                    for flags in &mut state.ghost.disks[machine_of(slot)] {
                        if policy == Policy::Retain {
                            *flags |= disk::RETAINED;
                        } else if *flags & disk::DETACHED == 0 {
                            *flags |= disk::DROP;
                        }
                    }
                }
            }
            UserAct::ListData(slot, is_listed) => self.list_data(state, slot, is_listed),
            UserAct::CreateMachine(slot, policy) => self.create_machine(state, slot, policy),
            UserAct::Mount(claim) => self.mount(state, claim),
            UserAct::Squat(slot) => self.squat(state, slot),
            UserAct::Adopt(slot) => self.edit(state, slot, Edit::Adopt, |object| {
                object["metadata"]["annotations"][labels::ADOPT_DISKS] = "true".into();
            }),
            UserAct::Confirm(slot, disk) => {
                let uid = self.at(state, slot).unwrap().recorded[disk].unwrap();
                self.edit(state, slot, Edit::Confirm(uid), |object| {
                    object["metadata"]["annotations"][labels::RECREATE_DISK] = uid.text().into();
                });
                *state.disk(slot + CLAIM + disk) &= !disk::LOST;
            }
        }
    }

    fn strip(
        &mut self,
        state: &mut State,
        slot: usize,
        edit: Edit,
        change: impl FnOnce(&mut Value),
    ) {
        if slot % PER_MACHINE >= CLAIM {
            *state.disk(slot) |= disk::STRIPPED;
        }
        self.edit(state, slot, edit, |object| change(&mut object["metadata"]));
    }

    fn user_deletes(&mut self, state: &mut State, slot: usize, propagation: Propagation) {
        let kind = slot % PER_MACHINE;
        if kind == MACHINE {
            self.user_deletes_machine(state, slot, propagation);
        } else if is_claim(slot) {
            *state.disk(slot) |= disk::DOOMED;
        } else if (DATA_VOLUME..OTHER_VM).contains(&kind) {
            *state.disk(slot) |= disk::GONE_BY_USER;
            if propagation != Propagation::Orphan {
                *state.disk(slot) |= disk::DOOMED;
            }
        }
        self.delete(state, slot, propagation);
    }

    fn user_deletes_machine(&mut self, state: &mut State, slot: usize, propagation: Propagation) {
        let facts = self.at(state, slot).unwrap();
        let keeps = facts.policy == Policy::Retain || propagation == Propagation::Orphan;
        let number = machine_of(slot);
        if facts.finalizers.is_empty() {
            state.ghost.machines[number] |= machine::ABANDONED;
        }
        if propagation == Propagation::Orphan {
            state.ghost.machines[number] |= machine::ORPHANED;
        }
        for flags in &mut state.ghost.disks[number] {
            if keeps {
                *flags |= disk::RETAINED;
            } else if *flags & disk::DETACHED == 0 {
                *flags |= disk::DROP;
            }
        }
    }

    fn list_data(&mut self, state: &mut State, slot: usize, is_listed: bool) {
        self.edit(state, slot, Edit::ListData(is_listed), |object| {
            let disks = object["spec"]["disks"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let mut disks: Vec<_> = disks
                .into_iter()
                .filter(|disk| disk["name"] != "data")
                .collect();
            disks.extend(is_listed.then(data_disk));
            object["spec"]["disks"] = disks.into();
        });
        let policy = self.at(state, slot).unwrap().policy;
        if is_listed {
            // Until a watch shows it, the disk counts as removed.
            *state.disk(slot + CLAIM + 1) |= disk::RACED;
        }
        let flags = state.disk(slot + CLAIM + 1);
        *flags &= !(disk::DROP | disk::DETACHED | disk::LOST | disk::GONE_BY_USER | disk::IN_DOUBT);
        if !is_listed {
            *flags |= if policy == Policy::Delete {
                disk::DROP | disk::IN_DOUBT
            } else {
                disk::DETACHED
            };
        }
    }

    pub(crate) fn create_machine(&mut self, state: &mut State, slot: usize, policy: Policy) {
        let mut disks = Vec::new();
        if self.config.has_source {
            disks.push(json!({ "name": "root", "size": "20Gi",
                "source": { "http": { "url": "https://example.org/image.qcow2" } } }));
        }
        disks.extend((self.config.disks > 1).then(data_disk));
        let machine = json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": MACHINES[machine_of(slot)], "namespace": "default", "generation": 1 },
            "spec": { "template": "small", "deletionPolicy": policy.value(), "disks": disks },
        });
        let number = machine_of(slot);
        state.ghost.machines[number] = 0;
        for flags in &mut state.ghost.disks[number] {
            *flags &= disk::OF_CLAIM;
        }
        self.create(state, slot, machine, Uid::USER);
    }

    /// Whether the recorded claim of a disk no longer exists.
    pub(crate) fn is_lost(&self, state: &State, machine: usize, disk: usize) -> bool {
        let recorded = self.at(state, machine).and_then(|it| it.recorded[disk]);
        let claim = self.at(state, machine + CLAIM + disk);
        recorded.is_some() && claim.map(|claim| claim.uid) != recorded
    }

    fn mount(&mut self, state: &mut State, claim: usize) {
        let machine = machine_of(claim);
        let disk = DISKS[claim % PER_MACHINE - CLAIM];
        let name = format!("rescue-{}", MACHINES[machine]);
        let vm = virtual_machine(&name, &format!("{}-{disk}", MACHINES[machine]));
        self.note_race(state, claim);
        self.create(state, base(machine) + OTHER_VM, vm, Uid::USER);
    }

    /// Records a reference that appears after the operator's live read: no precondition of the API
    /// excludes it.
    fn note_race(&self, state: &mut State, claim: usize) {
        let machine = machine_of(claim);
        let is_read = state.memory[machine].is_fresh;
        if is_read || self.is_about_to_delete(state.pending[machine], claim) {
            *state.disk(claim) |= disk::RACED;
        }
    }

    fn squat(&mut self, state: &mut State, slot: usize) {
        let machine = MACHINES[machine_of(slot)];
        let body = if is_claim(slot) {
            let disk = DISKS[slot % PER_MACHINE - CLAIM];
            json!({
                "metadata": { "name": format!("{machine}-{disk}"), "namespace": "default",
                    "finalizers": ["kubernetes.io/pvc-protection"],
                    "labels": { labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: machine } },
                "spec": { "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
                    "volumeMode": "Filesystem", "resources": { "requests": { "storage": "20Gi" } } },
                "status": { "phase": "Bound" },
            })
        } else {
            self.note_race(state, base(machine_of(slot)) + CLAIM);
            virtual_machine(machine, &format!("{machine}-root"))
        };
        self.create(state, slot, body, Uid::USER);
    }
}

fn data_disk() -> Value {
    json!({ "name": "data", "size": "10Gi" })
}

/// Someone's VirtualMachine.
fn virtual_machine(name: &str, claim: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default",
            "finalizers": ["kubevirt.io/virtualMachineControllerFinalize"] },
        "spec": { "runStrategy": "Halted", "template": { "spec": {
            "domain": { "memory": { "guest": "1Gi" } },
            "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }],
        } } },
    })
}

fn remove(entries: &mut Value, name: &str) {
    if let Some(entries) = entries.as_object_mut() {
        entries.remove(name);
    }
}
