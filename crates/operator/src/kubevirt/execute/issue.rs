//! Writes to Secrets with certificates.
//!
//! Only the Secret as it was seen is changed: the write fails if somebody was faster. One that is
//! there and was not seen lacks our labels; it gets them and stays as it is otherwise, since what was
//! signed by a CA in it must go on being trusted. Keys are held no longer than that takes.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use plan::{
    certificates::{DURATION, Issue, NewCertificate, PUBLISHED, SIGNS, SecretChange},
    kubevirt::{Existing, Id, observed::WriteError},
};
use serde_json::{Value, json};

use super::{Answer, Carried, Executor, Failure};
use crate::{
    certificates::{self, Data},
    kubevirt::slim,
    requests::is_code,
};

/// Labels or annotations.
type Texts = BTreeMap<String, String>;

/// The annotations that tell of the certificate. Those of others stay without our writing them.
const TOLD: [&str; 3] = [DURATION, PUBLISHED, SIGNS];

/// Writes a certificate, or what has come of it, into a Secret with these labels and annotations.
pub(super) async fn carry_out(
    executor: &Executor,
    issue: &Issue,
    existing: Option<&Existing>,
    labels: Texts,
    annotations: Texts,
) -> Carried {
    let path = secret(executor, &issue.secret);
    let found = match executor.requests.get(&path).await {
        Ok(found) => Some(found),
        Err(error) if is_code(&error, 404) => None,
        Err(error) => return Err(error.into()),
    };
    let found = match (existing, found) {
        (Some(existing), found) => as_seen(executor, &issue.secret, existing, found)?,
        (None, Some(found)) if has(&found, &labels) => {
            let found = slim::secret_of(found).map_err(Failure::said)?;
            return Ok(vec![Answer::Secret(found)]);
        }
        (None, found) => found.unwrap_or_default(),
    };
    let is_taken_in = existing.is_none() && !found.is_null();
    let mut data = data(&found);
    let mut written = texts(&found["metadata"]["annotations"]);
    written.retain(|name, _| TOLD.contains(&name.as_str()));
    if !is_taken_in {
        let made = match &issue.change {
            SecretChange::New(new) => Some(make(executor, new).await?),
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
    let written = slim::secret_of(written).map_err(Failure::said)?;
    Ok(vec![Answer::Secret(written)])
}

/// The Secret, if it is still as it was seen. Otherwise the plan has to know how it is now.
fn as_seen(
    executor: &Executor,
    name: &str,
    existing: &Existing,
    found: Option<Value>,
) -> Result<Value, Failure> {
    let answer = match found {
        Some(found) if is_as_seen(&found, existing) => return Ok(found),
        Some(found) => slim::secret_of(found).ok().map(Answer::Secret),
        None => {
            let id = Id::new("", "Secret", &executor.target.namespace, name);
            Some(Answer::Gone(id, existing.uid.clone()))
        }
    };
    Err(Failure {
        error: WriteError::Status(409),
        answer: answer.map(Box::new),
        ..Failure::said("somebody has changed it since it was looked at".to_owned())
    })
}

fn is_as_seen(found: &Value, existing: &Existing) -> bool {
    let metadata = &found["metadata"];
    metadata["uid"] == *existing.uid && metadata["resourceVersion"] == *existing.resource_version
}

/// Whether a Secret has all these labels.
fn has(found: &Value, labels: &Texts) -> bool {
    let found = texts(&found["metadata"]["labels"]);
    let mut labels = labels.iter();
    labels.all(|(name, value)| found.get(name) == Some(value))
}

/// Makes a key and a certificate.
async fn make(
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
    certificates::make(new, signer.as_ref()).map_err(|error| Failure::said(error.to_string()))
}

fn secret(executor: &Executor, name: &str) -> String {
    let namespace = &executor.target.namespace;
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// What is in a Secret. What cannot be read is made anew.
fn data(secret: &Value) -> Data {
    decode::from_value_ref(&secret["data"]).unwrap_or_default()
}

fn texts(values: &Value) -> Texts {
    decode::from_value_ref(values).unwrap_or_default()
}
