//! Fields of a Machine that other programs of the Viti stack set.
//!
//! Fields that only other providers support have no effect here. They are accepted, so that a Machine can
//! move between providers, and keep their shape.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// Network of the machine, by NetworkNamespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetwork {
    /// The NetworkNamespace in the Machine's namespace whose VLAN the machine is attached to. The operator
    /// records the machine's interface in a NetworkConfiguration of the Machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME_OR_EMPTY).message(rules::DNS_NAME))]
    pub network_namespace_name: Option<String>,
    /// Virtual network. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// Subnet. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Whether the machine gets a public address. For other providers.
    #[serde(rename = "assignPublicIP", skip_serializing_if = "Option::is_none")]
    pub assign_public_ip: Option<bool>,
    /// Static private address. For other providers.
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    /// Static public address. For other providers.
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    /// Network interfaces. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<MachineNetworkInterface>>,
}

/// Network interface of another provider.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetworkInterface {
    /// Name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether this is the primary interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// Security groups of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
    /// Subnet of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
}

/// Operating system of the machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOs {
    /// Family, such as `linux`. Information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Distribution, such as `talos`. Information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Version. Information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Architecture. Information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Installer image: a URL with `http://`, `https://`, `docker://` or `oci-archive://`. The machine
    /// has it as a CD-ROM until the annotation `vitistack.io/os-installed` or
    /// `vitistack.io/cdrom-ejected` is `"true"`.
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Image family. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// URI of an ISO image. For other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iso_uri: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
}

/// Configuration of a cloud provider.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfig {
    /// Name of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Availability zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Settings of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Secret with credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsRef>,
}

/// Secret with credentials of a cloud provider.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRef {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Namespace of the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Backups of the machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Whether backups are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Schedule in cron format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Number of days for which backups are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<i64>,
}
