//! The part of the Viti stack's KubevirtConfig that the operator reads and writes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster in which Machines may have their virtual machines.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "KubevirtConfig",
    plural = "kubevirtconfigs",
    singular = "kubevirtconfig",
    shortname = "kvc",
    status = "KubevirtConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtConfigSpec {
    /// Name of the cluster, for people.
    #[serde(default)]
    pub name: String,
    /// Namespace of the Secret with the kubeconfig.
    #[serde(default)]
    pub secret_namespace: String,
    /// Name of the Secret with the kubeconfig, under the key `kubeconfig`.
    #[serde(default)]
    pub kubeconfig_secret_ref: String,
}

/// What the operator reports of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KubevirtConfigStatus {
    /// `Ready`, `Unreachable` or `Invalid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The phase in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The problem and its remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Definition for clusters that do not have the Viti stack's.
pub(crate) fn definition() -> CustomResourceDefinition {
    KubevirtConfig::crd()
}
