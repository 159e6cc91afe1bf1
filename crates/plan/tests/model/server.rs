//! API server and garbage collector.
//!
//! Independent of `plan::simulation` on purpose: the model checker is the oracle of the planner and must
//! not share a misconception with the previews, it has the garbage collector, and its objects are interned
//! numbers.

use serde_json::{Value, json};

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, Edit, Facts, Finalizer, Id, MACHINE, PER_MACHINE, Policy,
        SLOTS, TIME, Uid, VM, base, claim_bit, machine_of,
    },
    state::{State, disk, machine},
};

/// `propagationPolicy` of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Next write of the garbage collector about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collection {
    /// Deletes it, because all its owners are gone.
    Delete(Propagation),
    /// Removes its finalizer.
    Release(Finalizer),
    /// Removes the owner reference to it from this dependent.
    Orphan(usize),
}

/// Whether a slot is one of a claim.
pub(crate) fn is_claim(slot: usize) -> bool {
    (CLAIM..DATA_VOLUME).contains(&(slot % PER_MACHINE))
}

impl Model {
    /// Facts of the object in a slot, if any.
    pub(crate) fn at(&self, state: &State, slot: usize) -> Option<&Facts> {
        self.known(state.objects[slot])
    }

    pub(crate) fn known(&self, id: Id) -> Option<&Facts> {
        (id != ABSENT).then(|| self.objects.facts(id))
    }

    pub(crate) fn edit(
        &mut self,
        state: &mut State,
        slot: usize,
        edit: Edit,
        change: impl FnOnce(&mut Value),
    ) {
        state.objects[slot] = self.objects.edit(state.objects[slot], edit, change);
    }

    /// Lowest uid of a slot that nothing mentions: states that differ in uids alone are one state.
    pub(crate) fn next_uid(&self, state: &State, slot: usize, made_for: u8) -> Uid {
        let ids = state.objects.iter().chain(&state.cache);
        let objects = ids.filter_map(|id| self.known(*id).map(|facts| facts.mentions));
        let plans = state.pending.iter().map(|pending| self.mentions(*pending));
        let answers = state
            .memory
            .iter()
            .map(|memory| self.mentions_in_memory(memory));
        let mut used = objects
            .chain(plans)
            .chain(answers)
            .fold(0, |all, bits| all | bits);
        if slot % PER_MACHINE == MACHINE {
            let owners = state.ghost.owner[machine_of(slot)];
            used |= owners.iter().fold(0, |all, owner| {
                all | 1_u128 << (slot * 8 + usize::from(*owner))
            });
        }
        let free =
            |incarnation: &u8| used & (1_u128 << (slot * 8 + usize::from(*incarnation))) == 0;
        Uid {
            slot: u8::try_from(slot).unwrap(),
            incarnation: (0..8).find(free).unwrap(),
            made_for,
        }
    }

    pub(crate) fn create(
        &mut self,
        state: &mut State,
        slot: usize,
        mut body: Value,
        made_for: u8,
    ) -> Uid {
        let uid = self.next_uid(state, slot, made_for);
        body["metadata"]["uid"] = uid.text().into();
        body["metadata"]["creationTimestamp"] = TIME.into();
        crate::objects::prune(&mut body);
        state.objects[slot] = self.objects.intern(body);
        if is_claim(slot) {
            // A claim that CDI creates has the labels and annotations of its DataVolume.
            let stripped = *state.disk(slot) & disk::STRIPPED;
            *state.disk(slot) &= !disk::OF_CLAIM;
            if state.objects[slot - CLAIM + DATA_VOLUME] != ABSENT {
                *state.disk(slot) |= stripped;
            }
            *state.owner(slot) = made_for;
        }
        uid
    }

    pub(crate) fn delete(&mut self, state: &mut State, slot: usize, propagation: Propagation) {
        let finalizer = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(Finalizer::Foreground),
            Propagation::Orphan => Some(Finalizer::Orphan),
        };
        if let Some(finalizer) = finalizer {
            self.edit(state, slot, Edit::Add(finalizer), |object| {
                let finalizers = &mut object["metadata"]["finalizers"];
                if finalizers.is_null() {
                    *finalizers = json!([]);
                }
                let list = finalizers.as_array_mut().unwrap();
                if !list.contains(&finalizer.name().into()) {
                    list.push(finalizer.name().into());
                }
            });
        }
        if self.at(state, slot).unwrap().finalizers.is_empty() {
            self.remove(state, slot);
        } else {
            self.edit(state, slot, Edit::Delete, |object| {
                object["metadata"]["deletionTimestamp"] = TIME.into();
            });
        }
    }

    /// Removes a finalizer, and the object if that was the last one.
    pub(crate) fn release(&mut self, state: &mut State, slot: usize, finalizer: Finalizer) {
        self.edit(state, slot, Edit::Remove(finalizer), |object| {
            let finalizers = object["metadata"]["finalizers"].as_array_mut();
            finalizers.unwrap().retain(|it| it != finalizer.name());
        });
        self.remove_if_released(state, slot);
    }

    pub(crate) fn remove_if_released(&mut self, state: &mut State, slot: usize) {
        let facts = self.at(state, slot).unwrap();
        if facts.is_deleting && facts.finalizers.is_empty() {
            self.remove(state, slot);
        }
    }

    fn remove(&mut self, state: &mut State, slot: usize) {
        if is_claim(slot) {
            let flags = *state.disk(slot);
            let is_wanted = self.wants(state, slot) && flags & disk::DROP == 0;
            if is_wanted && self.is_recorded(state, slot) {
                *state.disk(slot) |= disk::LOST;
            }
            if flags & disk::DOOMED != 0 {
                *state.disk(slot) |= disk::GONE_BY_USER;
            }
            *state.disk(slot) &= !disk::OF_CLAIM;
            *state.owner(slot) = 0;
        }
        if slot % PER_MACHINE == MACHINE {
            for flags in &mut state.ghost.disks[machine_of(slot)] {
                *flags &= !(disk::LOST | disk::GONE_BY_USER);
            }
        }
        state.objects[slot] = ABSENT;
    }

    /// Whether `status.disks` records the claim in a slot, and the operator knows that. A record whose
    /// answer got lost is unknown until a watch shows it.
    fn is_recorded(&self, state: &State, slot: usize) -> bool {
        let machine = base(machine_of(slot));
        let uid = self.at(state, slot).map(|claim| claim.uid);
        [state.objects[machine], state.cache[machine]]
            .into_iter()
            .all(|id| {
                let facts = self.known(id);
                facts.is_some_and(|facts| facts.recorded[slot % PER_MACHINE - CLAIM] == uid)
            })
    }

    /// Whether the Machine that a claim belongs to exists, is not being deleted, and has its disk.
    pub(crate) fn wants(&self, state: &State, slot: usize) -> bool {
        let machine = machine_of(slot);
        let owner = state.ghost.owner[machine][slot % PER_MACHINE - CLAIM];
        self.at(state, base(machine)).is_some_and(|facts| {
            facts.uid.incarnation == owner
                && !facts.is_deleting
                && self.desired(facts, machine) & claim_bit(slot) != 0
        })
    }

    fn dependents(&self, state: &State, uid: Uid) -> impl Iterator<Item = (usize, bool)> {
        let slots = 0..SLOTS;
        slots.filter_map(move |slot| {
            let owners = &self.at(state, slot)?.owners;
            let owner = owners.iter().find(|owner| owner.uid == uid)?;
            Some((slot, owner.blocks))
        })
    }

    /// Next action of the garbage collector on the object in a slot.
    pub(crate) fn collection(&self, state: &State, slot: usize) -> Option<Collection> {
        let facts = self.at(state, slot)?;
        if facts.is_deleting && facts.has(Finalizer::Orphan) {
            let dependent = self.dependents(state, facts.uid).next();
            return Some(match dependent {
                Some((dependent, _)) => Collection::Orphan(dependent),
                None => Collection::Release(Finalizer::Orphan),
            });
        }
        if facts.is_deleting {
            let is_blocked = self.dependents(state, facts.uid).any(|(_, blocks)| blocks);
            let is_due = facts.has(Finalizer::Foreground) && !is_blocked;
            return is_due.then_some(Collection::Release(Finalizer::Foreground));
        }
        if facts.owners.is_empty() {
            return None;
        }
        let mut waits = false;
        for owner in &facts.owners {
            let found = self.at(state, usize::from(owner.uid.slot));
            match found.filter(|found| found.uid == owner.uid) {
                None => {}
                Some(found) if found.is_deleting && found.has(Finalizer::Foreground) => {
                    waits = true;
                }
                Some(_) => return None,
            }
        }
        let has_dependents = self.dependents(state, facts.uid).next().is_some();
        Some(Collection::Delete(if waits && has_dependents {
            Propagation::Foreground
        } else {
            Propagation::Background
        }))
    }

    /// Without a VirtualMachine that lost its owner, nothing shows a restarted operator that a deletion
    /// was orphaning: the policy decides.
    pub(crate) fn forget_orphaning(&self, state: &mut State, slot: usize) {
        let number = machine_of(slot);
        let retains = self
            .at(state, slot)
            .is_some_and(|facts| facts.policy == Policy::Retain);
        let is_observed = state.memory[number].is_orphaned;
        let was_orphaned = state.ghost.machines[number] & machine::ORPHANED != 0;
        let is_forgotten = was_orphaned && !is_observed && state.objects[slot + VM] == ABSENT;
        if is_forgotten && !retains {
            for flags in &mut state.ghost.disks[number] {
                if *flags & disk::DETACHED == 0 {
                    *flags |= disk::DROP;
                }
            }
        }
    }

    pub(crate) fn collect(&mut self, state: &mut State, slot: usize) {
        match self.collection(state, slot) {
            None => {}
            Some(Collection::Release(finalizer)) => {
                if slot % PER_MACHINE == MACHINE && finalizer == Finalizer::Orphan {
                    self.forget_orphaning(state, slot);
                }
                self.release(state, slot, finalizer);
            }
            Some(Collection::Orphan(dependent)) => {
                let uid = self.at(state, slot).unwrap().uid;
                self.edit(state, dependent, Edit::StripOwner(uid), |object| {
                    let owners = object["metadata"]["ownerReferences"].as_array_mut();
                    owners.unwrap().retain(|owner| owner["uid"] != uid.text());
                });
            }
            Some(Collection::Delete(propagation)) => {
                if is_claim(slot) {
                    self.check_claim_deletion(state, slot, "the garbage collector");
                }
                self.delete(state, slot, propagation);
            }
        }
    }
}
