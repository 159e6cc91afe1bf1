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

/// The CNI configuration of a network for virtual machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CniConfig {
    /// Version of the CNI specification.
    pub cni_version: String,
    /// Name of the network.
    pub name: String,
    /// The plugin and its settings.
    #[serde(flatten)]
    pub plugin: CniPlugin,
    /// Largest packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// No address management: the guest has its own.
    pub ipam: CniIpam,
}

/// A CNI plugin and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum CniPlugin {
    /// A port on a Linux bridge.
    Bridge {
        /// The bridge on the node.
        bridge: String,
        /// Tag of the traffic.
        #[serde(skip_serializing_if = "Option::is_none")]
        vlan: Option<i32>,
    },
    /// A VLAN interface on the node's default route.
    Vlan {
        /// Tag of the traffic.
        vlan_id: i32,
    },
}

/// Address management of a network: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniIpam {}
