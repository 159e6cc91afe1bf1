//! Labels, annotations and finalizers of the Machine operator.

/// Label on every object that this operator creates; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "vitistack.io/managed-by";

/// Label with the name of the Machine that an object belongs to.
pub const MACHINE: &str = "vitistack.io/machine";

/// Label with the name of the NetworkConfiguration that an object belongs to.
pub const NETWORK_CONFIGURATION: &str = "vitistack.io/network-configuration";

/// Label with the name of the Machine, as other programs of the Viti stack select by it.
pub const SOURCE_MACHINE: &str = "vitistack.io/source-machine";

/// Label on objects in another cluster than their Machine: the name of the KubevirtConfig.
pub const WORKLOAD_CLUSTER: &str = "vitistack.io/workload-cluster";

/// Label on objects in another cluster than their Machine: the UID of the definition of Machines, which
/// distinguishes management clusters.
pub const MANAGED_FROM: &str = "vitistack.io/managed-from";

/// Label with the VLAN tag of a NetworkAttachmentDefinition.
pub const VLAN_ID: &str = "vitistack.io/vlan-id";

/// Label by which users assign a Machine to a cluster.
pub const CLUSTER_NAME: &str = "cluster.vitistack.io/cluster-name";

/// Label by which users record the template of a Machine.
pub const MACHINE_TEMPLATE: &str = "vitistack.io/machine-template";

/// The value of [`MANAGED_BY`], and the field manager of every apply.
pub const MANAGER: &str = "kubevirt-operator";

/// A Machine's labels and annotations with this domain or a subdomain (`cluster.vitistack.io/...`) as
/// prefix are copied to its virtual machine.
pub const DOMAIN: &str = "vitistack.io";

/// Finalizer that keeps a Machine until its children are deleted.
pub const FINALIZER: &str = "machine.vitistack.io/cleanup";

/// Finalizer of the operator that the Viti stack had before. An adoption replaces it.
pub const FORMER_FINALIZER: &str = "machine.vitistack.io/finalizer";

/// Start of the finalizer that records in which cluster a Machine's virtual machine is; the name of the
/// KubevirtConfig follows. A Machine without it has its virtual machine in its own cluster.
pub const CLUSTER_FINALIZER: &str = "cluster.vitistack.io/";

/// User's annotation on a Machine: name of the KubevirtConfig of the cluster for its virtual machine.
pub const KUBEVIRT_CONFIG: &str = "vitistack.io/kubevirt-config";

/// User's annotation on a Machine: name of the KubevirtConfig of a cluster that is gone for good. The
/// deletion of the Machine then leaves behind what is in that cluster.
pub const RELEASE: &str = "vitistack.io/release-from-cluster";

/// User's annotation on a KubevirtConfig: UIDs of Machines, separated by commas, whose orphaned objects are
/// removed from the cluster.
pub const REMOVE_ORPHANS: &str = "vitistack.io/remove-orphans-of";

/// Finalizer that keeps a NetworkConfiguration while Machines are attached to it.
pub const NETWORK_FINALIZER: &str = "networkconfiguration.vitistack.io/in-use";

/// Annotation on disks and VirtualMachines: the UID of the Machine that owns them. Disks have no owner
/// reference, so that no garbage collector deletes them. On a VirtualMachine it proves the ownership
/// after its owner reference was removed. In another cluster than the Machine's also a label.
pub const MACHINE_UID: &str = "vitistack.io/machine-uid";

/// Annotation on a disk that its Machine lists in `spec.disks`: `"true"`. Only such a disk may be
/// deleted when it is no longer listed; disks that come with a size may not.
pub const LISTED_DISK: &str = "vitistack.io/listed-disk";

/// Annotation on the volume of an installer image: `"true"`. It contains no user's data, so it is deleted
/// once it is ejected and no one uses it.
pub const INSTALLER: &str = "vitistack.io/installer-image";

/// Label on a disk that outlives its Machine on purpose: `"true"`.
pub const RETAINED: &str = "vitistack.io/retained";

/// Annotation on a disk that was removed from its Machine under `deletionPolicy: Delete`: `"true"`. It
/// is deleted once no one uses it, even if the policy changes.
pub const DELETE_WHEN_DETACHED: &str = "vitistack.io/delete-when-detached";

/// Annotation on a VirtualMachine: digest of the last apply, to detect removed fields.
pub const APPLIED: &str = "vitistack.io/applied";

/// Annotation on a VirtualMachine that someone else created: `"true"`. Without [`APPLIED`] its spec is as
/// it was found.
pub const ADOPTED: &str = "vitistack.io/adopted";

/// Annotation on an adopted disk: its name in the Machine, where the name of the claim does not say.
pub const DISK: &str = "vitistack.io/disk";

/// Annotation on a VirtualMachine: the class snapshot.
pub const CLASS_SNAPSHOT: &str = "vitistack.io/machine-class";

/// Annotation on a VirtualMachine: the `spec.restartedAt` that was last acted on.
pub const RESTARTED_AT: &str = "vitistack.io/restarted-at";

/// Annotation on a VirtualMachine: the UID of the instance that the last restart ends.
pub const RESTARTED_INSTANCE: &str = "vitistack.io/restarted-instance";

/// Annotation on a VirtualMachine: the UID of the instance that ran when the operator last stopped it.
pub const STOPPED_INSTANCE: &str = "vitistack.io/stopped-instance";

/// Annotation on a VirtualMachine: the UID of the instance that ran when someone else last stopped it.
pub const HALTED_INSTANCE: &str = "vitistack.io/halted-instance";

/// Annotation on an instance: digest of the cloud-init data it started with.
pub const CLOUD_INIT: &str = "vitistack.io/cloud-init";

/// User's annotation on a Machine: `"true"` applies changes of its MachineClass at once.
pub const FOLLOW_CLASS: &str = "vitistack.io/follow-machine-class";

/// User's annotation on a Machine: `"true"` adopts disks that an earlier Machine of its name left
/// behind.
pub const ADOPT_DISKS: &str = "vitistack.io/adopt-disks";

/// User's annotation on a Machine: `"true"` adopts the VirtualMachine of its name with its disks and
/// leaves its spec as it is, `"apply"` also applies the Machine's spec to it.
pub const ADOPT: &str = "vitistack.io/adopt";

/// Annotation on an instance: digest of the placement that it was created with; absent without any.
pub const PLACEMENT: &str = "vitistack.io/placement";

/// User's annotation on a Machine: UIDs of lost PersistentVolumeClaims, separated by commas, that may be
/// replaced by new disks.
pub const RECREATE_DISK: &str = "vitistack.io/recreate-disk";

/// Annotation on a Machine: `"true"` once its operating system is installed. The installer image is then
/// removed.
pub const OS_INSTALLED: &str = "vitistack.io/os-installed";

/// User's annotation on a Machine: `"true"` removes the installer image.
pub const CDROM_EJECTED: &str = "vitistack.io/cdrom-ejected";

/// Annotation on a Machine: `datavolume` if `spec.os.imageID` is an image that CDI imports.
pub const BOOT_SOURCE: &str = "kubevirt.io/boot-source";

/// Annotation on a Machine: where CDI imports the image from, `http`, `https` or `registry`.
pub const BOOT_SOURCE_TYPE: &str = "kubevirt.io/boot-source-type";

/// Annotations of a VirtualMachine that only record the operator's state. No report of a change names them.
pub const INTERNAL: [&str; 8] = [
    APPLIED,
    CLASS_SNAPSHOT,
    RESTARTED_AT,
    RESTARTED_INSTANCE,
    STOPPED_INSTANCE,
    HALTED_INSTANCE,
    MACHINE_UID,
    PLACEMENT,
];

/// Names that the operator sets on children. A user's label or annotation of such a name is not copied,
/// because it could be mistaken for the operator's own.
pub const RESERVED: [&str; 22] = [
    MANAGED_BY,
    MACHINE,
    SOURCE_MACHINE,
    WORKLOAD_CLUSTER,
    MANAGED_FROM,
    VLAN_ID,
    NETWORK_CONFIGURATION,
    MACHINE_UID,
    LISTED_DISK,
    INSTALLER,
    RETAINED,
    DELETE_WHEN_DETACHED,
    APPLIED,
    ADOPTED,
    DISK,
    CLASS_SNAPSHOT,
    RESTARTED_AT,
    RESTARTED_INSTANCE,
    STOPPED_INSTANCE,
    HALTED_INSTANCE,
    CLOUD_INIT,
    PLACEMENT,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that users set, and finalizers.
    const NOT_RESERVED: [&str; 17] = [
        CLUSTER_NAME,
        CLUSTER_FINALIZER,
        KUBEVIRT_CONFIG,
        RELEASE,
        REMOVE_ORPHANS,
        MACHINE_TEMPLATE,
        FINALIZER,
        FORMER_FINALIZER,
        ADOPT,
        NETWORK_FINALIZER,
        FOLLOW_CLASS,
        ADOPT_DISKS,
        RECREATE_DISK,
        OS_INSTALLED,
        CDROM_EJECTED,
        BOOT_SOURCE,
        BOOT_SOURCE_TYPE,
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
