//! The part of the Viti stack's NetworkNamespace that the operator reads.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::AllocationMethod;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "NetworkNamespace",
    plural = "networknamespaces",
    namespaced,
    status = "NetworkNamespaceStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkNamespaceSpec {
    /// Absent for DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocation: Option<IpAllocation>,
}

/// How a NetworkNamespace allocates addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocation {
    #[serde(rename = "type")]
    pub type_: AllocationMethod,
    /// The operator that allocates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticAllocation>,
}

/// Pool of static addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticAllocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkNamespaceStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
    #[serde(rename = "ipv4Prefix", skip_serializing_if = "Option::is_none")]
    pub ipv4_prefix: Option<String>,
}
