//! The Secrets that users name. They are not watched, since they carry no label: each is read by its
//! name when it is first needed and when the Machine that names it changes; one that is missing, or
//! lacks the key, is looked for again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{Machine, core::Secret};
use plan::{
    machine::{Known, Lookup, has_inline_user_data},
    naming,
};
use runtime::cache::Key;
use tokio::time::Instant;

/// How soon a Secret that could not be read is looked for again, at first and at most.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(30);

/// The Secrets that were read, by the Machines that name them.
#[derive(Default)]
pub(super) struct Secrets {
    read: BTreeMap<Key, Read>,
    /// Where Secrets of ours are not watched: the instances that are known to find theirs, and since
    /// when.
    verified: BTreeMap<Key, (String, Instant)>,
}

struct Read {
    generation: Option<i64>,
    /// None while it could not be read: that says nothing of whether it is there.
    secrets: Option<Known<Secret>>,
    /// When to look again, and how long that was put off; for what could not be read.
    retry: Option<(Instant, Duration)>,
}

/// What is known of the Secret that a Machine names.
pub(super) enum Fetched {
    /// It names none, or none that matters.
    NotNeeded,
    /// It was read, or is missing.
    Known(Known<Secret>),
    /// It is to be read.
    Wanted(String),
    /// It could not be read, and is tried again then.
    Unreadable(Instant),
}

impl Secrets {
    pub(super) fn of(&mut self, key: &Key, machine: &Machine, now: Instant) -> Fetched {
        let is_deleted = machine.metadata.deletion_timestamp.is_some();
        let Some((name, _)) = named(machine).filter(|_| !is_deleted) else {
            self.read.remove(key);
            return Fetched::NotNeeded;
        };
        let read = self.read.get(key).filter(|read| {
            read.generation == machine.metadata.generation
                && read.retry.is_none_or(|(at, _)| at > now)
        });
        match read {
            None => Fetched::Wanted(name.to_owned()),
            Some(read) => match (&read.secrets, read.retry) {
                (Some(secrets), _) => Fetched::Known(secrets.clone()),
                (None, retry) => Fetched::Unreadable(retry.map_or(now, |(at, _)| at)),
            },
        }
    }

    pub(super) fn fetched(
        &mut self,
        key: &Key,
        machine: Option<&Machine>,
        generation: Option<i64>,
        fetched: kube::Result<Option<Secret>>,
        now: Instant,
    ) {
        let Some((name, data_key)) = machine.and_then(named) else {
            return;
        };
        let waited = self.read.get(key).and_then(|read| read.retry);
        let secrets = match fetched {
            Ok(Some(secret)) => {
                let secret = Arc::new(slim(secret, data_key));
                Some(Known::all([(name.to_owned(), secret)]))
            }
            Ok(None) => Some(Known::all([])),
            Err(error) => {
                // What cannot be decoded is not told of: it may be quoted.
                let why = match error {
                    kube::Error::SerdeError(_) => "it is not a Secret".to_owned(),
                    error => error.to_string(),
                };
                tracing::warn!(machine = %key.name, namespace = %key.namespace, secret = name,
                    "the Secret cannot be read: {why}");
                None
            }
        };
        let is_there = match secrets.as_ref().map(|secrets| secrets.get(name)) {
            Some(Lookup::Found(secret)) => secret.data.contains_key(data_key),
            Some(Lookup::Missing | Lookup::Unknown) | None => false,
        };
        let retry = (!is_there).then(|| {
            let pause = waited.map_or(SOON, |(_, pause)| (pause * 2).min(LATE));
            (now + pause, pause)
        });
        let read = Read {
            generation,
            secrets,
            retry,
        };
        self.read.insert(key.clone(), read);
    }

    /// When to look for a missing Secret again.
    pub(super) fn retry(&self, key: &Key) -> Option<Instant> {
        self.read
            .get(key)
            .and_then(|read| read.retry)
            .map(|(at, _)| at)
    }

    /// The Secret of a Machine's instance is as it should be.
    pub(super) fn verified(&mut self, machine: &Key, instance: String, now: Instant) {
        self.verified.insert(machine.clone(), (instance, now));
    }

    /// Whether that was known for this very instance within the interval.
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
        self.read.remove(key);
    }
}

/// The Secret that a Machine takes its user data from, and the key in it.
pub(super) fn named(machine: &Machine) -> Option<(&str, &str)> {
    let cloud_init = machine.spec.cloud_init.as_ref()?;
    let reference = cloud_init
        .secret_ref
        .as_ref()
        .filter(|_| !has_inline_user_data(machine))?;
    let key = reference.key.as_deref().unwrap_or(naming::USER_DATA_KEY);
    Some((&reference.name, key))
}

/// Only what the Machine takes from it.
fn slim(mut secret: Secret, key: &str) -> Secret {
    secret.metadata = api::ObjectMeta {
        name: secret.metadata.name,
        ..api::ObjectMeta::default()
    };
    secret.data.retain(|name, _| name == key);
    secret.string_data.clear();
    secret
}
