//! Key of the cloud-init digests, in a Secret.
//!
//! One key serves all Machines. Its Secret is in the operator's namespace, is created once by the leader,
//! and is never changed or logged. It is read once, before the first reconcile.
//!
//! Reconciling does not depend on it: an unanswered read is repeated a few times, a refused one is not;
//! then digests are not keyed until a later read succeeds. Plans do not restart guests meanwhile.

use std::time::Duration;

use k8s_openapi::ByteString;
use kube::Error;
use plan::machine::DigestKey;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::paths;
use crate::{
    certificates::Data,
    requests::{Requests, already_exists, is_code, status_message},
};

const NAME: &str = "kubevirt-operator-cloud-init-key";
const FIELD: &str = "key";
/// Number of unanswered reads after which Machines are reconciled without the key.
const ATTEMPTS: u32 = 3;
/// Delay between these reads.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Delay between later reads.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Location of the key, and source of a new one.
#[derive(Clone, Debug)]
pub struct KeySecret {
    /// The operator's namespace.
    pub namespace: String,
    /// Random bytes of a new key; None if the random source fails.
    pub draw: fn() -> Option<[u8; 32]>,
}

#[derive(Debug)]
pub(super) struct KeyCache {
    secret: Option<KeySecret>,
    key: Option<DigestKey>,
    /// Time of the next read; None during a read, and once the key is known.
    due: Option<Instant>,
    failures: u32,
    is_settled: bool,
    /// Failure that was logged last, so that each is logged once.
    logged: String,
}

impl KeyCache {
    /// Without a Secret, digests are not keyed.
    pub(super) fn new(secret: Option<KeySecret>, now: Instant) -> Self {
        Self {
            key: None,
            due: secret.as_ref().map(|_| now),
            failures: 0,
            is_settled: secret.is_none(),
            logged: String::new(),
            secret,
        }
    }

    pub(super) fn key(&self) -> Option<&DigestKey> {
        self.key.as_ref()
    }

    /// Whether Machines can be reconciled, with the key or without.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.due
    }

    /// Starts a read if it is due; its result goes to [`Self::on_read`].
    pub(super) fn begin(&mut self, now: Instant) -> Option<KeySecret> {
        self.due.take_if(|due| *due <= now)?;
        self.secret.clone()
    }

    pub(super) fn on_read(&mut self, read: Result<DigestKey, Unavailable>, now: Instant) {
        let Unavailable { reason, is_lasting } = match read {
            Ok(key) => {
                if self.failures > 0 {
                    tracing::info!(
                        secret = NAME,
                        "read the key of cloud-init digests: new digests are keyed"
                    );
                }
                self.key = Some(key);
                self.is_settled = true;
                return;
            }
            Err(unavailable) => unavailable,
        };
        self.failures = self.failures.saturating_add(1);
        self.is_settled |= is_lasting || self.failures >= ATTEMPTS;
        self.due = Some(
            now + if self.is_settled {
                RETRY_DELAY
            } else {
                FIRST_RETRY_DELAY
            },
        );
        if self.logged != reason {
            tracing::warn!(
                secret = NAME,
                "cannot read the key of cloud-init digests, so new digests are not keyed: {reason}"
            );
            self.logged = reason;
        }
    }
}

/// Failed read of the key.
#[derive(Debug)]
pub(super) struct Unavailable {
    reason: String,
    /// Whether an early retry would fail again.
    is_lasting: bool,
}

impl Unavailable {
    fn lasting(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_lasting: true,
        }
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::Api(status) => Self {
                reason: status_message(status),
                is_lasting: (400..429).contains(&status.code) && status.code != 409,
            },
            // A decoding error may quote the Secret.
            Error::SerdeError(_) => Self::lasting("the answer is not a valid Secret"),
            error => Self {
                reason: error.to_string(),
                is_lasting: false,
            },
        }
    }
}

/// Reads the key, and creates it if it does not exist.
pub(super) async fn read(
    requests: &Requests,
    secret: &KeySecret,
) -> Result<DigestKey, Unavailable> {
    let collection = paths::secrets(&secret.namespace);
    let path = format!("{collection}/{NAME}");
    let found = requests.get(&path).await;
    match found {
        Ok(found) => return key(&found),
        Err(error) if is_code(&error, 404) => {}
        Err(error) => return Err(Unavailable::of(&error)),
    }
    let bytes = (secret.draw)().ok_or_else(|| Unavailable::lasting("the random source failed"))?;
    let data = Data::from([(FIELD.to_owned(), ByteString(bytes.to_vec()))]);
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
        "metadata": { "name": NAME, "namespace": secret.namespace },
        "data": data,
    });
    let created = match requests.create(&collection, &body).await {
        // Created by an earlier attempt whose answer was lost, or by another operator of the namespace.
        Err(error) if already_exists(&error) => requests.get(&path).await,
        created => created,
    };
    key(&created.map_err(|error| Unavailable::of(&error))?)
}

fn key(secret: &Value) -> Result<DigestKey, Unavailable> {
    let data: Data = serde_json::from_value(secret["data"].clone()).unwrap_or_default();
    let bytes = data.get(FIELD);
    let key = bytes.and_then(|bytes| DigestKey::from_bytes(&bytes.0));
    key.ok_or_else(|| {
        Unavailable::lasting(format!(
            "data.{FIELD} of the Secret does not have 32 bytes: delete the Secret, and the operator \
             creates a new one within a minute"
        ))
    })
}
