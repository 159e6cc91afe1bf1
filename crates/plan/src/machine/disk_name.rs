//! Names of a Machine's disks, from the metadata of their claims and DataVolumes.

use api::{ObjectMeta, labels};

use crate::naming;

/// Name of the disk that a claim or DataVolume with the label of this Machine provides: the annotation of
/// an adoption, or what follows the Machine's name.
pub(super) fn disk_name<'a>(machine: &str, metadata: &'a ObjectMeta) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref();
    if let Some(adopted) = annotations.and_then(|all| all.get(labels::DISK)) {
        return Some(adopted);
    }
    let prefix = naming::claim(machine, "");
    metadata.name.as_deref()?.strip_prefix(&prefix)
}
