//! The kinds, labels, annotations and finalizers of KubeVirt.

use crate::kind::Kind;

/// kubevirt.io/v1 VirtualMachine.
pub const VM: Kind =
    Kind::namespaced("kubevirt.io", "v1", "VirtualMachine", "virtualmachines").custom();
/// kubevirt.io/v1 VirtualMachineInstance.
pub const VMI: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
)
.custom();
/// kubevirt.io/v1 VirtualMachineInstanceMigration.
pub const MIGRATION: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstanceMigration",
    "virtualmachineinstancemigrations",
)
.custom();
/// snapshot.kubevirt.io/v1beta1 VirtualMachineSnapshot.
pub const SNAPSHOT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
)
.custom();
/// snapshot.kubevirt.io/v1beta1 VirtualMachineSnapshotContent.
pub const SNAPSHOT_CONTENT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshotContent",
    "virtualmachinesnapshotcontents",
)
.custom();
/// snapshot.kubevirt.io/v1beta1 VirtualMachineRestore.
pub const RESTORE: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
)
.custom();

/// What virt-controller puts on a VM, and on a VMI that a VM owns: it wants to see the end of it.
pub const CONTROLLER_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// What holds a VMI until its pods are gone.
pub const FOREGROUND_FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// The generation of the VM that a VMI was made from.
pub const GENERATION_ANNOTATION: &str = "kubevirt.io/vm-generation";
/// Marks an object that this release of KubeVirt has seen.
pub const LATEST_API_ANNOTATION: &str = "kubevirt.io/latest-observed-api-version";
/// Marks an object that this release of KubeVirt has stored.
pub const STORAGE_API_ANNOTATION: &str = "kubevirt.io/storage-observed-api-version";
/// How PCI devices are laid out; a VM keeps it for life.
pub const PCI_TOPOLOGY_ANNOTATION: &str = "kubevirt.io/pci-topology-version";
/// The memory that a launcher pod needs beside that of its guest.
pub const OVERHEAD_ANNOTATION: &str = "kubevirt.io/memory-overhead-bytes";
/// The node that a VMI runs on.
pub const NODE_LABEL: &str = "kubevirt.io/nodeName";
/// Which part of KubeVirt a pod is.
pub const APP_LABEL: &str = "kubevirt.io";
/// The uid of the VMI that a launcher pod runs.
pub const CREATED_BY_LABEL: &str = "kubevirt.io/created-by";
/// The name of the VM that a launcher pod runs.
pub const VM_NAME_LABEL: &str = "vm.kubevirt.io/name";
/// The uid of the migration that a launcher pod is the target of.
pub const MIGRATION_JOB_LABEL: &str = "kubevirt.io/migrationJobUID";
/// The domain's name.
pub const DOMAIN_ANNOTATION: &str = "kubevirt.io/domain";
/// The release that is imitated.
pub const LAUNCHER_IMAGE: &str = "quay.io/kubevirt/virt-launcher:v1.9.0";
