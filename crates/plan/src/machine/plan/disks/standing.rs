//! Ownership of existing disks.

use api::{Machine, ObjectMeta, labels};

use crate::machine::{
    plan::ownership::{is_foreign, is_own_disk, is_terminating},
    switches::is_switched_on,
};

/// Ownership of a claim or DataVolume with the name of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It belongs to the Machine, or the Machine may adopt it.
    Usable,
    Terminating,
    Foreign,
    /// An earlier Machine of the same name left it behind.
    LeftBehind,
}

impl Standing {
    pub(crate) fn of(metadata: &ObjectMeta, machine: &Machine) -> Self {
        if is_terminating(metadata) {
            Self::Terminating
        } else if is_own_disk(metadata, machine) {
            Self::Usable
        } else if is_foreign(metadata, machine) {
            Self::Foreign
        } else if is_switched_on(&machine.metadata, labels::ADOPT_DISKS) {
            Self::Usable
        } else {
            Self::LeftBehind
        }
    }
}
