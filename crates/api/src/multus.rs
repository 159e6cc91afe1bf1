//! The part of Multus' API that the operator writes.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI configuration, as JSON text.
    pub config: String,
}

/// CNI configuration of a port on a Linux bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeConfig {
    pub cni_version: String,
    pub name: String,
    #[serde(rename = "type")]
    pub type_: String,
    pub bridge: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i32>,
    /// Whether the port is in the bridge's default VLAN as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_default_vlan: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    pub ipam: NoIpam,
}

/// No address management: the guest configures its own addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoIpam {}
