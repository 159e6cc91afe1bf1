//! Admission review of MachineClasses.
//!
//! Classes are shared with operators of other providers. Classes that this provider does not offer are
//! not reviewed.

use std::{borrow::Cow, sync::Arc};

use api::{Machine, MachineClass, ObjectMeta, core::StorageClass};

use super::{Problem, Verdict, listed, machines};
use crate::machine::{
    Known, Lookup, Provider,
    resolve::{
        class::{self, GPU_CORES},
        sizing::MAX_VCPUS,
    },
    resolved::vcpus,
    surroundings::is_enabled,
};

/// State of the cluster for the review of a MachineClass.
#[derive(Clone, Debug, Default)]
pub struct ReviewContext {
    pub storage_classes: Known<StorageClass>,
    /// The current default class, if it is another one.
    pub default_class: Option<String>,
    /// Machines that are sized by the class.
    pub users: Vec<Arc<Machine>>,
    pub provider: Provider,
}

/// Reviews a new MachineClass or an update.
pub fn review(old: Option<&MachineClass>, new: &MachineClass, context: &ReviewContext) -> Verdict {
    let mut verdict = Verdict::default();
    let is_changed = old.is_none_or(|old| old.spec != new.spec);
    if !is_changed || new.metadata.deletion_timestamp.is_some() || !context.provider.offers(new) {
        return verdict;
    }
    verdict.compare_problems(old.map(problems).unwrap_or_default(), problems(new));
    let gpu = class::read(new).err().into_iter().flatten();
    for error in gpu.filter(|error| error.field == GPU_CORES) {
        verdict.warn(format!(
            "{}: {}: leave them out, or name the providers that can in spec.machineProviders",
            error.field, error.message
        ));
    }
    for (index, disk) in new.spec.disks.iter().flatten().enumerate() {
        let Some(class) = &disk.storage_class else {
            continue;
        };
        // Stands for the cluster's default StorageClass.
        if class != "default" && matches!(context.storage_classes.get(class), Lookup::Missing) {
            verdict.warn(format!(
                "spec.disks[{index}].storageClass: no StorageClass is named {class:?}: create it, or name another"
            ));
        }
    }
    if new.spec.default == Some(true)
        && let Some(other) = &context.default_class
    {
        verdict.warn(format!(
            "spec.default: MachineClass {other:?} is marked default too: Machines that name no size use the newest of them"
        ));
    }
    if let Some(users) = describe_users(&context.users)
        && !is_enabled(new)
        && old.is_some_and(is_enabled)
    {
        verdict.warn(format!(
            "spec.enabled: {users}, and no other Machine can use it"
        ));
    }
    verdict
}

/// Reviews the deletion of a MachineClass that these Machines are sized by.
pub fn delete(class: &MachineClass, users: &[Arc<Machine>]) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(users) = describe_users(users)
        && class.metadata.deletion_timestamp.is_none()
    {
        verdict.warn(users);
    }
    verdict
}

/// The Machines of a class, and what happens to them.
fn describe_users(users: &[Arc<Machine>]) -> Option<String> {
    let verb = match users {
        [] => return None,
        [_] => "uses",
        _ => "use",
    };
    // MachineClasses are cluster-scoped, so the names need namespaces.
    let names = users.iter().map(|user| {
        let ObjectMeta {
            namespace, name, ..
        } = &user.metadata;
        let (namespace, name) = (namespace.as_deref(), name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        Cow::Owned(format!("{namespace}/{name}"))
    });
    Some(format!(
        "{} {verb} this class ({}): each keeps its size as long as its VirtualMachine exists",
        machines(users.len()),
        listed(names)
    ))
}

/// Problems that no Machine of the class can override.
fn problems(class: &MachineClass) -> Vec<Problem> {
    match class::read(class) {
        Ok((size, _)) => {
            let vcpus = vcpus(size.cpu);
            let message = format!(
                "asks for {vcpus} CPUs (cores times sockets times threads): give at most {MAX_VCPUS}"
            );
            let is_too_much = vcpus > MAX_VCPUS;
            let problem = is_too_much.then(|| Problem::new("spec.cpu", message));
            problem.into_iter().collect()
        }
        Err(errors) => {
            // Another provider may support it.
            let errors = errors.into_iter().filter(|error| error.field != GPU_CORES);
            errors
                .map(|error| Problem::new(error.field, error.message))
                .collect()
        }
    }
}
