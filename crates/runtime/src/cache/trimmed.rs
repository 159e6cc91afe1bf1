//! Objects of which the cache stores a part, or another form.

use std::{num::NonZeroU64, ops::Deref};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{CachedObject, Key, parse_resource_version};

/// Cached form of an object, with the key, UID and version of the original.
#[derive(Debug)]
pub struct Trimmed<T> {
    key: Key,
    uid: Option<Box<str>>,
    version: Option<NonZeroU64>,
    pub object: T,
}

impl<T> Trimmed<T> {
    pub fn new(metadata: &ObjectMeta, object: T) -> Self {
        let version = metadata.resource_version.as_deref();
        Self {
            key: Key::of(metadata),
            uid: metadata.uid.as_deref().map(Box::from),
            version: version.and_then(parse_resource_version),
            object,
        }
    }
}

impl Trimmed<()> {
    /// Key, UID and version of an object that is stored elsewhere.
    pub fn version_of(key: Key, uid: Box<str>, resource_version: &str) -> Self {
        Self {
            key,
            uid: Some(uid),
            version: parse_resource_version(resource_version),
            object: (),
        }
    }
}

impl<T> Deref for Trimmed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> CachedObject for Trimmed<T> {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn version(&self) -> Option<NonZeroU64> {
        self.version
    }
}
