//! The parts of the API of CDI (Containerized Data Importer) that the operator reads or writes.

use kube::{CustomResource, Resource};
use serde::{Deserialize, Serialize};

use crate::{
    Json, ObjectMeta, ObservedCondition, RegistryPullMethod, core::PersistentVolumeClaimSpec,
};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DataVolumeSource>,
    /// Instead of `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<DataVolumeSourceRef>,
    /// CDI adds the overhead of a file system to the size, so that the guest gets the requested size.
    pub storage: PersistentVolumeClaimSpec,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DataVolumeSource {
    Http(DataVolumeSourceHttp),
    Registry(DataVolumeSourceRegistry),
    Pvc(DataVolumeSourceObject),
    Snapshot(DataVolumeSourceObject),
    Blank {},
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceHttp {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceRegistry {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<RegistryPullMethod>,
}

/// Another object to clone. CDI requires the namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataVolumeSourceRef {
    /// Always DataSource.
    pub kind: String,
    /// The DataVolume's namespace if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

/// A DataVolume as read from the cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "DataVolume")]
pub struct ObservedDataVolume {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Json,
    #[serde(default)]
    pub status: DataVolumeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataVolumeStatus {
    #[serde(default)]
    pub phase: DataVolumePhase,
    /// Restarts of the pod that fills the volume.
    #[serde(default, rename = "restartCount")]
    pub restart_count: i64,
    #[serde(default)]
    pub conditions: Vec<ObservedCondition>,
}

/// Progress of CDI with a DataVolume. Phases that no decision depends on keep CDI's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DataVolumePhase {
    /// CDI has written no status.
    #[default]
    Unset,
    CloneScheduled,
    CloneInProgress,
    CloneFromSnapshotSourceInProgress,
    /// The volume is filled.
    Succeeded,
    Failed,
    Other(String),
}

impl DataVolumePhase {
    /// Whether CDI copies another volume with a pod or from a snapshot.
    pub fn is_clone(&self) -> bool {
        matches!(
            self,
            Self::CloneScheduled | Self::CloneInProgress | Self::CloneFromSnapshotSourceInProgress
        )
    }
}

impl From<String> for DataVolumePhase {
    fn from(phase: String) -> Self {
        match phase.as_str() {
            "" => Self::Unset,
            "CloneScheduled" => Self::CloneScheduled,
            "CloneInProgress" => Self::CloneInProgress,
            "CloneFromSnapshotSourceInProgress" => Self::CloneFromSnapshotSourceInProgress,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Other(phase),
        }
    }
}

impl From<DataVolumePhase> for String {
    fn from(phase: DataVolumePhase) -> Self {
        match phase {
            DataVolumePhase::Unset => "",
            DataVolumePhase::CloneScheduled => "CloneScheduled",
            DataVolumePhase::CloneInProgress => "CloneInProgress",
            DataVolumePhase::CloneFromSnapshotSourceInProgress => {
                "CloneFromSnapshotSourceInProgress"
            }
            DataVolumePhase::Succeeded => "Succeeded",
            DataVolumePhase::Failed => "Failed",
            DataVolumePhase::Other(phase) => return phase,
        }
        .to_owned()
    }
}
