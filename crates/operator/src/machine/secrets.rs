//! Cache of the Secrets and ConfigMaps that Machines refer to for cloud-init data.
//!
//! They are not watched, since they do not have the operator's label: each is read when it is first
//! needed and when its Machine changes. One that is missing or lacks the key is read again with growing
//! delay.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{
    Machine,
    core::{ConfigMap, Secret},
};
use apimachinery::retry_ledger::RetryLedger;
use plan::machine::{
    CloudInitObjects, CloudInitSource, SourceKind, cloud_init_sources, is_being_deleted,
};
use runtime::{backoff::Schedule, cache::Key};
use tokio::time::Instant;

/// Delays until an object that is missing or lacks the key is read again.
const REREAD: Schedule = Schedule {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

/// Objects that were read, by Machine.
#[derive(Default)]
pub(super) struct Secrets {
    cached: BTreeMap<Key, CachedSecret>,
    /// Machines of which an object could not be read, is missing, or lacks the key.
    retries: RetryLedger<Key, (), Instant>,
    /// UID of the instance whose cloud-init Secret was verified, and when. Used only where the
    /// operator's Secrets are not watched.
    verified: BTreeMap<Key, (String, Instant)>,
}

struct CachedSecret {
    generation: Option<i64>,
    /// None if the read failed: then it is not known whether the objects exist.
    objects: Option<CloudInitObjects>,
}

/// An object that was read; none if it does not exist.
pub(super) enum ReadObject {
    Secret(String, Option<Secret>),
    ConfigMap(String, Option<ConfigMap>),
}

/// State of the objects that a Machine refers to.
pub(super) enum SecretState {
    /// The Machine refers to no object, or does not use it.
    NotNeeded,
    /// The objects were read, or are missing.
    Known(CloudInitObjects),
    /// The objects of these names have not been read.
    Unread(Vec<(SourceKind, String)>),
    /// The read failed.
    Unreadable { retry_at: Instant },
}

impl Secrets {
    pub(super) fn of(&mut self, key: &Key, machine: &Machine, now: Instant) -> SecretState {
        let is_deleted = is_being_deleted(machine);
        let named: Vec<_> = cloud_init_sources(machine)
            .filter(|_| !is_deleted)
            .map(|source| (source.kind, source.name.to_owned()))
            .collect();
        if named.is_empty() {
            self.cached.remove(key);
            self.retries.clear(key);
            return SecretState::NotNeeded;
        }
        let retry_at = self.retries.retry_at(key);
        let cached = self.cached.get(key).filter(|cached| {
            cached.generation == machine.metadata.generation && retry_at.is_none_or(|at| at > now)
        });
        match cached {
            None => SecretState::Unread(named),
            Some(cached) => match &cached.objects {
                Some(objects) => SecretState::Known(objects.clone()),
                None => SecretState::Unreadable {
                    retry_at: retry_at.unwrap_or(now),
                },
            },
        }
    }

    pub(super) fn on_read(
        &mut self,
        key: &Key,
        machine: Option<&Machine>,
        generation: Option<i64>,
        read: kube::Result<Vec<ReadObject>>,
        now: Instant,
    ) {
        let sources: Vec<_> = machine.into_iter().flat_map(cloud_init_sources).collect();
        if sources.is_empty() {
            return;
        }
        let objects = match read {
            Ok(read) => Some(slim(read, &sources)),
            Err(error) => {
                // A decoding error may quote the object.
                let error = match error {
                    kube::Error::SerdeError(_) => "the answer is not a valid object".to_owned(),
                    error => error.to_string(),
                };
                let named: Vec<_> = sources
                    .iter()
                    .map(|source| format!("{} {}/{}", source.kind, key.namespace, source.name))
                    .collect();
                let named = named.join(" or ");
                tracing::warn!(machine = %key.name, namespace = %key.namespace,
                    "cannot read {named} of Machine {}: {error}", key.name);
                None
            }
        };
        let has_key = objects
            .as_ref()
            .is_some_and(|objects| sources.iter().all(|source| objects.has_key(source)));
        if has_key {
            self.retries.clear(key);
        } else {
            let retry_at = |failures| now + REREAD.step(failures);
            self.retries.fail(key.clone(), (), retry_at);
        }
        let cached = CachedSecret {
            generation,
            objects,
        };
        self.cached.insert(key.clone(), cached);
    }

    /// Time of the next read of a missing object.
    pub(super) fn retry_at(&self, key: &Key) -> Option<Instant> {
        self.retries.retry_at(key)
    }

    /// Records that the cloud-init Secret of a Machine's instance was written or compared.
    pub(super) fn set_verified(&mut self, machine: &Key, instance: String, now: Instant) {
        self.verified.insert(machine.clone(), (instance, now));
    }

    /// Whether the Secret was verified for this instance within the interval.
    pub(super) fn is_verified(
        &self,
        machine: &Key,
        instance: &str,
        now: Instant,
        interval: Duration,
    ) -> bool {
        let verified = self.verified.get(machine);
        verified.is_some_and(|(uid, at)| uid == instance && *at + interval > now)
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.verified.remove(key);
        self.cached.remove(key);
        self.retries.clear(key);
    }
}

/// The objects with only the keys that the Machine uses.
fn slim(read: Vec<ReadObject>, sources: &[CloudInitSource<'_>]) -> CloudInitObjects {
    let named = |name: &str| api::ObjectMeta {
        name: Some(name.to_owned()),
        ..api::ObjectMeta::default()
    };
    let mut objects = CloudInitObjects::none();
    for object in read {
        match object {
            ReadObject::Secret(name, Some(mut secret)) => {
                let is_used = |key: &str| uses(sources, SourceKind::Secret, &name, key);
                secret.metadata = named(&name);
                secret.data.retain(|key, _| is_used(key));
                secret.string_data.clear();
                objects.secrets.insert(name, Arc::new(secret));
            }
            ReadObject::ConfigMap(name, Some(mut map)) => {
                let is_used = |key: &str| uses(sources, SourceKind::ConfigMap, &name, key);
                map.metadata = named(&name);
                map.data.retain(|key, _| is_used(key));
                map.binary_data.retain(|key, _| is_used(key));
                objects.config_maps.insert(name, Arc::new(map));
            }
            ReadObject::Secret(_, None) | ReadObject::ConfigMap(_, None) => {}
        }
    }
    objects
}

fn uses(sources: &[CloudInitSource<'_>], kind: SourceKind, name: &str, key: &str) -> bool {
    let mut sources = sources.iter();
    sources.any(|source| source.kind == kind && source.name == name && source.key == key)
}
