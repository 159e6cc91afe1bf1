//! Which MachineClasses are let in.
//!
//! Classes are shared with the operators of other providers: one that this provider does not offer
//! is none of our business.

use std::{borrow::Cow, sync::Arc};

use api::{Machine, MachineClass, ObjectMeta, core::StorageClass};

use super::{Problem, Verdict, listed, machines};
use crate::machine::{
    Known, Lookup,
    resolve::{
        class::{self, GPU_CORES},
        sizing::MOST_VCPUS,
    },
    resolved::vcpus,
    surroundings::{is_enabled, is_offered},
};

/// What is known of the cluster when a change to a MachineClass comes.
#[derive(Clone, Debug, Default)]
pub struct ReviewContext {
    /// Classes of storage.
    pub storage_classes: Known<StorageClass>,
    /// The class that Machines take now that name no size, if it is another one.
    pub default_class: Option<String>,
    /// The Machines that have their size from the class.
    pub users: Vec<Arc<Machine>>,
}

/// What is said to a new MachineClass, or to a change of one.
pub fn review(old: Option<&MachineClass>, new: &MachineClass, context: &ReviewContext) -> Verdict {
    let mut verdict = Verdict::default();
    let is_changed = old.is_none_or(|old| old.spec != new.spec);
    if !is_changed || new.metadata.deletion_timestamp.is_some() || !is_offered(new) {
        return verdict;
    }
    verdict.weigh(old.map(problems).unwrap_or_default(), problems(new));
    let gpu = class::read(new).err().into_iter().flatten();
    for flaw in gpu.filter(|flaw| flaw.field == GPU_CORES) {
        verdict.warn(format!(
            "{}: {}: leave them out, or name the providers that can in spec.machineProviders",
            flaw.field, flaw.message
        ));
    }
    for (index, disk) in new.spec.disks.iter().flatten().enumerate() {
        let Some(class) = &disk.storage_class else {
            continue;
        };
        // The word that stands for the cluster's choice.
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
            "spec.default: MachineClass {other:?} is marked default too: Machines that name no size take the newest of them"
        ));
    }
    if let Some(users) = words(&context.users)
        && !is_enabled(new)
        && old.is_some_and(is_enabled)
    {
        verdict.warn(format!("spec.enabled: {users}, and no other can take it"));
    }
    verdict
}

/// What is said to the deletion of a MachineClass that these Machines have their size from.
pub fn delete(class: &MachineClass, users: &[Arc<Machine>]) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(users) = words(users)
        && class.metadata.deletion_timestamp.is_none()
    {
        verdict.warn(users);
    }
    verdict
}

/// Who has the class, and what becomes of them.
fn words(users: &[Arc<Machine>]) -> Option<String> {
    let are = match users {
        [] => return None,
        [_] => "is",
        _ => "are",
    };
    // A class is of the whole cluster, and so are they.
    let names = users.iter().map(|user| {
        let ObjectMeta {
            namespace, name, ..
        } = &user.metadata;
        let (namespace, name) = (namespace.as_deref(), name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        Cow::Owned(format!("{namespace}/{name}"))
    });
    Some(format!(
        "there {are} {} of this class ({}): each keeps the size it has, for as long as its VirtualMachine is there",
        machines(users.len()),
        listed(names)
    ))
}

/// What no Machine can have, whatever it says itself.
fn problems(class: &MachineClass) -> Vec<Problem> {
    match class::read(class) {
        Ok((size, _)) => {
            let vcpus = vcpus(size.cpu);
            let message = format!(
                "asks for {vcpus} CPUs (cores times sockets times threads): give at most {MOST_VCPUS}"
            );
            let is_too_much = vcpus > MOST_VCPUS;
            let problem = is_too_much.then(|| Problem::new("spec.cpu", message));
            problem.into_iter().collect()
        }
        Err(flaws) => {
            // Another provider may have them.
            let flaws = flaws.into_iter().filter(|flaw| flaw.field != GPU_CORES);
            flaws
                .map(|flaw| Problem::new(flaw.field, flaw.message))
                .collect()
        }
    }
}
