//! Which Machines are let in.

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
    labels_not_passed_on, nothing_to_boot, resolve,
    resolve::{Outline, outline},
    surroundings::kept_classes,
};

pub(crate) use self::mac_addresses::shared_addresses;
pub use self::{mac_addresses::mac_addresses, name::virtual_machine};

/// What is known of the cluster when a change to a Machine comes. What is not known is left empty:
/// nothing is refused for it.
#[derive(Clone, Debug, Default)]
pub struct ReviewContext {
    /// What the Machine refers to.
    pub surroundings: Surroundings,
    /// The claims that are labelled with the Machine.
    pub claims: Vec<ObservedClaim>,
    /// The DataVolumes that are labelled with the Machine.
    pub data_volumes: Vec<ObservedDataVolume>,
    /// Machines, of any namespace, that may have one of its MAC addresses or want its
    /// VirtualMachine.
    pub others: Vec<Arc<Machine>>,
    /// The VirtualMachine that it has or, if it is new, that has the name it wants.
    pub virtual_machine: Option<ObjectMeta>,
    /// Whether its guest runs, which then has the size that was taken.
    pub is_running: bool,
    /// The quotas of its namespace.
    pub quotas: Vec<ResourceQuota>,
}

/// Whether there is anything to judge in a change: a new Machine, or another spec of one that stays.
pub fn needs_review(old: Option<&Machine>, new: &Machine) -> bool {
    new.metadata.deletion_timestamp.is_none() && old.is_none_or(|old| old.spec != new.spec)
}

/// What is said to a new Machine, or to a change of one.
pub fn review(old: Option<&Machine>, new: &Machine, context: &ReviewContext) -> Verdict {
    let mut verdict = Verdict::default();
    if !needs_review(old, new) {
        return verdict;
    }
    // Once is enough: labels do not change with the spec.
    let unpassed = labels_not_passed_on(new).filter(|_| old.is_none());
    for Note { path, message } in ignored_switches(new).into_iter().chain(unpassed) {
        verdict.warn(format!("{path}: {message}"));
    }
    // That of a new Machine is not its own, so nothing is noted for it there.
    let vm = old.and(context.virtual_machine.as_ref());
    let classes = &context.surroundings.machine_classes;
    let seen_by = |machine: &Machine| Surroundings {
        machine_classes: classes_for(machine, vm, context.is_running, classes),
        kept_classes: kept_classes(machine, &context.claims),
        ..context.surroundings.clone()
    };
    let seen_before = old.map(|old| (old, seen_by(old)));
    let seen = seen_by(new);
    let before = seen_before.as_ref().map(|(old, seen)| resolve(old, seen));
    let now = resolve(new, &seen);
    for error in errors(&now).filter(|error| error.in_reference) {
        verdict.warn(problem(error).words());
    }
    // A disk that is there already may be filled; the condition of the Machine goes on to report it.
    if let Ok(resolution) = &now
        && old.is_none()
        && context.claims.is_empty()
        && let Some(Note { path, message }) = nothing_to_boot(new, &resolution.machine)
    {
        verdict.warn(format!("{path}: {message}"));
    }
    verdict.weigh(
        before.iter().flat_map(own_problems).collect(),
        own_problems(&now).collect(),
    );
    name::check(old, new, context, &mut verdict);
    mac_addresses::check(old, new, context, &mut verdict);
    let change = Change {
        old,
        new,
        before: seen_before.map(|(old, seen)| outline(old, &seen)),
        now: outline(new, &seen),
        had: before.and_then(Result::ok).map(|before| before.machine),
        resolves: now.is_ok(),
    };
    disks::check(&change, context, &mut verdict);
    quota::check(&change, context, &mut verdict);
    verdict
}

/// A change, and what it asks of the cluster.
struct Change<'a> {
    old: Option<&'a Machine>,
    new: &'a Machine,
    /// What the old Machine asks for.
    before: Option<Outline>,
    /// What the new one asks for.
    now: Outline,
    /// The old Machine, if it resolves: then it has what it asks for.
    had: Option<ResolvedMachine>,
    /// Whether the new one resolves: else it does not get there yet.
    resolves: bool,
}

/// Whether a Machine is not the one that is judged.
fn is_another(other: &Machine, machine: &Machine) -> bool {
    let (other, machine) = (&other.metadata, &machine.metadata);
    other.name != machine.name || other.namespace != machine.namespace
}

type Resolved = Result<Resolution, Vec<SpecError>>;

/// What is wrong for certain.
fn errors(resolved: &Resolved) -> impl Iterator<Item = &SpecError> {
    let errors = resolved.as_ref().err();
    let errors = errors.into_iter().flatten();
    errors.filter(|error| error.certain)
}

/// What only a change of the Machine makes right.
fn own_problems(resolved: &Resolved) -> impl Iterator<Item = Problem> {
    errors(resolved)
        .filter(|error| !error.in_reference)
        .map(problem)
}

fn problem(error: &SpecError) -> Problem {
    Problem::new(&*error.path, &*error.message)
}
