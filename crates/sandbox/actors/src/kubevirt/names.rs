//! Kinds, labels, annotations and finalizers of KubeVirt.

use crate::kind::Kind;

pub const VM: Kind =
    Kind::namespaced("kubevirt.io", "v1", "VirtualMachine", "virtualmachines").custom();
pub const VMI: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
)
.custom();
pub const MIGRATION: Kind = Kind::namespaced(
    "kubevirt.io",
    "v1",
    "VirtualMachineInstanceMigration",
    "virtualmachineinstancemigrations",
)
.custom();
pub const SNAPSHOT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
)
.custom();
pub const SNAPSHOT_CONTENT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshotContent",
    "virtualmachinesnapshotcontents",
)
.custom();
pub const RESTORE: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
)
.custom();

/// Finalizer of virt-controller on VMs and on VMIs that a VM owns.
pub const CONTROLLER_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// Keeps a VMI until its pods are deleted.
pub const FOREGROUND_FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// Generation of the VM that a VMI was created from.
pub const GENERATION_ANNOTATION: &str = "kubevirt.io/vm-generation";
/// API version of the KubeVirt release that last observed the object.
pub const LATEST_API_ANNOTATION: &str = "kubevirt.io/latest-observed-api-version";
/// API version of the KubeVirt release that last stored the object.
pub const STORAGE_API_ANNOTATION: &str = "kubevirt.io/storage-observed-api-version";
/// PCI topology, fixed for the life of a VM.
pub const PCI_TOPOLOGY_ANNOTATION: &str = "kubevirt.io/pci-topology-version";
/// Memory overhead of a launcher pod.
pub const OVERHEAD_ANNOTATION: &str = "kubevirt.io/memory-overhead-bytes";
pub const NODE_LABEL: &str = "kubevirt.io/nodeName";
/// KubeVirt component of a pod.
pub const APP_LABEL: &str = "kubevirt.io";
/// UID of a launcher pod's VMI.
pub const CREATED_BY_LABEL: &str = "kubevirt.io/created-by";
/// Name of a launcher pod's VM.
pub const VM_NAME_LABEL: &str = "vm.kubevirt.io/name";
/// UID of the migration that a launcher pod is the target of.
pub const MIGRATION_JOB_LABEL: &str = "kubevirt.io/migrationJobUID";
pub const DOMAIN_ANNOTATION: &str = "kubevirt.io/domain";
/// Image of the simulated release.
pub const LAUNCHER_IMAGE: &str = "quay.io/kubevirt/virt-launcher:v1.9.0";
