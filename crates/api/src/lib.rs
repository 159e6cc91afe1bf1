//! API types: the project's custom resources, and the parts of the APIs of Kubernetes, KubeVirt, CDI and
//! Multus that the operators read or write. No logic.
//!
//! Types of other APIs have only the fields that are used. Absent optional fields are not serialized, so
//! that a value is a server-side apply body that claims exactly the fields the operator owns.

pub mod cdi;
pub mod core;
mod crds;
pub mod kubevirt;
mod kubevirt_config;
pub mod labels;
mod machine;
mod machine_class;
mod machine_provider;
pub mod multus;
mod network_configuration;
mod network_namespace;
mod observed;
mod quantity_value;
mod rules;

pub use crds::{crds, kubevirt_config_crd, kubevirt_crd};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
pub use kube::core::ObjectMeta;
pub use kubevirt_config::{KubevirtConfig, KubevirtConfigSpec, KubevirtConfigStatus};
pub use machine::{
    AccessMode, Architecture, Backup, BootDevice, Bootloader, CloudInit, CloudInitConfigMapRef,
    CloudInitSecretRef, CloudInitType, Cpu, CredentialsRef, DeletionPolicy, Disk, DiskBus,
    DiskSource, DiskStatus, Domain, DomainMachine, EmptySource, Features, Firmware, GuestAddresses,
    HttpSource, HugePages, InterfaceStatus, Machine, MachineNetwork, MachineNetworkInterface,
    MachineOs, MachineSpec, MachineStatus, Network, NetworkModel, ObjectSource,
    PassedThroughDevice, Phase, PowerState, ProviderConfig, RegistryPullMethod, RegistrySource,
    ResourceCpu, ResourceMemory, Resources, SpreadBy, SshKeySecret, TaintEffect, Toleration,
    TolerationOperator, Tpm, VolumeMode, Watchdog, WatchdogAction,
};
pub use machine_class::{
    MachineClass, MachineClassCpu, MachineClassDisk, MachineClassGpu, MachineClassMemory,
    MachineClassSpec, MachineClassStatus,
};
pub use machine_provider::{MachineProvider, MachineProviderSpec, ProviderAuthentication};
pub use network_configuration::{
    AllocationMethod, NETWORK_PROVIDER, NetworkConfiguration, NetworkConfigurationInterface,
    NetworkConfigurationSpec, NetworkConfigurationStatus,
};
pub use network_namespace::{
    IpAllocation, NetworkNamespace, NetworkNamespaceSpec, NetworkNamespaceStatus, StaticAllocation,
};
pub use observed::{Json, ObservedCondition, condition};
pub use quantity_value::QuantityValue;

/// Group and version of the project's custom resources.
pub const API_VERSION: &str = "vitistack.io/v1alpha1";
