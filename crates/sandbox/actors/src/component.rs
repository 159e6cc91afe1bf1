//! Optional components of a cluster.

use serde_json::Value;

use crate::{cdi, kubevirt, networks};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    KubeVirt,
    /// KubeVirt's Containerized Data Importer.
    Cdi,
    /// Secondary networks of pods.
    Multus,
}

impl Component {
    /// In the order in which they are installed.
    pub const ALL: [Self; 3] = [Self::Cdi, Self::Multus, Self::KubeVirt];

    /// CustomResourceDefinitions. Actors watch their kinds only while these exist.
    pub fn definitions(self) -> Vec<Value> {
        match self {
            Self::KubeVirt => kubevirt::crds(),
            Self::Cdi => cdi::crds(),
            Self::Multus => networks::crds(),
        }
    }
}
