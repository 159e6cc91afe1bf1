//! The parts of the containerized data importer's API that we read or write.

use kube::{CustomResource, Resource};
use serde::{Deserialize, Serialize};

use crate::{
    Json, ObjectMeta, ObservedCondition, RegistryPullMethod, core::PersistentVolumeClaimSpec,
};

/// A disk that CDI fills.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataVolume",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSpec {
    /// What the disk is filled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DataVolumeSource>,
    /// A named source, instead of `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<DataVolumeSourceRef>,
    /// The volume that is wanted. CDI adds the overhead of a file system to its size, so that the
    /// guest gets what was asked for.
    pub storage: PersistentVolumeClaimSpec,
}

/// What a disk is filled with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DataVolumeSource {
    /// An image behind a URL.
    Http(DataVolumeSourceHttp),
    /// A container disk in a registry.
    Registry(DataVolumeSourceRegistry),
    /// A copy of a claim.
    Pvc(DataVolumeSourceObject),
    /// A copy of a snapshot.
    Snapshot(DataVolumeSourceObject),
    /// Nothing.
    Blank {},
}

/// An image behind a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceHttp {
    /// Where the image is.
    pub url: String,
    /// Secret for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// ConfigMap with a certificate authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
}

/// A container disk in a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceRegistry {
    /// Where the image is.
    pub url: String,
    /// Secret for the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// ConfigMap with a certificate authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
    /// Who pulls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<RegistryPullMethod>,
}

/// Another object to copy from. CDI wants the namespace spelled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceObject {
    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

/// A named source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceRef {
    /// Always DataSource.
    pub kind: String,
    /// Namespace of the DataSource; the volume's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the DataSource.
    pub name: String,
}

/// A DataVolume as it is in the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "DataVolume")]
pub struct ObservedDataVolume {
    /// Name, labels, owner.
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub spec: Json,
    /// How far it is.
    #[serde(default)]
    pub status: DataVolumeStatus,
}

/// How far a DataVolume is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataVolumeStatus {
    /// What CDI is doing; Succeeded when it is done.
    #[serde(default)]
    pub phase: String,
    /// How often the pod that fills it was restarted.
    #[serde(default, rename = "restartCount")]
    pub restart_count: i64,
    /// One a type.
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}
