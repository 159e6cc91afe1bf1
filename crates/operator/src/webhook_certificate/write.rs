//! Writes to the Secrets and to the CA bundles of the webhook configuration.
//!
//! A write fails if the object differs from the observed version; the watch delivers the current one. Keys
//! are in memory only during a write.

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

use super::cache::{CertificateCache, Hook, ObjectVersion, is_managed};
use crate::{
    certificates::{Data, issue_pair},
    requests::{Requests, as_conflict, is_code, status_message},
};

/// Object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Authority,
    Secret,
    Configuration,
}

impl Object {
    pub(super) fn of(write: &Write, names: &Names) -> Self {
        match write {
            Write::Secret(issue) if issue.secret == names.secret => Self::Secret,
            Write::Secret(_) => Self::Authority,
            Write::Bundle(_) => Self::Configuration,
        }
    }

    /// Objects whose failed writes may succeed after a change of this one.
    pub(super) fn dependents(self) -> &'static [Self] {
        match self {
            Self::Authority => &[Self::Authority, Self::Secret],
            Self::Secret => &[Self::Secret],
            Self::Configuration => &[Self::Configuration],
        }
    }
}

/// State of an object after a write.
pub(super) enum Answer {
    Secret(Secret),
    Configuration(ValidatingWebhookConfiguration),
}

impl Answer {
    /// Kind and name, for logs.
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

/// Failed write.
#[derive(Debug)]
pub(super) enum Failure {
    /// The object differs from the observed version.
    Conflict(String),
    Other(String),
}

impl Failure {
    fn changed(what: &str) -> Self {
        Self::Conflict(format!("{what} was changed since it was observed"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_conflict = is_code(&error, 409) || is_code(&error, 404);
        let message = match error {
            Error::Api(status) => status_message(&status),
            error => error.to_string(),
        };
        if is_conflict {
            Self::Conflict(message)
        } else {
            Self::Other(message)
        }
    }
}

#[derive(Clone)]
pub(super) struct Writer {
    open: Requests,
    fenced: Requests,
    names: Names,
}

/// Write to a Secret, with the observed versions that it depends on.
struct SecretWrite {
    issue: Issue,
    version: Option<ObjectVersion>,
    /// Version of the signing CA.
    signer: Option<ObjectVersion>,
}

impl Writer {
    pub(super) fn new(open: Client, client: Client, names: Names) -> Self {
        Self {
            open: Requests::new(open, MANAGER),
            fenced: Requests::new(client, MANAGER),
            names,
        }
    }

    /// Executes a write to the observed versions.
    pub(super) fn execute(
        &self,
        write: Write,
        cache: &CertificateCache,
    ) -> BoxFuture<'static, Result<Answer, Failure>> {
        let writer = self.clone();
        match write {
            Write::Secret(issue) => {
                let version = |name: &str| cache.secret(name).map(|secret| secret.version.clone());
                let signer = match &issue.change {
                    SecretChange::New(new) => new.signer.as_deref(),
                    SecretChange::Published(_) | SecretChange::Promote(_) => None,
                };
                let write = SecretWrite {
                    version: version(&issue.secret),
                    signer: signer.and_then(version),
                    issue,
                };
                Box::pin(async move { writer.secret(write).await.map(Answer::Secret) })
            }
            Write::Bundle(text) => {
                let configuration = cache.configuration();
                Box::pin(async move {
                    let (version, hooks) =
                        configuration.ok_or_else(|| Failure::changed("the configuration"))?;
                    let written = writer.bundle(&text, &version, &hooks).await?;
                    Ok(Answer::Configuration(written))
                })
            }
        }
    }

    async fn secret(&self, write: SecretWrite) -> Result<Secret, Failure> {
        let SecretWrite {
            issue,
            version,
            signer,
        } = write;
        let Issue {
            secret,
            reason,
            change,
        } = issue;
        tracing::info!(secret, "{} in Secret {secret}: {reason}", describe(&change));
        let before = match &version {
            Some(version) => self.read_version(&secret, version).await?,
            None => Secret::default(),
        };
        let made = match &change {
            SecretChange::New(new) => Some(self.issue_pair(new, signer.as_ref()).await?),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let old_data = before.data.unwrap_or_default();
        let old_annotations = before.metadata.annotations.unwrap_or_default();
        let (mut data, mut annotations) = (old_data.clone(), old_annotations.clone());
        change.apply(&mut data, &mut annotations, made);
        let folder = self.secrets();
        let written = match version {
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
            Some(ObjectVersion {
                uid,
                resource_version,
            }) => {
                let body = json!({
                    "metadata": {
                        "uid": uid, "resourceVersion": resource_version,
                        "annotations": difference(&old_annotations, &annotations),
                    },
                    "data": difference(&old_data, &data),
                });
                let path = format!("{folder}/{secret}");
                self.fenced.merge(&path, &body).await?
            }
        };
        decoded(written)
    }

    /// Sets the CA bundle of these webhooks, and nothing else.
    async fn bundle(
        &self,
        text: &str,
        version: &ObjectVersion,
        hooks: &[Hook],
    ) -> Result<ValidatingWebhookConfiguration, Failure> {
        let configuration = &self.names.configuration;
        tracing::info!(
            configuration,
            "setting the CA bundle of ValidatingWebhookConfiguration {configuration}"
        );
        let must_be =
            |path: &str, value: &str| json!({ "op": "test", "path": path, "value": value });
        let mut operations = vec![
            must_be("/metadata/uid", &version.uid),
            must_be("/metadata/resourceVersion", &version.resource_version),
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

    /// Issues a key and a certificate.
    async fn issue_pair(
        &self,
        new: &NewCertificate,
        version: Option<&ObjectVersion>,
    ) -> Result<(ByteString, ByteString), Failure> {
        let signer: Option<Data> = match (&new.signer, version) {
            (None, _) => None,
            (Some(signer), None) => return Err(Failure::changed(signer)),
            (Some(signer), Some(version)) => self.read_version(signer, version).await?.data,
        };
        issue_pair(new, signer.as_ref()).map_err(|error| Failure::Other(error.to_string()))
    }

    /// Reads a managed Secret; fails if it is not this version.
    async fn read_version(&self, name: &str, version: &ObjectVersion) -> Result<Secret, Failure> {
        let path = format!("{}/{name}", self.secrets());
        let found: Secret = decoded(self.open.get(&path).await?)?;
        if ObjectVersion::of(&found) == *version && is_managed(&found) {
            Ok(found)
        } else {
            Err(Failure::changed(name))
        }
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.names.namespace)
    }
}

fn describe(change: &SecretChange) -> &'static str {
    match change {
        SecretChange::New(_) => "issuing a certificate",
        SecretChange::Published(_) => "recording that the CA bundle is published",
        SecretChange::Promote(_) => "switching to the next CA",
    }
}

/// Merge patch from `before` to `after`.
fn difference<V>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> Map<String, Value>
where
    V: PartialEq + serde::Serialize,
{
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let removed = removed.map(|key| (key.clone(), Value::Null));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| (key.clone(), json!(value)));
    removed.chain(changed).collect()
}

/// Decodes an answer. The error does not quote it, since it may contain keys.
fn decoded<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    decode::from_value(answer)
        .map_err(|_| Failure::Other("the API server's answer cannot be decoded".to_owned()))
}
