//! The parts of the core and storage APIs that we read or write.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::{AccessMode, Json, ObjectMeta, ObservedCondition, VolumeMode};

/// A claim for a volume: one disk.
#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim")]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    /// Always `v1`.
    #[serde(default)]
    pub api_version: Cow<'static, str>,
    /// Always PersistentVolumeClaim.
    #[serde(default)]
    pub kind: Cow<'static, str>,
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// The volume that is wanted.
    pub spec: PersistentVolumeClaimSpec,
}

impl PersistentVolumeClaim {
    /// A claim with its type filled in.
    pub fn new(metadata: ObjectMeta, spec: PersistentVolumeClaimSpec) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            metadata,
            spec,
        }
    }
}

/// The volume that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// Absent: the cluster's default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Who can mount the volume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<AccessMode>,
    /// How the volume is presented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// How large it is.
    #[serde(default)]
    pub resources: VolumeResources,
}

/// How large a volume is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeResources {
    /// At least this much.
    #[serde(default)]
    pub requests: StorageRequest,
}

/// An amount of storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageRequest {
    /// A quantity.
    #[serde(default)]
    pub storage: String,
}

/// A Secret. Its content is never shown by `Debug`.
#[derive(Resource, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Secret")]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Always `v1`.
    #[serde(default)]
    pub api_version: Cow<'static, str>,
    /// Always `Secret`.
    #[serde(default)]
    pub kind: Cow<'static, str>,
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// Kind of content.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Cow<'static, str>>,
    /// Content by key, base64 on the wire.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, ByteString>,
    /// Content by key as people write it; the API server turns it into `data`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub string_data: BTreeMap<String, String>,
}

impl Secret {
    /// A Secret with its type filled in.
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

/// A class of storage.
#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::StorageClass")]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// Name, and the annotation that marks the cluster's default.
    pub metadata: ObjectMeta,
    /// Whether its volumes can grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_volume_expansion: Option<bool>,
}

/// A claim as it is in the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim")]
pub struct ObservedClaim {
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// The volume that is wanted.
    pub spec: PersistentVolumeClaimSpec,
    /// The volume that there is.
    #[serde(default)]
    pub status: ClaimStatus,
}

/// What became of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimStatus {
    /// Pending, Bound or Lost.
    #[serde(default)]
    pub phase: String,
    /// How large the volume is.
    #[serde(default)]
    pub capacity: BTreeMap<String, String>,
    /// One a type.
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

/// What a namespace may use.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::ResourceQuota")]
pub struct ResourceQuota {
    /// Its name.
    pub metadata: ObjectMeta,
    /// What it counts.
    #[serde(default)]
    pub spec: ResourceQuotaSpec,
    /// What is left of it.
    #[serde(default)]
    pub status: ResourceQuotaStatus,
}

/// What a quota counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuotaSpec {
    /// Only some of the pods or claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Only some of the pods or claims, chosen otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<Json>,
}

/// What a quota allows, and what is used of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceQuotaStatus {
    /// The most of each resource.
    #[serde(default)]
    pub hard: BTreeMap<String, String>,
    /// What is used of each.
    #[serde(default)]
    pub used: BTreeMap<String, String>,
}
