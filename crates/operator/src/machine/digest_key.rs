//! Key of the digests of cloud-init data, and the Secret that holds it.
//!
//! One key serves all Machines. It is in the operator's own namespace, is created once by the replica that
//! leads, and is never changed or logged. It is read once, before the first reconcile.
//!
//! Reconciling does not depend on it: what is not answered is asked for a few times, what is refused once;
//! then digests are not keyed until a later read succeeds. Plans leave running guests alone meanwhile.

use std::time::Duration;

use k8s_openapi::ByteString;
use kube::Error;
use plan::machine::DigestKey;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::paths;
use crate::{
    certificates::Data,
    requests::{Requests, is_code, is_taken, words},
};

/// The name of the Secret, and of the field in it.
const NAME: &str = "kubevirt-operator-cloud-init-key";
const FIELD: &str = "key";
/// How often a read that is not answered is repeated before reconciling goes on without the key.
const ATTEMPTS: u32 = 3;
/// Delay between these attempts.
const RETRY: Duration = Duration::from_secs(2);
/// Delay between later attempts.
const LATER: Duration = Duration::from_secs(60);

/// Where the key is, and where a new one comes from.
#[derive(Clone, Debug)]
pub struct KeySecret {
    /// The namespace of the operator.
    pub namespace: String,
    /// Draws the bytes of a new key; None if there are no random numbers.
    pub draw: fn() -> Option<[u8; 32]>,
}

/// The key, from when it is first needed.
#[derive(Debug)]
pub(super) struct KeyCache {
    secret: Option<KeySecret>,
    key: Option<DigestKey>,
    /// When it is read next; None while it is being read, and once it is known.
    due: Option<Instant>,
    failures: u32,
    is_settled: bool,
    /// The failure that was logged last.
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

    /// What plans are made with.
    pub(super) fn key(&self) -> Option<&DigestKey> {
        self.key.as_ref()
    }

    /// Whether Machines can be reconciled.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// When the key is to be read.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.due
    }

    /// The Secret to read now, if it is due. The result is to be given to [`Self::on_read`].
    pub(super) fn begin(&mut self, now: Instant) -> Option<KeySecret> {
        self.due.take_if(|due| *due <= now)?;
        self.secret.clone()
    }

    pub(super) fn on_read(&mut self, read: Result<DigestKey, Unavailable>, now: Instant) {
        let Unavailable { reason, is_lasting } = match read {
            Ok(key) => {
                if self.failures > 0 {
                    tracing::info!(secret = NAME, "new digests of cloud-init data are keyed");
                }
                self.key = Some(key);
                self.is_settled = true;
                return;
            }
            Err(unavailable) => unavailable,
        };
        self.failures = self.failures.saturating_add(1);
        self.is_settled |= is_lasting || self.failures >= ATTEMPTS;
        self.due = Some(now + if self.is_settled { LATER } else { RETRY });
        if self.logged != reason {
            tracing::warn!(
                secret = NAME,
                "new digests of cloud-init data are not keyed: {reason}"
            );
            self.logged = reason;
        }
    }
}

/// Why there is no key.
#[derive(Debug)]
pub(super) struct Unavailable {
    reason: String,
    /// Whether trying again soon is of no use.
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
                reason: words(status),
                is_lasting: (400..429).contains(&status.code) && status.code != 409,
            },
            // What cannot be decoded may be quoted.
            Error::SerdeError(_) => Self::lasting("the answer is not a Secret"),
            error => Self {
                reason: error.to_string(),
                is_lasting: false,
            },
        }
    }
}

/// Reads the key, or creates it.
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
    let bytes = (secret.draw)().ok_or_else(|| Unavailable::lasting("there is no random source"))?;
    let data = Data::from([(FIELD.to_owned(), ByteString(bytes.to_vec()))]);
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
        "metadata": { "name": NAME, "namespace": secret.namespace },
        "data": data,
    });
    let created = match requests.create(&collection, &body).await {
        // By an earlier attempt whose answer was lost, or by another operator of the namespace.
        Err(error) if is_taken(&error) => requests.get(&path).await,
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
            "data.{FIELD} of the Secret does not have 32 bytes; delete the Secret, and the operator \
             creates it anew within a minute"
        ))
    })
}
