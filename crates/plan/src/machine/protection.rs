//! Protection of Machines from deletion.
//!
//! The webhook refuses the deletion of a protected Machine. Without the webhook the API server accepts it, and
//! nothing takes a deletion back: the finalizer then keeps the Machine, and the operator leaves its children
//! as they are, until the protection is switched off.

use api::{Machine, labels};

/// What is to be done about a blocked deletion.
pub(crate) const REMEDY: &str =
    "set spec.deletionProtection to false if the machine and its disks may be deleted";

/// Whether a Machine is protected.
pub(crate) fn is_protected(machine: &Machine) -> bool {
    machine.spec.deletion_protection == Some(true)
}

/// Whether a Machine was deleted although it is protected, and the finalizer keeps it.
pub(crate) fn blocks_deletion(machine: &Machine) -> bool {
    let metadata = &machine.metadata;
    let mut finalizers = metadata.finalizers.iter().flatten();
    metadata.deletion_timestamp.is_some()
        && is_protected(machine)
        && finalizers.any(|found| found == labels::FINALIZER)
}

/// Whether a Machine is deleted, and its protection does not block that.
pub fn is_being_deleted(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some() && !blocks_deletion(machine)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::stays(false, true, true, false, false)]
    #[case::deleted(true, false, true, false, true)]
    #[case::protected(true, true, true, true, false)]
    #[case::another_finalizer_keeps_it(true, true, false, false, true)]
    fn only_the_finalizer_blocks_the_deletion_of_a_protected_machine(
        #[case] is_deleted: bool,
        #[case] is_protected: bool,
        #[case] has_finalizer: bool,
        #[case] blocks: bool,
        #[case] goes: bool,
    ) {
        let finalizer = if has_finalizer {
            labels::FINALIZER
        } else {
            "example.com/other"
        };
        let mut machine = json!({
            "apiVersion": "", "kind": "", "metadata": { "name": "web", "finalizers": [finalizer] },
            "spec": { "deletionProtection": is_protected },
        });
        if is_deleted {
            machine["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let machine: Machine = serde_json::from_value(machine).unwrap();
        assert_eq!(blocks_deletion(&machine), blocks);
        assert_eq!(is_being_deleted(&machine), goes);
    }
}
