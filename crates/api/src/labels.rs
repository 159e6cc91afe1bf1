//! Names that tie objects together: labels, the finalizer, the prefixes that are passed on.

/// Label on every object that this operator makes; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "vitistack.io/managed-by";

/// Label that names the Machine an object belongs to.
pub const MACHINE: &str = "vitistack.io/machine";

/// Label that names the NetworkConfiguration an object belongs to.
pub const NETWORK_CONFIGURATION: &str = "vitistack.io/network-configuration";

/// Label by which users tie a Machine to a cluster.
pub const CLUSTER_NAME: &str = "cluster.vitistack.io/cluster-name";

/// Label by which users note the template that a Machine was written for.
pub const MACHINE_TEMPLATE: &str = "vitistack.io/machine-template";

/// The value of [`MANAGED_BY`], and the field manager of every apply.
pub const MANAGER: &str = "kubevirt-operator";

/// The domain of the documented prefixes: a Machine's labels and annotations whose prefix is this
/// domain or below it (`cluster.vitistack.io/...`) are passed on to its virtual machine.
pub const DOMAIN: &str = "vitistack.io";

/// Finalizer that holds a Machine until its children are gone.
pub const FINALIZER: &str = "machine.vitistack.io/cleanup";

/// Finalizer that holds a NetworkConfiguration while Machines are attached to it.
pub const NETWORK_FINALIZER: &str = "networkconfiguration.vitistack.io/in-use";

/// Annotation on a disk and on a VirtualMachine: the UID of the Machine it belongs to. Disks have no
/// owner reference, so that no garbage collector deletes them; this is what makes them a Machine's. On a
/// VirtualMachine it identifies one whose owner reference was removed.
pub const MACHINE_UID: &str = "vitistack.io/machine-uid";

/// Annotation on a disk that its Machine lists in `spec.disks`: `"true"`. Only such a disk may be
/// deleted for no longer being listed; one that a size brought is not its user's to remove.
pub const LISTED_DISK: &str = "vitistack.io/listed-disk";

/// Label on a disk that is kept on purpose, whatever becomes of its Machine: `"true"`.
pub const RETAINED: &str = "vitistack.io/retained";

/// Annotation on a disk that was removed from its Machine under `deletionPolicy: Delete`: `"true"`. It
/// is deleted once nobody uses it, whatever the policy becomes.
pub const DELETE_WHEN_DETACHED: &str = "vitistack.io/delete-when-detached";

/// Annotation on a VirtualMachine: a digest of what was last applied, by which removed fields are
/// noticed.
pub const APPLIED: &str = "vitistack.io/applied";

/// Annotation on a VirtualMachine: the MachineClass as it was when its size was taken.
pub const CLASS_SNAPSHOT: &str = "vitistack.io/machine-class";

/// Annotation on a VirtualMachine: the `spec.restartedAt` that was last acted on.
pub const RESTARTED_AT: &str = "vitistack.io/restarted-at";

/// Annotation on a VirtualMachine: the UID of the instance that was to end for the last restart.
pub const RESTARTED_INSTANCE: &str = "vitistack.io/restarted-instance";

/// Annotation on an instance: a digest of the cloud-init data it was started with.
pub const CLOUD_INIT: &str = "vitistack.io/cloud-init";

/// Annotation by which users let a Machine take its size from its MachineClass at once, whenever
/// that changes: `"true"`.
pub const FOLLOW_CLASS: &str = "vitistack.io/follow-machine-class";

/// Annotation by which users let a Machine take over disks that an earlier Machine of its name left
/// behind: `"true"`.
pub const ADOPT_DISKS: &str = "vitistack.io/adopt-disks";

/// Annotation by which users confirm that the data of disks is lost, and let new disks take their place:
/// the UIDs of the PersistentVolumeClaims that held it, separated by commas.
pub const RECREATE_DISK: &str = "vitistack.io/recreate-disk";

/// The names that the operator writes on children itself. A user's label or annotation of such a name
/// is never passed on: it would be taken for the operator's own.
pub const RESERVED: [&str; 12] = [
    MANAGED_BY,
    MACHINE,
    NETWORK_CONFIGURATION,
    MACHINE_UID,
    LISTED_DISK,
    RETAINED,
    DELETE_WHEN_DETACHED,
    APPLIED,
    CLASS_SNAPSHOT,
    RESTARTED_AT,
    RESTARTED_INSTANCE,
    CLOUD_INIT,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What users set, and what is no label or annotation.
    const NOT_RESERVED: [&str; 7] = [
        CLUSTER_NAME,
        MACHINE_TEMPLATE,
        FINALIZER,
        NETWORK_FINALIZER,
        FOLLOW_CLASS,
        ADOPT_DISKS,
        RECREATE_DISK,
    ];

    #[test]
    fn every_name_is_reserved_or_known_to_be_the_users() {
        let names = include_str!("labels.rs").lines().filter_map(|line| {
            let (_, value) = line.strip_prefix("pub const ")?.split_once("&str = \"")?;
            value.strip_suffix("\";").filter(|name| name.contains('/'))
        });
        let names: Vec<_> = names.collect();
        assert!(names.len() > 10);
        for name in names {
            assert_ne!(
                RESERVED.contains(&name),
                NOT_RESERVED.contains(&name),
                "{name}"
            );
        }
    }
}
