//! Which MachineClasses are let in.
//!
//! Classes are shared with the operators of other providers: one that this provider does not offer
//! is none of our business.

use api::{Machine, MachineClass, core::StorageClass};

use super::{Problem, Verdict, machines};
use crate::machine::{
    Known, Lookup,
    resolve::{
        class::{self, GPU_CORES},
        sizing::{MOST_VCPUS, is_built_in},
    },
    resolved::vcpus,
    surroundings::{is_enabled, is_offered},
};

/// What is known of the cluster when a change to a MachineClass comes.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Classes of storage.
    pub storage_classes: Known<StorageClass>,
    /// The class that Machines take now that name no size, if it is another one.
    pub default_class: Option<String>,
    /// How many Machines have the class.
    pub users: usize,
}

/// Whether a Machine has its size from a class.
pub fn is_user(machine: &Machine, class: &MachineClass) -> bool {
    let spec = &machine.spec;
    let by_name = [&spec.template, &spec.instance_type];
    let by_name = by_name
        .into_iter()
        .flatten()
        .filter(|name| !is_built_in(name));
    let mut asked = by_name.chain(&spec.machine_class).peekable();
    let names_none = [&spec.template, &spec.instance_type, &spec.machine_class]
        .into_iter()
        .all(Option::is_none);
    let name = class.metadata.name.as_deref().unwrap_or_default();
    asked.any(|asked| asked == name)
        || names_none && class.spec.default == Some(true) && is_enabled(class) && is_offered(class)
}

/// What is said to a new MachineClass, or to a change of one.
pub fn judge(old: Option<&MachineClass>, new: &MachineClass, facts: &Facts) -> Verdict {
    let mut verdict = Verdict::default();
    let is_changed = old.is_none_or(|old| old.spec != new.spec);
    if !is_changed || new.metadata.deletion_timestamp.is_some() || !is_offered(new) {
        return verdict;
    }
    verdict.weigh(old.map(problems).unwrap_or_default(), problems(new));
    let gpu = class::read(new).err().into_iter().flatten();
    for flaw in gpu.filter(|flaw| flaw.field == GPU_CORES) {
        verdict.warn(format!("{}: {}", flaw.field, flaw.message));
    }
    for (index, disk) in new.spec.disks.iter().flatten().enumerate() {
        let Some(class) = &disk.storage_class else {
            continue;
        };
        // The word that stands for the cluster's choice.
        if class != "default" && matches!(facts.storage_classes.get(class), Lookup::Missing) {
            verdict.warn(format!(
                "spec.disks[{index}].storageClass: no StorageClass is named {class:?}: create it, or name another"
            ));
        }
    }
    if new.spec.default == Some(true)
        && let Some(other) = &facts.default_class
    {
        verdict.warn(format!(
            "spec.default: MachineClass {other:?} is marked default too: Machines that name no size take the newest of them"
        ));
    }
    if facts.users > 0 && !is_enabled(new) && old.is_some_and(is_enabled) {
        verdict.warn(format!(
            "spec.enabled: {} of this class: each keeps the size it has, and no other can take it",
            has(facts.users)
        ));
    }
    verdict
}

/// What is said to the deletion of a MachineClass that so many Machines have.
pub fn delete(class: &MachineClass, users: usize) -> Verdict {
    let mut verdict = Verdict::default();
    if users > 0 && class.metadata.deletion_timestamp.is_none() {
        verdict.warn(format!(
            "{} of this class: each keeps the size it has, and cannot be made again without the class",
            has(users)
        ));
    }
    verdict
}

fn has(users: usize) -> String {
    match users {
        1 => "there is 1 Machine".to_owned(),
        users => format!("there are {}", machines(users)),
    }
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
