//! Kinds that the actors watch and write.

use kube::core::ApiResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// As in `kind: Pod`.
    pub kind: &'static str,
    /// Resource name, as in API paths.
    pub plural: &'static str,
    pub namespaced: bool,
    /// Whether it is defined by a CustomResourceDefinition.
    pub custom: bool,
}

impl Kind {
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            namespaced: true,
            custom: false,
        }
    }

    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            namespaced: false,
            ..Self::namespaced(group, version, kind, plural)
        }
    }

    /// Marks the kind as defined by a CustomResourceDefinition.
    #[must_use]
    pub const fn custom(mut self) -> Self {
        self.custom = true;
        self
    }

    /// As in `apiVersion: apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Name of the CustomResourceDefinition.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const STORAGE_CLASS: Kind =
    Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
pub const STATEFUL_SET: Kind = Kind::namespaced("apps", "v1", "StatefulSet", "statefulsets");
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const DISRUPTION_BUDGET: Kind = Kind::namespaced(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
);
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const API_SERVICE: Kind =
    Kind::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices");
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const DATA_VOLUME: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes").custom();
pub const DATA_SOURCE: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataSource", "datasources").custom();
