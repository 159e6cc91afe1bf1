//! The NetworkConfiguration resource.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, machine::omit_description};

/// `spec.provider` of networks that Machines can attach to. The operators of the Viti stack that allocate
/// addresses skip NetworkConfigurations of other providers, and take one without a provider for theirs.
pub const NETWORK_PROVIDER: &str = crate::labels::MANAGER;

/// Network that Machines can attach to, or a record of a Machine's addresses.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "NetworkConfiguration",
    plural = "networkconfigurations",
    singular = "networkconfiguration",
    shortname = "nc",
    category = "vitistack",
    namespaced,
    status = "NetworkConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A network that Machines of this namespace can attach to, if it has a bridge: the operator creates one NetworkAttachmentDefinition for it, which they share. Without a bridge it records addresses for other operators of the Viti stack, and this operator leaves it alone.",
    printcolumn(name = "VLAN", type_ = "integer", json_path = ".spec.vlan"),
    printcolumn(name = "Bridge", type_ = "string", json_path = ".spec.bridge"),
    printcolumn(name = "MTU", type_ = "integer", json_path = ".spec.mtu", priority = 1),
    printcolumn(
        name = "Users",
        type_ = "string",
        json_path = ".status.users",
        description = "Names of the attached Machines",
        priority = 1
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters: it becomes the value of the label vitistack.io/network-configuration")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.bridge) || has(self.name)").message("give the bridge of the network; without one, a NetworkConfiguration records addresses and needs a name").reason(Reason::FieldValueRequired).field_path(".bridge"),
    validation = Rule::new("!has(oldSelf.bridge) || has(self.bridge)").message("bridge cannot be removed: Machines may be attached to the network; delete the NetworkConfiguration instead").field_path(".bridge")
)]
pub struct NetworkConfigurationSpec {
    /// VLAN tag. Traffic is untagged if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<i32>,
    /// Name of the Linux bridge on the nodes. Machines can attach to networks with a bridge only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-_.A-Za-z0-9]*$')").message("must be the name of a network device: letters, digits, '-', '_' and '.'"))]
    pub bridge: Option<String>,
    /// Maximum transmission unit. Defaults to that of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<i32>,
    /// Purpose of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Short name of an address ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub name: Option<String>,
    /// The operator that allocates the addresses, such as `kea`. This operator writes `kubevirt-operator` to a
    /// network with a bridge that has no provider, so that no other operator handles it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub provider: Option<String>,
    /// The NetworkNamespace whose addresses are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network_namespace_name: Option<String>,
    /// Interfaces that get addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub network_interfaces: Option<Vec<NetworkConfigurationInterface>>,
    /// Identifier of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cluster_identifier: Option<String>,
    /// Identifier of the data center.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub datacenter_identifier: Option<String>,
    /// Identifier of the supervisor cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub supervisor_identifier: Option<String>,
}

impl NetworkConfiguration {
    /// Whether this is a network that Machines can attach to, not an address ledger.
    pub fn is_network(&self) -> bool {
        self.spec.bridge.is_some()
    }
}

/// An interface and its addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfigurationInterface {
    /// Name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IPv4 addresses.
    #[serde(rename = "ipv4Addresses", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ipv4_addresses: Option<Vec<String>>,
    /// IPv4 subnet.
    #[serde(rename = "ipv4Subnet", skip_serializing_if = "Option::is_none")]
    pub ipv4_subnet: Option<String>,
    /// IPv4 gateway.
    #[serde(rename = "ipv4Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// IPv6 addresses.
    #[serde(rename = "ipv6Addresses", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ipv6_addresses: Option<Vec<String>>,
    /// IPv6 subnet.
    #[serde(rename = "ipv6Subnet", skip_serializing_if = "Option::is_none")]
    pub ipv6_subnet: Option<String>,
    /// IPv6 gateway.
    #[serde(rename = "ipv6Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// DNS servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub dns: Option<Vec<String>>,
    /// VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<String>,
    /// Whether the addresses are reserved in the DHCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp_reserved: Option<bool>,
    /// Whether an address is allocated.
    #[serde(rename = "ipAllocated", skip_serializing_if = "Option::is_none")]
    pub ip_allocated: Option<bool>,
    /// How the addresses are allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_method: Option<AllocationMethod>,
    /// Time at which the allocation expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub allocation_expiry: Option<String>,
}

/// How addresses are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum AllocationMethod {
    Dhcp,
    Static,
}

/// Observed state of a network.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfigurationStatus {
    /// Names of the attached Machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub users: Option<Vec<String>>,
    /// Generation of the spec that this status is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions by type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
    /// Phase of an address ledger. The operator that allocates them writes this and the following
    /// fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// State of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Human-readable details about the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which the record was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Interfaces with their addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub network_interfaces: Option<Vec<NetworkConfigurationInterface>>,
}
