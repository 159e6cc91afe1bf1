//! Cloud-init data of a Machine.

use std::fmt;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// Cloud-init data for the guest.
#[derive(KubeSchema, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.secretRef) || !has(self.userDataSecretRef)").message("secretRef and userDataSecretRef say the same thing: give one or the other"))]
pub struct CloudInit {
    /// Data source that the guest finds. Defaults to noCloud.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<CloudInitType>,
    /// Inline user data. Takes precedence over all other user data. If there is none at all, the guest
    /// gets an empty configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 524_288))]
    pub user_data: Option<String>,
    /// Inline user data in base64. Takes precedence over references.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 699_052))]
    pub user_data_base64: Option<String>,
    /// Secret in the Machine's namespace with the user data. Its key defaults to userdata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CloudInitSecretRef>,
    /// The same as `secretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data_secret_ref: Option<CloudInitSecretRef>,
    /// ConfigMap in the Machine's namespace with the user data. Its key defaults to userdata. Secrets
    /// take precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data_config_map_ref: Option<CloudInitConfigMapRef>,
    /// Network configuration, version 1 or 2. Takes precedence over all other network data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub network_data: Option<String>,
    /// Network configuration in base64. Takes precedence over references.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 349_528))]
    pub network_data_base64: Option<String>,
    /// Secret in the Machine's namespace with the network configuration. Its key defaults to
    /// networkdata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data_secret_ref: Option<CloudInitSecretRef>,
    /// ConfigMap in the Machine's namespace with the network configuration. Its key defaults to
    /// networkdata. A Secret takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data_config_map_ref: Option<CloudInitConfigMapRef>,
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudInit")
            .field("type_", &self.type_)
            .field("user_data", &self.user_data.is_some())
            .field("user_data_base64", &self.user_data_base64.is_some())
            .field("secret_ref", &self.secret_ref)
            .field("user_data_secret_ref", &self.user_data_secret_ref)
            .field("user_data_config_map_ref", &self.user_data_config_map_ref)
            .field("network_data", &self.network_data.is_some())
            .field("network_data_base64", &self.network_data_base64.is_some())
            .field("network_data_secret_ref", &self.network_data_secret_ref)
            .field(
                "network_data_config_map_ref",
                &self.network_data_config_map_ref,
            )
            .finish()
    }
}

/// Data source that the guest finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = omit_description)]
pub enum CloudInitType {
    /// NoCloud.
    #[default]
    NoCloud,
    /// ConfigDrive, as of OpenStack.
    ConfigDrive,
}

/// Reference to a key of a Secret.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInitSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: String,
    /// Key in the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]*$')").message("must be a key of a Secret: letters, digits, '-', '_' and '.'"))]
    pub key: Option<String>,
}

/// Reference to a key of a ConfigMap.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInitConfigMapRef {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: String,
    /// Key in the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]*$')").message("must be a key of a ConfigMap: letters, digits, '-', '_' and '.'"))]
    pub key: Option<String>,
}
