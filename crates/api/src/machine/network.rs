//! Network interfaces of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field_speaks;
use crate::rules;

/// One network interface.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.macAddress) == has(oldSelf.macAddress) && (!has(self.macAddress) || self.macAddress == oldSelf.macAddress)").message("macAddress is immutable: remove the network and add it under another name").field_path(".macAddress"))]
pub struct Network {
    /// Identifies the interface.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-_A-Za-z0-9]*[A-Za-z0-9])?$')").message("must have letters, digits, '-' and '_' only, beginning and ending with a letter or digit"))]
    pub name: String,

    /// The NetworkConfiguration in the Machine's namespace to attach to.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message("must be a DNS name, as the names of NetworkConfigurations are: lower case letters, digits, '-' and '.'"))]
    pub network_name: String,

    /// Model of the network card. Default: virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<NetworkModel>,

    /// MAC address, such as `52:54:00:12:34:56`; one is made when absent. Cannot be changed.
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
#[schemars(transform = field_speaks)]
pub enum NetworkModel {
    /// Paravirtualized.
    Virtio,
    /// Intel E1000.
    E1000,
    /// Realtek RTL8139.
    Rtl8139,
}
