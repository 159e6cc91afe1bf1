//! Network interfaces of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// A network interface of the machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.networkName) != (has(self.pod) && self.pod)").message("give either networkName, or pod: true for the pod network"),
    validation = Rule::new("!has(self.addresses) || !has(self.pod) || !self.pod || self.addresses.size() == 0").message("the pod network gives the machine its address: leave addresses out"),
    validation = Rule::new("has(self.macAddress) == has(oldSelf.macAddress) && (!has(self.macAddress) || self.macAddress == oldSelf.macAddress)").message("macAddress is immutable: remove the network and add it under another name").field_path(".macAddress")
)]
pub struct Network {
    /// Name of the interface.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-_A-Za-z0-9]*[A-Za-z0-9])?$')").message("must have letters, digits, '-' and '_' only, beginning and ending with a letter or digit"))]
    pub name: String,

    /// The NetworkConfiguration in the Machine's namespace to attach to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be a DNS name, as the names of NetworkConfigurations are: lower case letters, digits, '-' and '.'"))]
    pub network_name: Option<String>,

    /// Whether this is the pod network, behind the pod's address, instead of a NetworkConfiguration. At most
    /// one network is. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<bool>,

    /// Static addresses of the interface, each with the length of its prefix, such as `192.0.2.10/24`. They
    /// reach the guest as cloud-init network data, in which interfaces without addresses use DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub addresses: Option<Vec<String>>,

    /// Default gateway, in one of the subnets of `addresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub gateway: Option<String>,

    /// Addresses of name servers. Needs `addresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    pub nameservers: Option<Vec<String>>,

    /// Model of the network card. Defaults to virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<NetworkModel>,

    /// MAC address, such as `52:54:00:12:34:56`. If not set, KubeVirt generates one; the operator does, if a
    /// network of the Machine has `addresses`. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17))]
    #[x_kube(
        validation = Rule::new("self.matches('^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$')").message("must be six pairs of hexadecimal digits joined by ':', such as 52:54:00:12:34:56"),
        validation = Rule::new("!self.matches('^[0-9A-Fa-f][13579BDFbdf]:')").message("is a multicast address: the second digit must be even, as in 52:54:00:12:34:56")
    )]
    pub mac_address: Option<String>,
}

/// Model of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum NetworkModel {
    /// Paravirtualized.
    Virtio,
    /// Intel E1000.
    E1000,
    /// Realtek RTL8139.
    Rtl8139,
}
