use std::fmt;

/// Why it cannot be told which KubeVirt is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// Nobody names a version.
    NoVersion,
    /// Nobody names a registry.
    NoRegistry,
    /// No image can have that tag.
    Tag(String),
    /// A digest where a tag belongs.
    Digest,
    /// No image can be there.
    Registry(String),
}

impl TargetError {
    /// The field of the KubeVirt resource that it is about.
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
                "spec.imageTag {tag:?} is not the tag of an image: it may have letters, digits, \
                 '.', '_' and '-', at most 128 of them"
            ),
            Self::Digest => f.write_str(
                "spec.imageTag is a digest, and every image has its own: give a tag, or leave it \
                 out and set the operator's VIRT_OPERATOR_IMAGE, VIRT_API_IMAGE and so on",
            ),
            Self::Registry(registry) => write!(
                f,
                "spec.imageRegistry {registry:?} is not where images can be: it may have a host, \
                 a port and a path, such as registry.example:5000/kubevirt"
            ),
        }
    }
}

impl std::error::Error for TargetError {}
