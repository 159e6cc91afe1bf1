//! Admission review of Machines.

mod disks;
mod mac_addresses;
mod name;
mod quota;

use std::sync::Arc;

use api::{
    Machine, ObjectMeta,
    cdi::ObservedDataVolume,
    core::{ObservedClaim, ResourceQuota},
};

use super::{Problem, Verdict};
use crate::machine::{
    Note, Resolution, ResolvedMachine, SpecError, Surroundings, classes_for, ignored_switches,
    labels_not_passed_on, nothing_to_boot, protection, resolve,
    resolve::{Outline, outline},
    surroundings::kept_classes,
};

pub(crate) use self::mac_addresses::shared_addresses;
pub use self::{mac_addresses::mac_addresses, name::virtual_machine};

/// State of the cluster for the review of a Machine. Unknown parts are empty, and refuse nothing.
#[derive(Clone, Debug, Default)]
pub struct ReviewContext {
    pub surroundings: Surroundings,
    pub claims: Vec<ObservedClaim>,
    pub data_volumes: Vec<ObservedDataVolume>,
    /// Machines, in any namespace, that may request one of its MAC addresses or its VirtualMachine's name.
    pub others: Vec<Arc<Machine>>,
    /// Its VirtualMachine or, for a new Machine, the VirtualMachine that has the requested name.
    pub virtual_machine: Option<ObjectMeta>,
    /// Whether its guest runs, with the size of the class snapshot.
    pub is_running: bool,
    pub quotas: Vec<ResourceQuota>,
}

/// Whether a change needs a review: a new Machine, or another spec of one that is not being deleted.
pub fn needs_review(old: Option<&Machine>, new: &Machine) -> bool {
    new.metadata.deletion_timestamp.is_none() && old.is_none_or(|old| old.spec != new.spec)
}

/// Reviews a new Machine or an update.
pub fn review(old: Option<&Machine>, new: &Machine, context: &ReviewContext) -> Verdict {
    let mut verdict = Verdict::default();
    if !needs_review(old, new) {
        return verdict;
    }
    // Only once: an update of the spec does not change labels.
    let unpassed =
        labels_not_passed_on(new, &context.surroundings.passed_on).filter(|_| old.is_none());
    for Note { path, message } in ignored_switches(new).into_iter().chain(unpassed) {
        verdict.warn(format!("{path}: {message}"));
    }
    // A VirtualMachine that exists before the Machine has no snapshot for it.
    let vm = old.and(context.virtual_machine.as_ref());
    let surroundings_of = |machine: &Machine| Surroundings {
        machine_classes: classes_for(machine, vm, context.is_running, &context.surroundings),
        kept_classes: kept_classes(machine, &context.claims),
        ..context.surroundings.clone()
    };
    let old_surroundings = old.map(|old| (old, surroundings_of(old)));
    let surroundings = surroundings_of(new);
    let before = old_surroundings
        .as_ref()
        .map(|(old, surroundings)| resolve(old, surroundings));
    let now = resolve(new, &surroundings);
    for error in errors(&now).filter(|error| error.in_reference) {
        verdict.warn(problem(error).describe());
    }
    // An existing disk may be filled. The Machine's condition keeps reporting it.
    if let Ok(resolution) = &now
        && old.is_none()
        && context.claims.is_empty()
        && let Some(Note { path, message }) = nothing_to_boot(new, &resolution.machine)
    {
        verdict.warn(format!("{path}: {message}"));
    }
    verdict.compare_problems(
        before.iter().flat_map(own_problems).collect(),
        own_problems(&now).collect(),
    );
    name::check(old, new, context, &mut verdict);
    mac_addresses::check(old, new, context, &mut verdict);
    let change = Change {
        old,
        new,
        before: old_surroundings.map(|(old, surroundings)| outline(old, &surroundings)),
        now: outline(new, &surroundings),
        had: before.and_then(Result::ok).map(|before| before.machine),
        resolves: now.is_ok(),
    };
    disks::check(&change, context, &mut verdict);
    quota::check(&change, context, &mut verdict);
    verdict
}

/// Reviews the deletion of a Machine. One that is being deleted stays until its protection is switched off.
pub fn delete(machine: &Machine) -> Verdict {
    let mut verdict = Verdict::default();
    if protection::is_protected(machine) && machine.metadata.deletion_timestamp.is_none() {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        verdict.conflict = Some(format!(
            "Machine {name:?} is protected from deletion: {}",
            protection::REMEDY
        ));
    }
    verdict
}

/// A change, and what it requests from the cluster.
struct Change<'a> {
    old: Option<&'a Machine>,
    new: &'a Machine,
    before: Option<Outline>,
    now: Outline,
    /// Set if the old Machine resolves: then it has what it requests.
    had: Option<ResolvedMachine>,
    /// Whether the new Machine resolves: otherwise it does not get what it requests.
    resolves: bool,
}

/// Whether `other` is not the Machine under review.
fn is_another(other: &Machine, machine: &Machine) -> bool {
    let (other, machine) = (&other.metadata, &machine.metadata);
    other.name != machine.name || other.namespace != machine.namespace
}

type Resolved = Result<Resolution, Vec<SpecError>>;

/// Errors that do not depend on unknown objects.
fn errors(resolved: &Resolved) -> impl Iterator<Item = &SpecError> {
    let errors = resolved.as_ref().err();
    let errors = errors.into_iter().flatten();
    errors.filter(|error| error.certain)
}

/// Problems that only a change of the Machine can fix.
fn own_problems(resolved: &Resolved) -> impl Iterator<Item = Problem> {
    errors(resolved)
        .filter(|error| !error.in_reference)
        .map(problem)
}

fn problem(error: &SpecError) -> Problem {
    Problem::new(&*error.path, &*error.message)
}
