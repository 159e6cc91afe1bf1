//! The MachineClass resource.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{AccessMode, QuantityValue, VolumeMode, rules};

/// Size for Machines.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "MachineClass",
    plural = "machineclasses",
    singular = "machineclass",
    shortname = "mc",
    category = "vitistack",
    status = "MachineClassStatus",
    derive = "PartialEq",
    doc = "A size for Machines, which refer to it by name.",
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(name = "Enabled", type_ = "boolean", json_path = ".spec.enabled"),
    printcolumn(name = "Cores", type_ = "integer", json_path = ".spec.cpu.cores"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory.quantity"),
    printcolumn(
        name = "Sockets",
        type_ = "integer",
        json_path = ".spec.cpu.sockets",
        priority = 1
    ),
    printcolumn(
        name = "Threads",
        type_ = "integer",
        json_path = ".spec.cpu.threads",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassSpec {
    /// Whether Machines may use this class. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether Machines that name no size use this class. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Human-readable name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub display_name: Option<String>,
    /// Purpose of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Group of classes, such as Standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub category: Option<String>,
    /// CPU topology.
    pub cpu: MachineClassCpu,
    /// Memory of the guest.
    pub memory: MachineClassMemory,
    /// Disks of Machines with this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub disks: Option<Vec<MachineClassDisk>>,
    /// Providers that offer this class. If not set, all do. This operator is the provider `kubevirt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub machine_providers: Option<Vec<String>>,
    /// GPU, for other providers. This operator does not support classes with GPU cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<MachineClassGpu>,
}

/// CPU topology. The guest has cores times sockets times threads virtual CPUs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassCpu {
    /// Cores per socket.
    #[schemars(range(min = 1, max = 512))]
    pub cores: i32,
    /// Number of sockets. Defaults to 1. 0 counts as not set: other Viti operators write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub sockets: Option<i32>,
    /// Threads per core. Defaults to 1. 0 counts as not set: other Viti operators write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 8))]
    pub threads: Option<i32>,
}

/// Memory of the guest, and bounds for Machines that override it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(rules::LEAST_IS_BELOW).message("minQuantity must not be above quantity"),
    validation = Rule::new(rules::MOST_IS_ABOVE).message("maxQuantity must not be below quantity")
)]
pub struct MachineClassMemory {
    /// Number of bytes, or a quantity such as `4Gi`.
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT_OR_BYTES).message(rules::AMOUNT_OR_BYTES),
        validation = Rule::new(rules::IS_COUNTABLE_OR_BYTES).message(rules::COUNTABLE)
    )]
    pub quantity: QuantityValue,
    /// Minimum that a Machine may request. No bound if 0 or not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new(rules::IS_BOUND).message("must be a quantity, such as 2Gi"),
        validation = Rule::new(rules::IS_COUNTABLE_OR_BYTES).message(rules::COUNTABLE)
    )]
    pub min_quantity: Option<QuantityValue>,
    /// Maximum that a Machine may request. No bound if 0 or not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new(rules::IS_BOUND).message("must be a quantity, such as 8Gi"),
        validation = Rule::new(rules::IS_COUNTABLE_OR_BYTES).message(rules::COUNTABLE)
    )]
    pub max_quantity: Option<QuantityValue>,
}

/// A disk of a class.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassDisk {
    /// Name of the disk, by which Machines override it.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new(rules::IS_DNS_LABEL).message(rules::DNS_LABEL),
        validation = Rule::new("self != 'cloudinitdisk'").message("cloudinitdisk is the name of the cloud-init volume: choose another")
    )]
    pub name: String,
    /// Size as a quantity, such as `20Gi`.
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT).message("must be a quantity of at least 1Mi, such as 20Gi"),
        validation = Rule::new(rules::IS_COUNTABLE).message(rules::COUNTABLE)
    )]
    pub size: String,
    /// Name of the StorageClass. If not set or `default`: the class named `default`, else the cluster's
    /// default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub storage_class: Option<String>,
    /// Access mode of the volume. Defaults to ReadWriteOnce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Volume mode. Defaults to Filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
}

/// GPU of a class.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassGpu {
    /// GPU cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cores: Option<i32>,
    /// Manufacturer of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub manufacturer: Option<String>,
}

/// Status that other Viti operators write. This operator neither reads nor changes it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassStatus {
    /// Name of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Phase of the class's lifecycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// State of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Human-readable details about the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which the class was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}
