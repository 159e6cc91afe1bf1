//! The part of Multus' API that we write.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A network that pods can attach to.
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

/// The CNI configuration of a network for virtual machines: a port on a Linux bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeConfig {
    /// Version of the CNI specification.
    pub cni_version: String,
    /// Name of the network.
    pub name: String,
    /// Always `bridge`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The bridge on the node.
    pub bridge: String,
    /// Tag of the traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i32>,
    /// Whether the port is in the bridge's default VLAN too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_default_vlan: Option<bool>,
    /// Largest packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// No address management: the guest has its own.
    pub ipam: NoIpam,
}

/// Address management of a network: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoIpam {}
