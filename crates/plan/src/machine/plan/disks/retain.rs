//! Disks that outlive their Machine, recorded in a label.

use api::{ObjectMeta, labels};

use super::objects::{change_metadata, objects};
use crate::machine::{
    MetadataChange, Observed, Step,
    plan::ownership::{is_own_disk, is_terminating},
};

/// Labels disks of this Machine as retained, including claims of CDI.
pub(in crate::machine::plan) fn retain(
    observed: &Observed<'_>,
    concerns: &dyn Fn(&ObjectMeta) -> bool,
) -> Vec<Step> {
    let machine = observed.machine;
    objects(observed)
        .filter(|(_, disk)| {
            is_own_disk(disk, machine) && !is_terminating(disk) && !is_retained(disk)
        })
        .filter(|(_, disk)| concerns(disk))
        .map(|(kind, disk)| {
            change_metadata(kind, disk, retained(true), "the disk outlives the Machine")
        })
        .collect()
}

/// Sets or removes the label.
pub(super) fn retained(is_retained: bool) -> MetadataChange {
    let value = is_retained.then(|| "true".to_owned());
    MetadataChange {
        labels: [(labels::RETAINED.to_owned(), value)].into(),
        ..MetadataChange::default()
    }
}

/// Whether a disk is labelled to outlive its Machine.
pub(in crate::machine) fn is_retained(disk: &ObjectMeta) -> bool {
    let label = disk
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::RETAINED));
    label.is_some_and(|value| value == "true")
}
