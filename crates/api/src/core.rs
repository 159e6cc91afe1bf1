//! The parts of the core and storage APIs that the operator reads or writes.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::{AccessMode, Json, ObjectMeta, ObservedCondition, VolumeMode};

#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim")]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    #[serde(default)]
    pub api_version: Cow<'static, str>,
    #[serde(default)]
    pub kind: Cow<'static, str>,
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeClaimSpec,
}

impl PersistentVolumeClaim {
    /// Sets `apiVersion` and `kind`.
    pub fn new(metadata: ObjectMeta, spec: PersistentVolumeClaimSpec) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            metadata,
            spec,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// The cluster's default class if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<AccessMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    #[serde(default)]
    pub resources: VolumeResources,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeResources {
    #[serde(default)]
    pub requests: StorageRequest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageRequest {
    #[serde(default)]
    pub storage: String,
}

/// A Secret. `Debug` never shows its content.
#[derive(Resource, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Secret")]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    #[serde(default)]
    pub api_version: Cow<'static, str>,
    #[serde(default)]
    pub kind: Cow<'static, str>,
    pub metadata: ObjectMeta,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, ByteString>,
    /// Plain text that the API server merges into `data`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub string_data: BTreeMap<String, String>,
}

impl Secret {
    /// Sets `apiVersion`, `kind` and `type`.
    pub fn new(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Secret".into(),
            metadata,
            type_: Some("Opaque".into()),
            data,
            string_data: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.data.keys().chain(self.string_data.keys()).collect();
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// A ConfigMap. `Debug` does not show its content, which may be user data.
#[derive(Resource, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::ConfigMap")]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, ByteString>,
}

impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.data.keys().chain(self.binary_data.keys()).collect();
        f.debug_struct("ConfigMap")
            .field("metadata", &self.metadata)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::StorageClass")]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// An annotation marks the cluster's default.
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_volume_expansion: Option<bool>,
}

/// A claim as read from the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim")]
pub struct ObservedClaim {
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeClaimSpec,
    #[serde(default)]
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimStatus {
    #[serde(default)]
    pub phase: ClaimPhase,
    #[serde(default)]
    pub capacity: BTreeMap<String, String>,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ClaimPhase {
    /// No status has been written.
    #[default]
    Unset,
    Pending,
    Bound,
    /// The volume behind it is gone.
    Lost,
    /// A phase of a later Kubernetes.
    Other(String),
}

impl From<String> for ClaimPhase {
    fn from(phase: String) -> Self {
        match phase.as_str() {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Bound" => Self::Bound,
            "Lost" => Self::Lost,
            _ => Self::Other(phase),
        }
    }
}

impl From<ClaimPhase> for String {
    fn from(phase: ClaimPhase) -> Self {
        match phase {
            ClaimPhase::Unset => "",
            ClaimPhase::Pending => "Pending",
            ClaimPhase::Bound => "Bound",
            ClaimPhase::Lost => "Lost",
            ClaimPhase::Other(phase) => return phase,
        }
        .to_owned()
    }
}

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::ResourceQuota")]
pub struct ResourceQuota {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ResourceQuotaSpec,
    #[serde(default)]
    pub status: ResourceQuotaStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuotaSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<Json>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceQuotaStatus {
    #[serde(default)]
    pub hard: BTreeMap<String, String>,
    #[serde(default)]
    pub used: BTreeMap<String, String>,
}
