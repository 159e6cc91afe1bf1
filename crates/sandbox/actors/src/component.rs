//! What a cluster may have beside Kubernetes itself.

use serde_json::Value;

use crate::{cdi, kubevirt, networks};

/// Something that is installed into a cluster, and may be missing in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Virtual machines.
    KubeVirt,
    /// KubeVirt's Containerized Data Importer: DataVolumes.
    Cdi,
    /// Networks beside that of the pods.
    Multus,
}

impl Component {
    /// All there are, in the order in which they are installed.
    pub const ALL: [Self; 3] = [Self::Cdi, Self::Multus, Self::KubeVirt];

    /// Its CustomResourceDefinitions. What acts on their objects begins when they are there, and
    /// rests when they are gone.
    pub fn definitions(self) -> Vec<Value> {
        match self {
            Self::KubeVirt => kubevirt::crds(),
            Self::Cdi => cdi::crds(),
            Self::Multus => networks::crds(),
        }
    }
}
