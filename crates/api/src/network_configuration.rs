//! The NetworkConfiguration resource.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::Condition;

/// Network that Machines can attach to.
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
    doc = "A network that Machines of this namespace can attach to. The operator creates one NetworkAttachmentDefinition for it, which they share.",
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
pub struct NetworkConfigurationSpec {
    /// VLAN tag. Traffic is untagged if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<i32>,
    /// Name of the Linux bridge on the nodes.
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-_.A-Za-z0-9]*$')").message("must be the name of a network device: letters, digits, '-', '_' and '.'"))]
    pub bridge: String,
    /// Maximum transmission unit. Defaults to that of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<i32>,
    /// Purpose of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
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
}
