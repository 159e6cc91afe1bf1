//! Writes of certificates to Secrets.
//!
//! A write fails if the Secret differs from the observed version. A Secret that exists and is not cached
//! lacks the operator's labels; it gets them and is otherwise unchanged, since certificates that its CA
//! signed must stay trusted. Keys are in memory only during a write.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use plan::{
    certificates::{DURATION, Issue, NewCertificate, PUBLISHED, SIGNS, SecretChange},
    kubevirt::{Existing, Id, observed::WriteError},
};
use serde_json::{Value, json};

use super::{Answer, ExecuteResult, Executor, Failure};
use crate::{
    certificates::{self, Data},
    kubevirt::slim,
    requests::is_code,
};

/// Labels or annotations.
type Texts = BTreeMap<String, String>;

/// Annotations that the operator owns; an apply leaves those of others.
const OWNED_ANNOTATIONS: [&str; 3] = [DURATION, PUBLISHED, SIGNS];

/// Writes a certificate, or its rotation state, into a Secret with these labels and annotations.
pub(super) async fn execute(
    executor: &Executor,
    issue: &Issue,
    existing: Option<&Existing>,
    labels: Texts,
    annotations: Texts,
) -> ExecuteResult {
    let path = secret(executor, &issue.secret);
    let found = match executor.requests.get(&path).await {
        Ok(found) => Some(found),
        Err(error) if is_code(&error, 404) => None,
        Err(error) => return Err(error.into()),
    };
    let found = match (existing, found) {
        (Some(existing), found) => verified(executor, &issue.secret, existing, found)?,
        (None, Some(found)) if has_labels(&found, &labels) => {
            let found = slim::secret_of(found).map_err(Failure::with_message)?;
            return Ok(vec![Answer::Secret(found)]);
        }
        (None, found) => found.unwrap_or_default(),
    };
    let is_adopted = existing.is_none() && !found.is_null();
    let mut data = data(&found);
    let mut written = texts(&found["metadata"]["annotations"]);
    written.retain(|name, _| OWNED_ANNOTATIONS.contains(&name.as_str()));
    if !is_adopted {
        let made = match &issue.change {
            SecretChange::New(new) => Some(issue_pair(executor, new).await?),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        issue.change.apply(&mut data, &mut written, made);
    }
    written.extend(annotations);
    let mut metadata = json!({
        "name": issue.secret, "namespace": executor.target.namespace,
        "annotations": written, "labels": labels,
    });
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = found["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": metadata, "data": data,
    });
    let written = executor.requests.apply(&path, &body).await?;
    let written = slim::secret_of(written).map_err(Failure::with_message)?;
    Ok(vec![Answer::Secret(written)])
}

/// The Secret, if it is still the observed version. Otherwise the failure contains its current state for
/// the next plan.
fn verified(
    executor: &Executor,
    name: &str,
    existing: &Existing,
    found: Option<Value>,
) -> Result<Value, Failure> {
    let answer = match found {
        Some(found) if is_version(&found, existing) => return Ok(found),
        Some(found) => slim::secret_of(found).ok().map(Answer::Secret),
        None => {
            let id = Id::new("", "Secret", &executor.target.namespace, name);
            Some(Answer::Gone(id, existing.uid.clone()))
        }
    };
    Err(Failure {
        error: WriteError::Status(409),
        answer: answer.map(Box::new),
        ..Failure::with_message("the Secret was changed since it was observed".to_owned())
    })
}

fn is_version(found: &Value, existing: &Existing) -> bool {
    let metadata = &found["metadata"];
    metadata["uid"] == *existing.uid && metadata["resourceVersion"] == *existing.resource_version
}

fn has_labels(found: &Value, labels: &Texts) -> bool {
    let found = texts(&found["metadata"]["labels"]);
    let mut labels = labels.iter();
    labels.all(|(name, value)| found.get(name) == Some(value))
}

/// Issues a key and a certificate.
async fn issue_pair(
    executor: &Executor,
    new: &NewCertificate,
) -> Result<(ByteString, ByteString), Failure> {
    let signer = match &new.signer {
        None => None,
        Some(signer) => {
            let found = executor.requests.get(&secret(executor, signer)).await?;
            Some(data(&found))
        }
    };
    certificates::issue_pair(new, signer.as_ref())
        .map_err(|error| Failure::with_message(error.to_string()))
}

fn secret(executor: &Executor, name: &str) -> String {
    let namespace = &executor.target.namespace;
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// Data of a Secret; empty if it cannot be decoded, and then replaced.
fn data(secret: &Value) -> Data {
    decode::from_value_ref(&secret["data"]).unwrap_or_default()
}

fn texts(values: &Value) -> Texts {
    decode::from_value_ref(values).unwrap_or_default()
}
