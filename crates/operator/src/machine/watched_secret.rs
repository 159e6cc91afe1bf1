//! Metadata of the operator's Secrets, as the watch delivers it: their data is never in memory.

use api::{ObjectMeta, labels};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use plan::machine::SecretMetadata;
use runtime::cache::{CachedObject, Key};

/// Secret with the operator's label, without its data.
#[derive(Debug)]
pub(super) struct WatchedSecret {
    key: Key,
    uid: Option<Box<str>>,
    version: u64,
    machine: Option<Key>,
    pub(super) metadata: SecretMetadata,
}

impl WatchedSecret {
    pub(super) fn new(metadata: &ObjectMeta) -> Self {
        let key = Key::of(metadata);
        let machine = metadata.labels.as_ref();
        let machine = machine.and_then(|labels| labels.get(labels::MACHINE));
        let version = metadata.resource_version.as_deref();
        Self {
            uid: metadata.uid.as_deref().map(Box::from),
            version: version
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            machine: machine.map(|machine| Key::new(&key.namespace, machine)),
            metadata: SecretMetadata::of(metadata),
            key,
        }
    }

    pub(super) fn slim(object: &PartialObjectMeta<Secret>) -> Self {
        Self::new(&object.metadata)
    }

    /// Machine in the label of the Secret.
    pub(super) fn machine(&self) -> Option<&Key> {
        self.machine.as_ref()
    }
}

impl CachedObject for WatchedSecret {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn version(&self) -> u64 {
        self.version
    }
}
