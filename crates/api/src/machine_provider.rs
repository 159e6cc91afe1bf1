//! The part of the Viti stack's MachineProvider that the operator writes.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "MachineProvider",
    plural = "machineproviders",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineProviderSpec {
    pub display_name: String,
    pub provider_type: String,
    /// Required by the definition. Users may change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    pub authentication: ProviderAuthentication,
}

/// How the provider authenticates to what it manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderAuthentication {
    #[serde(rename = "type")]
    pub type_: String,
}
