//! Errors of a target.

use std::fmt;

/// Why a KubeVirt resource has no valid target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    NoVersion,
    NoRegistry,
    /// Invalid tag.
    Tag(String),
    /// A digest instead of a tag.
    Digest,
    /// Invalid registry.
    Registry(String),
}

impl TargetError {
    /// The field of the KubeVirt resource.
    pub fn field(&self) -> &'static str {
        match self {
            Self::NoVersion | Self::Tag(_) | Self::Digest => "spec.imageTag",
            Self::NoRegistry | Self::Registry(_) => "spec.imageRegistry",
        }
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion => f.write_str(
                "spec.imageTag is empty, and the operator's VIRT_OPERATOR_IMAGE and \
                 KUBEVIRT_VERSION name no version: set spec.imageTag, for example to v1.9.0",
            ),
            Self::NoRegistry => f.write_str(
                "spec.imageRegistry is empty, and the operator's VIRT_OPERATOR_IMAGE names no \
                 registry: set spec.imageRegistry, for example to quay.io/kubevirt",
            ),
            Self::Tag(tag) => write!(
                f,
                "spec.imageTag {tag:?} is not a valid image tag: use at most 128 letters, digits, \
                 '.', '_' and '-'"
            ),
            Self::Digest => f.write_str(
                "spec.imageTag is a digest, but every image has its own: set a tag, or leave it \
                 empty and set the operator's VIRT_OPERATOR_IMAGE, VIRT_API_IMAGE and so on",
            ),
            Self::Registry(registry) => write!(
                f,
                "spec.imageRegistry {registry:?} is not a valid registry: use a host, a port and a \
                 path, such as registry.example:5000/kubevirt"
            ),
        }
    }
}

impl std::error::Error for TargetError {}
