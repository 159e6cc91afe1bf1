//! The kinds that actors watch and write, by the names the API knows them by.

use kube::core::ApiResource;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version of the group.
    pub version: &'static str,
    /// The kind itself, as in `kind: Pod`.
    pub kind: &'static str,
    /// What its collection is called in a path.
    pub plural: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether a CustomResourceDefinition has to be there before it can be watched.
    pub custom: bool,
}

impl Kind {
    /// A built-in kind whose objects live in namespaces.
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

    /// A built-in kind whose objects live beside namespaces.
    pub const fn cluster(
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
            namespaced: false,
            custom: false,
        }
    }

    /// The same kind, known to the server through a CustomResourceDefinition.
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

    /// The name of the CustomResourceDefinition that defines the kind.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The kind as a client knows it.
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

/// core/v1 Namespace.
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
/// core/v1 Node.
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
/// core/v1 Pod.
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// core/v1 ServiceAccount.
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
/// core/v1 ConfigMap.
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
/// core/v1 Event.
pub const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
/// core/v1 Service.
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
/// core/v1 PersistentVolumeClaim.
pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
/// core/v1 PersistentVolume.
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
/// storage.k8s.io/v1 StorageClass.
pub const STORAGE_CLASS: Kind =
    Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
/// apps/v1 Deployment.
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
/// apps/v1 ReplicaSet.
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
/// apps/v1 DaemonSet.
pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
/// apps/v1 StatefulSet.
pub const STATEFUL_SET: Kind = Kind::namespaced("apps", "v1", "StatefulSet", "statefulsets");
/// apps/v1 ControllerRevision.
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
/// batch/v1 Job.
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
/// policy/v1 PodDisruptionBudget.
pub const DISRUPTION_BUDGET: Kind = Kind::namespaced(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
);
/// coordination.k8s.io/v1 Lease.
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// discovery.k8s.io/v1 EndpointSlice.
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
/// apiregistration.k8s.io/v1 APIService.
pub const API_SERVICE: Kind =
    Kind::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices");
/// apiextensions.k8s.io/v1 CustomResourceDefinition.
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
/// cdi.kubevirt.io/v1beta1 DataVolume.
pub const DATA_VOLUME: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes").custom();
/// cdi.kubevirt.io/v1beta1 DataSource.
pub const DATA_SOURCE: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataSource", "datasources").custom();
