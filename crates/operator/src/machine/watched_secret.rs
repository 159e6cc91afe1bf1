//! Metadata of the operator's Secrets, as the watch delivers it: their data is never in memory.

use api::ObjectMeta;
use plan::machine::SecretMetadata;
use runtime::cache::{Key, Trimmed};

use super::packed::machine_of;

/// Secret with the operator's label, without its data.
pub(super) type WatchedSecret = Trimmed<LabelledSecret>;

#[derive(Debug)]
pub(super) struct LabelledSecret {
    machine: Option<Key>,
    pub(super) metadata: SecretMetadata,
}

pub(super) fn watched_secret(metadata: &ObjectMeta) -> WatchedSecret {
    let secret = LabelledSecret {
        machine: machine_of(metadata),
        metadata: SecretMetadata::of(metadata),
    };
    Trimmed::new(metadata, secret)
}

impl LabelledSecret {
    /// Machine in the label of the Secret.
    pub(super) fn machine(&self) -> Option<&Key> {
        self.machine.as_ref()
    }
}
