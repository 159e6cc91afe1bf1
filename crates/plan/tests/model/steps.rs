//! Steps of a plan as requests to the API server.

use api::labels;
use plan::machine::{Action, Kind, MetadataChange, Object};
use serde_json::{Value, json};

use crate::{
    model::Model,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, DISKS, Edit, Facts, Finalizer, INSTANCE, MACHINES, OTHER_VM,
        PER_MACHINE, Uid, VM, base,
    },
    server::Propagation,
    state::State,
};

/// Result of a step.
pub(crate) enum Answer {
    /// The current object in a slot.
    Known(usize),
    /// Who refers to claims.
    Referrers,
    /// A recorded claim does not exist.
    ClaimLost(usize, Uid),
    /// No claim or DataVolume of the Machine is in a slot.
    Absent(usize),
    Nothing,
}

/// A step that the API server refused.
pub(crate) struct Refused;

impl Model {
    pub(crate) fn carry_out(
        &mut self,
        state: &mut State,
        owner: Uid,
        step: u32,
    ) -> Result<Answer, Refused> {
        let action = self.plans.steps[step as usize].0.clone();
        let machine = usize::from(owner.slot);
        match action {
            Action::AddFinalizer => {
                let facts = self.same(state, machine, &owner.text())?;
                if facts.is_deleting {
                    return Err(Refused);
                }
                self.edit(state, machine, Edit::Add(Finalizer::Cleanup), |object| {
                    object["metadata"]["finalizers"] = json!([labels::FINALIZER]);
                });
                Ok(Answer::Known(machine))
            }
            Action::RemoveFinalizer => {
                if !self
                    .same(state, machine, &owner.text())?
                    .has(Finalizer::Cleanup)
                {
                    return Err(Refused);
                }
                self.release(state, machine, Finalizer::Cleanup);
                Ok(Answer::Known(machine))
            }
            Action::Create(object) => self.create_object(state, owner, &object, step),
            Action::Recreate(object) => {
                let is_alive = self.same(state, machine, &owner.text());
                if !is_alive.is_ok_and(|facts| !facts.is_deleting) {
                    self.learn(state, machine, state.objects[machine]);
                    return Err(Refused);
                }
                self.create_object(state, owner, &object, step)
            }
            Action::Apply { object, uid, .. } => {
                self.apply_object(state, owner, &object, &uid, step)
            }
            Action::RestoreOwner { object, uid, .. } => {
                let is_alive = self.same(state, machine, &owner.text());
                if !is_alive.is_ok_and(|facts| !facts.is_deleting) {
                    self.learn(state, machine, state.objects[machine]);
                    return Err(Refused);
                }
                self.apply_object(state, owner, &object, &uid, step)
            }
            Action::ChangeMetadata {
                kind,
                name,
                uid,
                change,
            } => {
                let slot = slot_of(kind, &name).unwrap();
                self.same(state, slot, &uid)?;
                let version = state.objects[slot].to_string();
                let desired = change
                    .owners
                    .as_ref()
                    .and_then(|(_, version)| version.as_ref());
                if desired.is_some_and(|desired| *desired != version) {
                    return Err(Refused);
                }
                self.check_write(state, owner, slot, "changes");
                self.edit(state, slot, Edit::Apply(step), |found| {
                    change_metadata(&mut found["metadata"], change);
                });
                Ok(Answer::Known(slot))
            }
            Action::ObserveReferences => Ok(Answer::Referrers),
            Action::Delete {
                kind,
                name,
                uid,
                resource_version,
            } => {
                let slot = slot_of(kind, &name).unwrap();
                self.delete_object(state, owner, slot, (&uid, resource_version))
            }
            Action::RecoverClaim { name, uid, change } => {
                Ok(self.recover_claim(state, owner, (&name, &uid), change, step))
            }
            Action::ObserveDisk { kind, name } => {
                let slot = slot_of(kind, &name).unwrap();
                Ok(if self.is_made_for(state, slot, owner) {
                    Answer::Known(slot)
                } else {
                    Answer::Absent(slot)
                })
            }
            // The model has no NetworkConfigurations, one cluster, and no annotation that asks for an
            // adoption.
            Action::ApplyNetwork { .. }
            | Action::Place { .. }
            | Action::ReplaceFormerFinalizer
            | Action::LabelAdopted { .. }
            | Action::WriteSecret(_)
            | Action::DeleteSecret { .. }
            | Action::Pause { .. }
            | Action::Unpause { .. } => Ok(Answer::Nothing),
        }
    }

    fn delete_object(
        &mut self,
        state: &mut State,
        owner: Uid,
        slot: usize,
        (uid, resource_version): (&str, Option<String>),
    ) -> Result<Answer, Refused> {
        if state.objects[slot] == ABSENT {
            return Ok(Answer::Known(slot));
        }
        self.same(state, slot, uid)?;
        let version = state.objects[slot].to_string();
        if resource_version.is_some_and(|desired| desired != version) {
            return Err(Refused);
        }
        self.check_deletion(state, owner, slot);
        self.delete(state, slot, Propagation::Background);
        Ok(Answer::Known(slot))
    }

    fn recover_claim(
        &mut self,
        state: &mut State,
        owner: Uid,
        (name, uid): (&str, &str),
        change: MetadataChange,
        step: u32,
    ) -> Answer {
        let slot = slot_of(Kind::PersistentVolumeClaim, name).unwrap();
        let Ok(found) = self.same(state, slot, uid) else {
            let recorded = Uid::parse(uid).unwrap();
            return Answer::ClaimLost(slot % PER_MACHINE - CLAIM, recorded);
        };
        if !found.is_managed || found.machine.is_none() {
            self.check_write(state, owner, slot, "labels");
            self.edit(state, slot, Edit::Apply(step), |found| {
                change_metadata(&mut found["metadata"], change);
            });
        }
        Answer::Known(slot)
    }

    fn apply_object(
        &mut self,
        state: &mut State,
        owner: Uid,
        object: &Object,
        uid: &str,
        step: u32,
    ) -> Result<Answer, Refused> {
        let slot = slot_of(object.kind(), object.name()).unwrap();
        self.same(state, slot, uid)?;
        self.check_write(state, owner, slot, "changes");
        let body = serde_json::to_value(object).unwrap();
        let is_made_by_cdi = self.is_made_by_cdi(state, slot);
        self.edit(state, slot, Edit::Apply(step), |found| {
            apply(found, &body, is_made_by_cdi);
        });
        Self::note_adoption(state, owner, slot);
        Ok(Answer::Known(slot))
    }

    pub(crate) fn same(&self, state: &State, slot: usize, uid: &str) -> Result<&Facts, Refused> {
        let found = self.at(state, slot);
        found.filter(|facts| facts.uid.text() == uid).ok_or(Refused)
    }

    fn is_made_by_cdi(&self, state: &State, slot: usize) -> bool {
        let facts = self.at(state, slot).unwrap();
        let controller = facts.controller();
        controller.is_some_and(|uid| usize::from(uid.slot) % 8 >= DATA_VOLUME)
    }

    /// Whether the object in a slot was created for a Machine.
    fn is_made_for(&self, state: &State, slot: usize, owner: Uid) -> bool {
        let noted = &self.objects.value(state.objects[slot])["metadata"]["annotations"];
        self.at(state, slot).is_some_and(|found| {
            let is_owned = found.owners.iter().any(|it| it.uid == owner);
            is_owned || noted[labels::MACHINE_UID] == owner.text()
        })
    }

    /// A POST. If the name exists, the object is ours if it was created for this Machine.
    fn create_object(
        &mut self,
        state: &mut State,
        owner: Uid,
        object: &Object,
        step: u32,
    ) -> Result<Answer, Refused> {
        let slot = slot_of(object.kind(), object.name()).unwrap();
        let mut body = serde_json::to_value(object).unwrap();
        if let Some(found) = self.at(state, slot) {
            if !self.is_made_for(state, slot, owner) {
                return Err(Refused);
            }
            if !found.is_managed || found.machine.is_none() {
                self.edit(state, slot, Edit::Label(step), |found| {
                    let desired = body["metadata"]["labels"].as_object().cloned();
                    for (name, value) in desired.unwrap_or_default() {
                        found["metadata"]["labels"][name] = value;
                    }
                });
            }
            return Ok(Answer::Known(slot));
        }
        self.check_creation(state, owner, slot, &body);
        let finalizer = match object.kind() {
            Kind::PersistentVolumeClaim => {
                body["status"] = json!({ "phase": "Pending" });
                Some(Finalizer::ClaimProtection)
            }
            Kind::VirtualMachine => Some(Finalizer::KubeVirt),
            _ => None,
        };
        if let Some(finalizer) = finalizer {
            body["metadata"]["finalizers"] = json!([finalizer.name()]);
        }
        self.create(state, slot, body, owner.incarnation);
        Ok(Answer::Known(slot))
    }
}

/// Server-side apply. We own labels, annotations, owners and spec of what we created, and of what CDI
/// created only the fields that we set.
fn apply(found: &mut Value, body: &Value, is_made_by_cdi: bool) {
    for field in ["labels", "annotations", "ownerReferences"] {
        let given = &body["metadata"][field];
        if !is_made_by_cdi {
            found["metadata"][field] = given.clone();
        } else if let Some(given) = given.as_object() {
            for (name, value) in given {
                found["metadata"][field][name] = value.clone();
            }
        }
    }
    if !is_made_by_cdi {
        found["spec"] = body["spec"].clone();
    }
}

/// A merge patch of metadata.
fn change_metadata(metadata: &mut Value, change: MetadataChange) {
    for (field, entries) in [
        ("labels", change.labels),
        ("annotations", change.annotations),
    ] {
        for (name, value) in entries {
            match value {
                Some(value) => metadata[field][name] = value.into(),
                None => {
                    if let Some(entries) = metadata[field].as_object_mut() {
                        entries.remove(&name);
                    }
                }
            }
        }
    }
    if let Some((owners, _)) = change.owners {
        metadata["ownerReferences"] = json!(owners);
    }
}

/// Bit of a claim or DataVolume among those of its Machine; none for other kinds.
pub(crate) fn disk_bit(slot: usize) -> u8 {
    let kind = slot % PER_MACHINE;
    if (CLAIM..OTHER_VM).contains(&kind) {
        1 << (kind - CLAIM)
    } else {
        0
    }
}

/// Slot of an object that the operator writes to.
pub(crate) fn slot_of(kind: Kind, name: &str) -> Option<usize> {
    let disk = |first: usize| {
        (0..MACHINES.len()).find_map(|machine| {
            let disk = name.strip_prefix(MACHINES[machine])?.strip_prefix('-')?;
            let disk = DISKS.iter().position(|known| *known == disk)?;
            Some(base(machine) + first + disk)
        })
    };
    let named = |offset: usize| {
        let machine = MACHINES.iter().position(|known| *known == name)?;
        Some(base(machine) + offset)
    };
    match kind {
        Kind::PersistentVolumeClaim => disk(CLAIM),
        Kind::DataVolume => disk(DATA_VOLUME),
        Kind::VirtualMachine => named(VM),
        Kind::VirtualMachineInstance => named(INSTANCE),
        Kind::NetworkAttachmentDefinition | Kind::NetworkConfiguration => None,
    }
}
