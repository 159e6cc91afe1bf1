//! What a release of KubeVirt says it consists of.

use super::object::Object;

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// The objects, mended, in the order they are written in, each once.
    pub objects: Vec<Object>,
    /// What was mended.
    pub mended: Vec<String>,
}
