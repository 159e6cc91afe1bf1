//! Writes: to the Secrets, and to the bundles of the configuration.
//!
//! Only what was seen is changed: a write fails if somebody was faster, and what is there then is told
//! by a watch. Keys are held no longer than a write takes.

use std::collections::BTreeMap;

use api::labels::{MANAGED_BY, MANAGER};
use futures::future::BoxFuture;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kube::{Client, Error, ResourceExt as _};
use plan::{
    certificates::{Issue, NewCertificate, SecretChange},
    webhook_certificate::{Names, Write},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::seen::{Hook, Over, Seen, is_ours};
use crate::{
    certificates::{Data, make},
    requests::{Requests, as_conflict, is_code, words},
};

/// An object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Authority,
    Secret,
    Configuration,
}

impl Object {
    /// Which one a write is to.
    pub(super) fn of(write: &Write, names: &Names) -> Self {
        match write {
            Write::Secret(issue) if issue.secret == names.secret => Self::Secret,
            Write::Secret(_) => Self::Authority,
            Write::Bundle(_) => Self::Configuration,
        }
    }

    /// The objects that may be written otherwise once this one has changed.
    pub(super) fn concerns(self) -> &'static [Self] {
        match self {
            Self::Authority => &[Self::Authority, Self::Secret],
            Self::Secret => &[Self::Secret],
            Self::Configuration => &[Self::Configuration],
        }
    }
}

/// What an object is after a write.
pub(super) enum Answer {
    Secret(Secret),
    Configuration(ValidatingWebhookConfiguration),
}

impl Answer {
    /// Which object it is.
    pub(super) fn object(&self) -> String {
        match self {
            Self::Secret(secret) => format!("Secret {}", secret.name_any()),
            Self::Configuration(configuration) => {
                format!(
                    "ValidatingWebhookConfiguration {}",
                    configuration.name_any()
                )
            }
        }
    }
}

/// Why a write has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Somebody was faster, as it seems from these words.
    Conflict(String),
    /// Anything else.
    Said(String),
}

impl Failure {
    /// An object is not what was seen of it.
    fn changed(what: &str) -> Self {
        Self::Conflict(format!("{what} is no longer what was seen of it"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_conflict = is_code(&error, 409) || is_code(&error, 404);
        let said = match error {
            Error::Api(status) => words(&status),
            error => error.to_string(),
        };
        if is_conflict {
            Self::Conflict(said)
        } else {
            Self::Said(said)
        }
    }
}

/// Carries writes out.
#[derive(Clone)]
pub(super) struct Writer {
    open: Requests,
    fenced: Requests,
    names: Names,
}

/// A write to a Secret.
struct Secreted {
    issue: Issue,
    over: Option<Over>,
    /// The CA that signs.
    signer: Option<Over>,
}

impl Writer {
    pub(super) fn new(open: Client, client: Client, names: Names) -> Self {
        Self {
            open: Requests::new(open, MANAGER),
            fenced: Requests::new(client, MANAGER),
            names,
        }
    }

    /// Carries out a write to what was seen.
    pub(super) fn carry_out(
        &self,
        write: Write,
        seen: &Seen,
    ) -> BoxFuture<'static, Result<Answer, Failure>> {
        let writer = self.clone();
        match write {
            Write::Secret(issue) => {
                let over = |name: &str| seen.held(name).map(|held| held.over.clone());
                let signer = match &issue.change {
                    SecretChange::New(new) => new.signer.as_deref(),
                    SecretChange::Published(_) | SecretChange::Promote(_) => None,
                };
                let secreted = Secreted {
                    over: over(&issue.secret),
                    signer: signer.and_then(over),
                    issue,
                };
                Box::pin(async move { writer.secret(secreted).await.map(Answer::Secret) })
            }
            Write::Bundle(text) => {
                let configured = seen.configured();
                Box::pin(async move {
                    let (over, hooks) =
                        configured.ok_or_else(|| Failure::changed("the configuration"))?;
                    let written = writer.bundle(&text, &over, &hooks).await?;
                    Ok(Answer::Configuration(written))
                })
            }
        }
    }

    async fn secret(&self, secreted: Secreted) -> Result<Secret, Failure> {
        let Secreted {
            issue,
            over,
            signer,
        } = secreted;
        let Issue {
            secret,
            reason,
            change,
        } = issue;
        tracing::info!(secret, "{}: {reason}", doing(&change));
        let before = match &over {
            Some(over) => self.as_seen(&secret, over).await?,
            None => Secret::default(),
        };
        let made = match &change {
            SecretChange::New(new) => Some(self.make(new, signer.as_ref()).await?),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let had = before.data.unwrap_or_default();
        let said = before.metadata.annotations.unwrap_or_default();
        let (mut data, mut annotations) = (had.clone(), said.clone());
        change.apply(&mut data, &mut annotations, made);
        let folder = self.secrets();
        let written = match over {
            None => {
                let body = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                    "metadata": {
                        "name": secret, "namespace": self.names.namespace,
                        "labels": { MANAGED_BY: MANAGER }, "annotations": annotations,
                    },
                    "data": data,
                });
                self.fenced.create(&folder, &body).await?
            }
            Some(Over {
                uid,
                resource_version,
            }) => {
                let body = json!({
                    "metadata": {
                        "uid": uid, "resourceVersion": resource_version,
                        "annotations": difference(&said, &annotations),
                    },
                    "data": difference(&had, &data),
                });
                let path = format!("{folder}/{secret}");
                self.fenced.merge(&path, &body).await?
            }
        };
        decoded(written)
    }

    /// Sets the bundle of these webhooks, and nothing else.
    async fn bundle(
        &self,
        text: &str,
        over: &Over,
        hooks: &[Hook],
    ) -> Result<ValidatingWebhookConfiguration, Failure> {
        let configuration = &self.names.configuration;
        tracing::info!(configuration, "Setting the CA bundle");
        let must_be =
            |path: &str, value: &str| json!({ "op": "test", "path": path, "value": value });
        let mut operations = vec![
            must_be("/metadata/uid", &over.uid),
            must_be("/metadata/resourceVersion", &over.resource_version),
        ];
        for hook in hooks.iter().filter(|hook| hook.bundle != text) {
            let path = format!("/webhooks/{}", hook.position);
            operations.push(must_be(&format!("{path}/name"), &hook.name));
            operations.push(json!({
                "op": "add", "path": format!("{path}/clientConfig/caBundle"),
                "value": ByteString(text.as_bytes().to_vec()),
            }));
        }
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{configuration}"
        );
        let written = self.fenced.patch(&path, &Value::Array(operations)).await;
        decoded(written.map_err(as_conflict)?)
    }

    /// Makes a key and a certificate.
    async fn make(
        &self,
        new: &NewCertificate,
        over: Option<&Over>,
    ) -> Result<(ByteString, ByteString), Failure> {
        let signer: Option<Data> = match (&new.signer, over) {
            (None, _) => None,
            (Some(signer), None) => return Err(Failure::changed(signer)),
            (Some(signer), Some(over)) => self.as_seen(signer, over).await?.data,
        };
        make(new, signer.as_ref()).map_err(|error| Failure::Said(error.to_string()))
    }

    /// A Secret of ours, if it is still as it was seen.
    async fn as_seen(&self, name: &str, over: &Over) -> Result<Secret, Failure> {
        let path = format!("{}/{name}", self.secrets());
        let found: Secret = decoded(self.open.get(&path).await?)?;
        if Over::of(&found) == *over && is_ours(&found) {
            Ok(found)
        } else {
            Err(Failure::changed(name))
        }
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.names.namespace)
    }
}

fn doing(change: &SecretChange) -> &'static str {
    match change {
        SecretChange::New(_) => "Making a certificate",
        SecretChange::Published(_) => "Noting that the CA is published",
        SecretChange::Promote(_) => "Changing to the next CA",
    }
}

/// What has to be merged into `before` to make it `after`.
fn difference<V>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> Map<String, Value>
where
    V: PartialEq + serde::Serialize,
{
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let other = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value));
    let other = other.map(|(key, value)| (key.clone(), json!(value)));
    gone.chain(other).collect()
}

/// An answer says nothing of what it cannot be read for: it holds keys.
fn decoded<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    decode::from_value(answer)
        .map_err(|_| Failure::Said("the API server's answer is not understood".to_owned()))
}
