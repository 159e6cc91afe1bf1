//! Cloud-init data of a Machine.

use std::fmt;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Cloud-init data for the guest.
#[derive(KubeSchema, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.userData) || has(self.networkData) || has(self.secretRef)").message("give userData, networkData or secretRef, or leave cloudInit out"))]
pub struct CloudInit {
    /// Inline user data. Takes precedence over `secretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 524_288))]
    pub user_data: Option<String>,
    /// Network configuration, version 1 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 262_144))]
    pub network_data: Option<String>,
    /// Secret in the Machine's namespace with the user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CloudInitSecretRef>,
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudInit")
            .field("user_data", &self.user_data.is_some())
            .field("network_data", &self.network_data.is_some())
            .field("secret_ref", &self.secret_ref)
            .finish()
    }
}

/// Reference to a key of a Secret.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInitSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: String,
    /// Key in the Secret. Defaults to userdata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]+$')").message("must be a key of a Secret: letters, digits, '-', '_' and '.'"))]
    pub key: Option<String>,
}
