//! Kinds that the commands read and write.

/// A kind of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
}

impl Kind {
    const fn namespaced(
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            name,
            plural,
            is_namespaced: true,
        }
    }

    /// Path of the collection, in one namespace or in all.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

const KUBEVIRT: &str = "kubevirt.io";
const SNAPSHOTS: &str = "snapshot.kubevirt.io";

pub(crate) const MACHINE: Kind =
    Kind::namespaced("vitistack.io", "v1alpha1", "Machine", "machines");
pub(crate) const NETWORK: Kind = Kind::namespaced(
    "vitistack.io",
    "v1alpha1",
    "NetworkConfiguration",
    "networkconfigurations",
);
pub(crate) const VM: Kind = Kind::namespaced(KUBEVIRT, "v1", "VirtualMachine", "virtualmachines");
pub(crate) const VMI: Kind = Kind::namespaced(
    KUBEVIRT,
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
);
pub(crate) const MIGRATION: Kind = Kind::namespaced(
    KUBEVIRT,
    "v1",
    "VirtualMachineInstanceMigration",
    "virtualmachineinstancemigrations",
);
pub(crate) const SNAPSHOT: Kind = Kind::namespaced(
    SNAPSHOTS,
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
);
pub(crate) const RESTORE: Kind = Kind::namespaced(
    SNAPSHOTS,
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
);
pub(crate) const DATA_VOLUME: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
pub(crate) const ATTACHMENT: Kind = Kind::namespaced(
    "k8s.cni.cncf.io",
    "v1",
    "NetworkAttachmentDefinition",
    "network-attachment-definitions",
);
pub(crate) const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub(crate) const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub(crate) const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
pub(crate) const NODE: Kind = Kind {
    group: "",
    version: "v1",
    name: "Node",
    plural: "nodes",
    is_namespaced: false,
};
