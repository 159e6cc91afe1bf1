//! Environment of the model: KubeVirt, CDI and the storage.

use serde_json::{Value, json};

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, DISKS, Edit, Finalizer, INSTANCE, MACHINES, OTHER_VM, SLOTS,
        Uid, VM, base, claim_bit, claims_in, data_bits,
    },
    server::Propagation,
    state::{State, disk},
};

/// An action of KubeVirt, CDI or the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    AdoptInstance,
    StopInstance,
    ReleaseVm,
    EndInstance,
    Plug,
    Bind(usize),
    Unprotect(usize),
    Populate(usize),
    Fill(usize),
}

impl Model {
    /// Possible next actions of the environment for a Machine.
    pub(crate) fn environment(&self, state: &State, machine: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        self.kubevirt(state, machine, &mut acts);
        for (disk, _) in DISKS.iter().enumerate() {
            let claim = base(machine) + CLAIM + disk;
            if let Some(facts) = self.at(state, claim) {
                if !facts.is_bound && !facts.is_deleting {
                    acts.push(Act::Bind(claim));
                }
                let is_mounted = self.instances_mounting(state, claim);
                if facts.is_deleting && facts.has(Finalizer::ClaimProtection) && !is_mounted {
                    acts.push(Act::Unprotect(claim));
                }
            }
            let volume = base(machine) + DATA_VOLUME + disk;
            if let Some(facts) = self.at(state, volume)
                && !facts.is_deleting
            {
                match self.at(state, claim) {
                    // Also the claim of a filled volume, if someone deleted it.
                    None => acts.push(Act::Populate(volume)),
                    Some(found)
                        if !facts.is_filled
                            && found.is_bound
                            && found.controller() == Some(facts.uid) =>
                    {
                        acts.push(Act::Fill(volume));
                    }
                    Some(_) => {}
                }
            }
        }
        acts
    }

    fn kubevirt(&self, state: &State, machine: usize, acts: &mut Vec<Act>) {
        let vm = self.at(state, base(machine) + VM);
        let instance = self.at(state, base(machine) + INSTANCE);
        if instance
            .is_some_and(|instance| instance.is_deleting && instance.has(Finalizer::KubeVirt))
        {
            acts.push(Act::EndInstance);
        }
        let Some(vm) = vm else {
            return;
        };
        let is_own = instance.is_some_and(|instance| instance.controller() == Some(vm.uid));
        let goes_on = instance.is_some_and(|instance| !instance.is_deleting);
        if vm.is_deleting {
            if !vm.has(Finalizer::KubeVirt) {
                return;
            }
            if is_own && !vm.has(Finalizer::Orphan) {
                acts.extend(goes_on.then_some(Act::StopInstance));
            } else {
                acts.push(Act::ReleaseVm);
            }
            return;
        }
        match instance {
            None if !vm.is_halted => {
                let is_there = |slot: usize| {
                    let claim = self.at(state, slot);
                    let volume = self.at(state, slot - CLAIM + DATA_VOLUME);
                    claim.is_some_and(|claim| claim.is_bound && !claim.is_deleting)
                        && volume.is_none_or(|volume| volume.is_filled)
                };
                acts.extend(claims_in(vm.mounts).all(is_there).then_some(Act::Start));
            }
            Some(instance) if instance.controller().is_none() => {
                acts.extend(goes_on.then_some(Act::AdoptInstance));
            }
            Some(_) if !is_own => {}
            Some(_) if vm.is_halted => acts.extend(goes_on.then_some(Act::StopInstance)),
            Some(instance) if goes_on => {
                let plugged = Self::plugged(state, vm.mounts, vm.hotplug, instance.mounts);
                acts.extend((plugged != instance.mounts).then_some(Act::Plug));
            }
            None | Some(_) => {}
        }
    }

    /// Claims of a running instance after its VirtualMachine changed: hot-pluggable ones are plugged in and
    /// out, the others stay until a restart.
    fn plugged(state: &State, desired: u8, hotplug: u8, has: u8) -> u8 {
        let added =
            claims_in(desired & hotplug & !has).filter(|slot| state.objects[*slot] != ABSENT);
        let added = added.fold(0, |bits, slot| bits | claim_bit(slot));
        // Only hot-plugged disks can be unplugged; here that is the data disk.
        let unplugged = has & !desired & data_bits();
        (has | added) & !unplugged
    }

    fn instances_mounting(&self, state: &State, claim: usize) -> bool {
        let mut machines = 0..MACHINES.len();
        machines.any(|machine| {
            let instance = self.at(state, base(machine) + INSTANCE);
            instance.is_some_and(|instance| instance.mounts & claim_bit(claim) != 0)
        })
    }

    /// VirtualMachines and instances that refer to a claim.
    pub(crate) fn users_of(&self, state: &State, claim: usize) -> Vec<usize> {
        let slots = (0..SLOTS).filter(|slot| matches!(slot % 8, VM | INSTANCE | OTHER_VM));
        slots
            .filter(|slot| {
                let facts = self.at(state, *slot);
                facts.is_some_and(|facts| facts.mounts & claim_bit(claim) != 0)
            })
            .collect()
    }

    pub(crate) fn act(&mut self, state: &mut State, machine: usize, act: Act) {
        let (vm, instance) = (base(machine) + VM, base(machine) + INSTANCE);
        match act {
            Act::Start => self.start_instance(state, machine),
            Act::AdoptInstance => {
                let uid = self.at(state, vm).unwrap().uid;
                self.edit(state, instance, Edit::Own(uid), |object| {
                    object["metadata"]["ownerReferences"] =
                        json!([owner("VirtualMachine", MACHINES[machine], uid)]);
                });
            }
            Act::StopInstance => self.delete(state, instance, Propagation::Background),
            Act::ReleaseVm => self.release(state, vm, Finalizer::KubeVirt),
            Act::EndInstance => self.release(state, instance, Finalizer::KubeVirt),
            Act::Plug => {
                let desired = self.at(state, vm).unwrap();
                let has = self.at(state, instance).unwrap().mounts;
                let plugged = Self::plugged(state, desired.mounts, desired.hotplug, has);
                self.edit(state, instance, Edit::Mount(plugged), |object| {
                    mount(object, plugged);
                });
                fill(state, plugged);
            }
            Act::Bind(claim) => self.edit(state, claim, Edit::Bind, |object| {
                object["status"]["phase"] = "Bound".into();
            }),
            Act::Unprotect(claim) => self.release(state, claim, Finalizer::ClaimProtection),
            Act::Populate(volume) => self.populate(state, volume),
            Act::Fill(volume) => {
                self.edit(state, volume, Edit::Fill, |object| {
                    object["status"]["phase"] = "Succeeded".into();
                });
                fill(state, claim_bit(volume - DATA_VOLUME + CLAIM));
            }
        }
    }

    fn start_instance(&mut self, state: &mut State, machine: usize) {
        let vm = state.objects[base(machine) + VM];
        let facts = self.objects.facts(vm);
        let (uid, mounts) = (facts.uid, facts.mounts);
        let template = &self.objects.value(vm)["spec"]["template"]["metadata"];
        let mut instance = json!({
            "metadata": {
                "name": MACHINES[machine], "namespace": "default",
                "labels": template["labels"], "annotations": template["annotations"],
                "finalizers": [Finalizer::KubeVirt.name()],
                "ownerReferences": [owner("VirtualMachine", MACHINES[machine], uid)],
            },
            "spec": {},
            "status": { "phase": "Running", "nodeName": "node-1",
                "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        mount(&mut instance, mounts);
        self.create(state, base(machine) + INSTANCE, instance, uid.made_for);
        fill(state, mounts);
    }

    fn populate(&mut self, state: &mut State, slot: usize) {
        let facts = self.at(state, slot).unwrap();
        let uid = facts.uid;
        let volume = self.objects.value(state.objects[slot]);
        let metadata = &volume["metadata"];
        let claim = json!({
            "metadata": {
                "name": metadata["name"], "namespace": "default",
                "labels": metadata["labels"], "annotations": metadata["annotations"],
                "finalizers": [Finalizer::ClaimProtection.name()],
                "ownerReferences": [owner("DataVolume", metadata["name"].as_str().unwrap(), uid)],
            },
            "spec": volume["spec"]["storage"],
            "status": { "phase": "Pending" },
        });
        self.create(state, slot - DATA_VOLUME + CLAIM, claim, uid.made_for);
        self.edit(state, slot, Edit::Empty, |object| {
            object["status"] = Value::Null;
        });
    }
}

fn fill(state: &mut State, mounts: u8) {
    for claim in claims_in(mounts)
        .filter(|slot| state.objects[*slot] != ABSENT)
        .collect::<Vec<_>>()
    {
        *state.disk(claim) |= disk::DATA;
    }
}

fn owner(kind: &str, name: &str, uid: Uid) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid.text(),
        "controller": true, "blockOwnerDeletion": true })
}

fn mount(instance: &mut Value, mounts: u8) {
    let disks: Vec<_> = claims_in(mounts)
        .map(|slot| DISKS[slot % 8 - CLAIM])
        .collect();
    let name = instance["metadata"]["name"].clone();
    let name = name.as_str().unwrap();
    let volumes = disks.iter().map(|disk| {
        json!({ "name": disk, "persistentVolumeClaim": { "claimName": format!("{name}-{disk}") } })
    });
    instance["spec"]["volumes"] = volumes.collect();
    let plugged = disks.iter().map(|disk| json!({ "name": disk }));
    instance["status"]["volumeStatus"] = plugged.collect();
}
