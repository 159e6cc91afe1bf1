//! Review of the VirtualMachine's name.

use api::{Machine, ObjectMeta, labels};

use super::ReviewContext;
use crate::{
    admission::Verdict,
    machine::{AdoptionRequest, controlled_by_other, is_controlled_by_other},
};

/// Name of the VirtualMachine that a Machine requests.
pub fn virtual_machine(machine: &Machine) -> &str {
    let own = machine.metadata.name.as_deref().unwrap_or_default();
    machine.spec.name.as_deref().unwrap_or(own)
}

pub(super) fn check(
    old: Option<&Machine>,
    new: &Machine,
    context: &ReviewContext,
    verdict: &mut Verdict,
) {
    let name = virtual_machine(new);
    if let Some(old) = old {
        if virtual_machine(old) != name {
            verdict.refuse(
                "spec.name",
                "is immutable: it names the VirtualMachine; make a new Machine for another name",
            );
        }
        // The name was reviewed when the Machine was created.
        return;
    }
    if name.is_empty() {
        return;
    }
    let field = match new.spec.name {
        Some(_) => "spec.name",
        None => "metadata.name",
    };
    let owner = context
        .others
        .iter()
        .filter(|other| super::is_another(other, new))
        .find(|other| {
            other.metadata.namespace == new.metadata.namespace && virtual_machine(other) == name
        });
    if let Some(owner) = owner {
        let of = owner.metadata.name.as_deref().unwrap_or_default();
        if owner.metadata.deletion_timestamp.is_some() {
            verdict.warn(format!(
                "{field}: VirtualMachine {name:?} belongs to Machine {of:?}, which is being deleted: the operator waits for that"
            ));
        } else {
            verdict.refuse(
                field,
                format!(
                    "VirtualMachine {name:?} belongs to Machine {of:?}: give this one another name"
                ),
            );
        }
    } else if let Some(vm) = context.virtual_machine.as_ref().filter(|vm| is_foreign(vm)) {
        let adopts = AdoptionRequest::of(&new.metadata).is_some();
        match is_controlled_by_other(vm, None) {
            Some(controller) if adopts => {
                verdict.refuse(field, controlled_by_other(name, controller));
            }
            None if adopts => {}
            _ => verdict.refuse(
                field,
                format!(
                    "VirtualMachine {name:?} exists and does not belong to this Machine: give one of them another name, or annotate the Machine with {}: \"true\" to adopt it",
                    labels::ADOPT
                ),
            ),
        }
    }
}

/// Whether a VirtualMachine belongs neither to a Machine nor is being deleted. The garbage collector deletes
/// that of an earlier Machine.
fn is_foreign(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let is_of_machine = owners.iter().any(|owner| {
        owner.controller == Some(true)
            && owner.kind == "Machine"
            && owner.api_version == api::API_VERSION
    });
    metadata.deletion_timestamp.is_none() && !is_of_machine
}
