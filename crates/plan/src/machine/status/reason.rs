//! Types and reasons of conditions.

pub(crate) const READY: &str = "Ready";
pub(super) const VIRTUAL_MACHINE_READY: &str = "VirtualMachineReady";
pub(super) const STORAGE_READY: &str = "StorageReady";
pub(super) const NETWORK_READY: &str = "NetworkReady";
pub(super) const RESTART_REQUIRED: &str = "RestartRequired";
pub(super) const MAC_ADDRESS_SHARED: &str = "MacAddressShared";
pub(super) const SPEC_VALID: &str = "SpecValid";
pub(super) const SPEC_APPLIED: &str = "SpecApplied";
pub(super) const DELETION_BLOCKED: &str = "DeletionBlocked";
pub(super) const BOOTABLE: &str = "Bootable";
pub(super) const ANNOTATIONS_VALID: &str = "AnnotationsValid";
pub(super) const MACHINE_CLASS_CURRENT: &str = "MachineClassCurrent";

pub(super) const CREATING: &str = "Creating";
pub(super) const STARTING: &str = "Starting";
pub(super) const RUNNING: &str = "Running";
pub(super) const PAUSED: &str = "Paused";
pub(super) const STOPPING: &str = "Stopping";
pub(super) const STOPPED: &str = "Stopped";
pub(super) const DELETING: &str = "Deleting";
pub(super) const GUEST_NOT_READY: &str = "GuestNotReady";
pub(super) const KUBEVIRT_BEING_REMOVED: &str = "KubeVirtBeingRemoved";
pub(crate) const CLUSTER_UNKNOWN: &str = "ClusterUnknown";
pub(crate) const CLUSTER_UNREACHABLE: &str = "ClusterUnreachable";
pub(super) const NODE_LOST: &str = "NodeLost";

pub(super) const GUEST_SHUTDOWN: &str = "GuestShutdown";
pub(super) const STOPPED_BY_OTHER: &str = "StoppedByOther";
pub(super) const EVICTED: &str = "Evicted";
pub(super) const CRASHED: &str = "Crashed";

pub(super) const IMPORT_FAILED: &str = "ImportFailed";
pub(super) const CLONE_FAILED: &str = "CloneFailed";
pub(super) const SOURCE_NOT_FOUND: &str = "SourceNotFound";
pub(super) const DISK_NOT_CREATED: &str = "DiskNotCreated";

pub(super) const VM_CREATED: &str = "VMCreated";
pub(super) const VM_FAILED: &str = "VMFailed";
pub(super) const VM_PENDING: &str = "VMPending";
pub(super) const PVC_BOUND: &str = "PVCBound";
pub(super) const PVC_PENDING: &str = "PVCPending";
pub(super) const DATA_LOST: &str = "DataLost";
pub(super) const DISK_IN_USE: &str = "DiskInUse";
pub(super) const NETWORK_CONFIGURED: &str = "NetworkConfigured";
pub(super) const NETWORK_PENDING: &str = "NetworkPending";
pub(super) const NETWORK_FAILED: &str = "NetworkFailed";
