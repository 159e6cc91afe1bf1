//! Cache of the Secrets that Machines refer to for user data.
//!
//! They are not watched, since they do not have the operator's label: each is read when it is first
//! needed and when its Machine changes. A Secret that is missing or lacks the key is read again with
//! growing delay.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{Machine, core::Secret};
use apimachinery::retry_ledger::RetryLedger;
use plan::machine::{Known, Lookup, secret_ref};
use runtime::{backoff::Schedule, cache::Key};
use tokio::time::Instant;

/// Delays until a Secret that is missing or lacks the key is read again.
const REREAD: Schedule = Schedule {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

/// Secrets that were read, by Machine.
#[derive(Default)]
pub(super) struct Secrets {
    cached: BTreeMap<Key, CachedSecret>,
    /// Machines whose Secret could not be read, is missing, or lacks the key.
    retries: RetryLedger<Key, (), Instant>,
    /// UID of the instance whose cloud-init Secret was verified, and when. Used only where the
    /// operator's Secrets are not watched.
    verified: BTreeMap<Key, (String, Instant)>,
}

struct CachedSecret {
    generation: Option<i64>,
    /// None if the read failed: then it is not known whether the Secret exists.
    secrets: Option<Known<Secret>>,
}

/// State of the Secret that a Machine refers to.
pub(super) enum SecretState {
    /// The Machine refers to no Secret, or does not use it.
    NotNeeded,
    /// The Secret was read, or is missing.
    Known(Known<Secret>),
    /// The Secret of this name has not been read.
    Unread(String),
    /// The read failed.
    Unreadable { retry_at: Instant },
}

impl Secrets {
    pub(super) fn of(&mut self, key: &Key, machine: &Machine, now: Instant) -> SecretState {
        let is_deleted = machine.metadata.deletion_timestamp.is_some();
        let Some((name, _)) = secret_ref(machine).filter(|_| !is_deleted) else {
            self.cached.remove(key);
            self.retries.clear(key);
            return SecretState::NotNeeded;
        };
        let retry_at = self.retries.retry_at(key);
        let cached = self.cached.get(key).filter(|cached| {
            cached.generation == machine.metadata.generation && retry_at.is_none_or(|at| at > now)
        });
        match cached {
            None => SecretState::Unread(name.to_owned()),
            Some(cached) => match &cached.secrets {
                Some(secrets) => SecretState::Known(secrets.clone()),
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
        read: kube::Result<Option<Secret>>,
        now: Instant,
    ) {
        let Some((name, data_key)) = machine.and_then(secret_ref) else {
            return;
        };
        let secrets = match read {
            Ok(Some(secret)) => {
                let secret = Arc::new(slim(secret, data_key));
                Some(Known::all([(name.to_owned(), secret)]))
            }
            Ok(None) => Some(Known::all([])),
            Err(error) => {
                // A decoding error may quote the Secret.
                let error = match error {
                    kube::Error::SerdeError(_) => "the answer is not a valid Secret".to_owned(),
                    error => error.to_string(),
                };
                tracing::warn!(machine = %key.name, namespace = %key.namespace, secret = name,
                    "cannot read Secret {}/{name} of Machine {}: {error}", key.namespace, key.name);
                None
            }
        };
        let has_key = match secrets.as_ref().map(|secrets| secrets.get(name)) {
            Some(Lookup::Found(secret)) => secret.data.contains_key(data_key),
            Some(Lookup::Missing | Lookup::Unknown) | None => false,
        };
        if has_key {
            self.retries.clear(key);
        } else {
            let retry_at = |failures| now + REREAD.step(failures);
            self.retries.fail(key.clone(), (), retry_at);
        }
        let cached = CachedSecret {
            generation,
            secrets,
        };
        self.cached.insert(key.clone(), cached);
    }

    /// Time of the next read of a missing Secret.
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

/// Drops everything but the key that the Machine uses.
fn slim(mut secret: Secret, key: &str) -> Secret {
    secret.metadata = api::ObjectMeta {
        name: secret.metadata.name,
        ..api::ObjectMeta::default()
    };
    secret.data.retain(|name, _| name == key);
    secret.string_data.clear();
    secret
}
