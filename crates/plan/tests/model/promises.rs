//! The promises of docs/reliability.md, as invariants of every move and of every end.

use serde_json::Value;

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, Finalizer, INSTANCE, PER_MACHINE, Uid, VM, base, claims_in,
        describe, machine_of,
    },
    operator::Verdict,
    server::is_claim,
    state::{State, disk, machine},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// A claim that a VirtualMachine or an instance refers to is not deleted.
    InUse,
    /// A claim is deleted only when the policy in force at its removal says so.
    Policy,
    /// Nothing foreign is changed or deleted.
    Foreign,
    /// After `--cascade=orphan` nothing is deleted.
    Orphaned,
    /// No VirtualMachine is created before its disks.
    DisksFirst,
    /// A claim with data that vanished is not replaced by an empty one.
    DataLost,
    /// Once users stop, everything comes to rest.
    Rests,
    /// Once users stop, a Machine is what it asks for, or states a true reason.
    Converges,
    /// Once users stop, a deleted Machine disappears, or reports who uses its disks.
    Terminates,
    /// A deleted Machine leaves no disk that it was to delete.
    CleansUp,
}

/// A broken promise, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) promise: Promise,
    pub(crate) detail: String,
}

impl Model {
    fn breaks(&mut self, promise: Promise, detail: String) {
        self.broken.push(Broken { promise, detail });
    }

    /// Checks the deletion of a claim, or of the DataVolume that is deleted with it.
    pub(crate) fn check_claim_deletion(&mut self, state: &State, slot: usize, by: &str) {
        let excused = disk::DOOMED | disk::CONDEMNED | disk::RACED;
        if state.objects[slot] == ABSENT || state.has(slot, excused) {
            return;
        }
        let claim = describe(slot);
        if let Some(user) = self.users_of(state, slot).first() {
            let detail = format!("{by} deletes {claim}, which {} refers to", describe(*user));
            self.breaks(Promise::InUse, detail);
        }
        if self.wants(state, slot) {
            let detail = format!("{by} deletes {claim}, which its Machine lists");
            self.breaks(Promise::Policy, detail);
        } else if !state.has(slot, disk::DROP) {
            let detail = format!("{by} deletes {claim}, which was to be kept");
            self.breaks(Promise::Policy, detail);
        }
    }

    /// Checks that an object belongs to the Machine, before the operator deletes it.
    pub(crate) fn check_deletion(&mut self, state: &mut State, owner: Uid, slot: usize) {
        self.check_write(state, owner, slot, "deletes");
        let number = machine_of(slot);
        let observed = self.known(state.cache[base(number)]);
        let is_observed =
            observed.is_some_and(|facts| facts.is_deleting && facts.has(Finalizer::Orphan));
        if is_observed && state.ghost.machines[number] & machine::ORPHANED != 0 {
            let detail = format!("the operator deletes {}", describe(slot));
            self.breaks(Promise::Orphaned, detail);
        }
        let kind = slot % PER_MACHINE;
        if is_claim(slot) {
            self.check_claim_deletion(state, slot, "the operator");
        } else if kind >= DATA_VOLUME {
            let claim = slot - DATA_VOLUME + CLAIM;
            self.check_claim_deletion(state, claim, "the operator");
            *state.disk(slot) |= disk::CONDEMNED;
        }
    }

    /// Checks that an object belongs to the Machine, before the operator writes to it.
    pub(crate) fn check_write(&mut self, state: &State, owner: Uid, slot: usize, verb: &str) {
        let facts = self.at(state, slot).unwrap();
        let is_disk = slot % PER_MACHINE >= CLAIM;
        let is_its = if is_claim(slot) {
            state.ghost.owner[machine_of(slot)][slot % PER_MACHINE - CLAIM] == owner.incarnation
        } else {
            facts.uid.made_for == owner.incarnation
        };
        let adopts = self
            .known(state.cache[base(machine_of(slot))])
            .is_some_and(|machine| machine.adopts);
        let may_write = is_its || is_disk && adopts;
        if !may_write {
            let detail = format!("the operator {verb} {}", describe(slot));
            self.breaks(Promise::Foreign, detail);
        }
    }

    /// A claim that the operator wrote to with the right to adopt belongs to the Machine from then on.
    pub(crate) fn note_adoption(state: &mut State, owner: Uid, slot: usize) {
        if is_claim(slot) {
            *state.owner(slot) = owner.incarnation;
        }
    }

    /// Checks what the operator is about to create.
    pub(crate) fn check_creation(&mut self, state: &State, owner: Uid, slot: usize, body: &Value) {
        let is_current = |model: &Self| {
            let machine = model.at(state, usize::from(owner.slot));
            machine.is_some_and(|machine| machine.uid == owner)
        };
        let kind = slot % PER_MACHINE;
        if kind >= CLAIM && state.has(slot, disk::LOST) && is_current(self) {
            let detail = format!("the operator recreates {}, empty", describe(slot));
            self.breaks(Promise::DataLost, detail);
        }
        if kind == VM {
            let text = body.to_string();
            let machine = self.at(state, base(machine_of(slot)));
            let desired = machine.map_or(0, |facts| self.desired(facts, machine_of(slot)));
            for claim in claims_in(desired) {
                let name = describe(claim);
                let name = name.rsplit(' ').next().unwrap_or_default();
                let volume = claim - CLAIM + DATA_VOLUME;
                let is_there = state.objects[claim] != ABSENT || state.objects[volume] != ABSENT;
                let by_user = state.has(claim, disk::GONE_BY_USER | disk::LOST);
                if text.contains(&format!("{name:?}")) && !is_there && !by_user {
                    let detail = format!("the operator creates a VirtualMachine without {name}");
                    self.breaks(Promise::DisksFirst, detail);
                }
            }
        }
    }

    /// Checks how a state ends once users stop.
    pub(crate) fn check_end(&mut self, state: &State) {
        for machine in 0..self.config.machines {
            let Some(facts) = self.at(state, base(machine)) else {
                self.check_leftovers(state, machine);
                continue;
            };
            let is_deleting = facts.is_deleting;
            let verdict = self.verdict(state, machine);
            if is_deleting {
                self.check_waiting(state, machine, &verdict);
            } else {
                self.check_convergence(state, machine, &verdict);
            }
        }
    }

    fn check_waiting(&mut self, state: &State, machine: usize, verdict: &Verdict) {
        let facts = self.at(state, base(machine)).unwrap();
        let is_ours = facts.has(Finalizer::Cleanup);
        let incarnation = facts.uid.incarnation;
        let mut claims = (0..2).map(|disk| base(machine) + CLAIM + disk);
        let is_used = claims.any(|claim| {
            let is_its = state.ghost.owner[machine][(claim - CLAIM) % 2] == incarnation;
            is_its && state.objects[claim] != ABSENT && !self.users_of(state, claim).is_empty()
        });
        if is_ours && !is_used {
            let detail = format!("{}: {}", verdict.reason, verdict.message);
            self.breaks(Promise::Terminates, detail);
        }
    }

    fn check_convergence(&mut self, state: &State, machine: usize, verdict: &Verdict) {
        let facts = self.at(state, base(machine)).unwrap();
        let desired = self.desired(facts, machine);
        let uid = facts.uid;
        let vm = self.at(state, base(machine) + VM);
        let vm_is_right = vm.is_some_and(|vm| {
            vm.uid.made_for == uid.incarnation
                && vm.controller() == Some(uid)
                && !vm.is_deleting
                && vm.mounts == desired
        });
        let instance = self.at(state, base(machine) + INSTANCE);
        let runs = instance
            .is_some_and(|instance| !instance.is_deleting && instance.mounts & desired == desired);
        let is_there = |claim: usize| {
            let facts = self.at(state, claim);
            facts.is_some_and(|facts| !facts.is_deleting)
        };
        let disks_are_right = claims_in(desired).all(is_there);
        let is_right = vm_is_right && runs && disks_are_right;
        // Without the record of its claims, nothing would detect their loss.
        let is_recorded = claims_in(desired).all(|claim| {
            let recorded = facts.recorded[claim % PER_MACHINE - CLAIM];
            let is_recorded =
                recorded.is_some() && recorded == self.at(state, claim).map(|claim| claim.uid);
            // CDI gives a claim the labels that its DataVolume has at that moment.
            is_recorded || state.has(claim, disk::STRIPPED)
        });
        let is_doomed = claims_in(desired).any(|claim| state.has(claim, disk::DOOMED));
        let is_foreign = !verdict.is_ready && self.has_foreign(state, machine);
        let is_true = match verdict.reason.as_str() {
            "ForeignObject" if is_foreign => true,
            // Lost, or terminating, as its user requested.
            "DataLost" => claims_in(desired).any(|claim| {
                state.has(claim, disk::DOOMED)
                    || self.is_lost(state, base(machine), claim % PER_MACHINE - CLAIM)
            }),
            // Without its label, no cache shows the instance until it is started again.
            _ if is_right => {
                verdict.is_ready && is_recorded || instance.is_some_and(|it| !it.is_managed)
            }
            // A claim that its user deleted disappears once the guest stops.
            _ if runs && is_doomed => true,
            // CDI does not fill a claim that is not its own.
            "Creating" => claims_in(desired).any(|claim| {
                let volume = self.at(state, claim - CLAIM + DATA_VOLUME);
                volume.is_some_and(|volume| !volume.is_filled) && verdict.message.contains("-root")
            }),
            _ => false,
        };
        if !is_true {
            let detail = format!(
                "the machine is {}, and its status says {}: {}",
                if is_right && is_recorded {
                    "as it should be"
                } else if is_right {
                    "as it should be, but for status.disks"
                } else {
                    "not as it should be"
                },
                verdict.reason,
                verdict.message
            );
            self.breaks(Promise::Converges, detail);
        }
    }

    /// Whether a foreign object has a name that the Machine needs.
    fn has_foreign(&self, state: &State, machine: usize) -> bool {
        let uid = self.at(state, base(machine)).unwrap().uid;
        let mut slots = (VM..DATA_VOLUME + 2).map(|slot| base(machine) + slot);
        slots.any(|slot| {
            self.at(state, slot).is_some_and(|facts| {
                let is_released = slot % PER_MACHINE == VM && facts.controller() != Some(uid);
                let is_stripped = slot % PER_MACHINE >= CLAIM && state.has(slot, disk::STRIPPED);
                !self.is_own(state, slot) || is_released || is_stripped
            })
        })
    }

    fn check_leftovers(&mut self, state: &State, machine: usize) {
        if state.ghost.machines[machine] & machine::ABANDONED != 0 {
            return;
        }
        for claim in [CLAIM, CLAIM + 1].map(|slot| base(machine) + slot) {
            let is_left = self
                .at(state, claim)
                .is_some_and(|facts| !facts.is_deleting && facts.uid.made_for != Uid::USER);
            let kept = disk::STRIPPED | disk::RETAINED | disk::DETACHED | disk::IN_DOUBT;
            let is_excused = state.has(claim, kept) || !self.users_of(state, claim).is_empty();
            if is_left && state.has(claim, disk::DROP) && !is_excused {
                let detail = format!("{} is left", describe(claim));
                self.breaks(Promise::CleansUp, detail);
            }
        }
    }
}
