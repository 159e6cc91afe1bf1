//! Which KubeVirt is wanted.

use std::collections::BTreeMap;

/// The operator itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The namespace it runs in, and the only one whose KubeVirt resource it serves.
    pub namespace: String,
    /// Its own version.
    pub version: String,
    /// The image of KubeVirt's own operator, which names the version and the registry of a KubeVirt
    /// resource that names none (`VIRT_OPERATOR_IMAGE`).
    pub image: Option<String>,
    /// The version of images that are named by digest (`KUBEVIRT_VERSION`).
    pub kubevirt_version: Option<String>,
    /// Images of single components (`VIRT_API_IMAGE`...), by the variable's name.
    pub images: BTreeMap<String, String>,
    /// What every component gets into its environment (`KV_IO_EXTRA_ENV_`...), without the prefix.
    pub passthrough: BTreeMap<String, String>,
    /// The service account of the Jobs that dump strategies.
    pub service_account: String,
}

/// The KubeVirt that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its version.
    pub version: String,
    /// Where its images are.
    pub registry: String,
    /// A digest of everything it depends on.
    pub id: String,
}
