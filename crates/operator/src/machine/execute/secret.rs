//! Requests for cloud-init Secrets, and for the Secrets and ConfigMaps of users.

use api::core::{ConfigMap, Secret};
use kube::Error;
use plan::{
    machine::{Part, SecretMetadata, SourceKind},
    managed, naming,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Answer, ExecuteResult, Failure, Target,
    children::{apply, belongs_to},
    metadata, to_value,
};
use crate::{
    machine::{paths, refusal::Subject, secrets::ReadObject},
    requests::{Requests, already_exists, is_code},
};

pub(super) async fn write_secret(
    requests: &Requests,
    target: &Target,
    secret: &Secret,
) -> ExecuteResult {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let subject = secret_subject(name);
    let collection = paths::secrets(&target.namespace);
    match requests.create(&collection, secret).await {
        Ok(created) => return Ok(Some(secret_answer(&created))),
        Err(error) if already_exists(&error) => {}
        Err(error) => return Err(Failure::of(subject, &error)),
    }
    let path = format!("{collection}/{name}");
    let found = requests.get(&path).await;
    let found = found.map_err(|error| Failure::of(subject, &error))?;
    let metadata = metadata(&found);
    let kind_of_owner = target.owner.kind();
    if managed::is_of_predecessor(&metadata, kind_of_owner, &target.name, &target.uid) {
        return Err(Failure::lasting(subject.of_predecessor()));
    }
    if !belongs_to(&metadata, target) {
        return Err(Failure::lasting(subject.foreign()));
    }
    let wanted = to_value(secret);
    let tampered = SecretMetadata::of(&metadata)
        .other_managers()
        .next()
        .is_some();
    if !tampered && is_up_to_date(&found, &wanted) {
        return Ok(Some(secret_answer(&found)));
    }
    let uid = metadata.uid.clone().unwrap_or_default();
    let written = if tampered || found["immutable"] == true {
        // An apply leaves the fields of other managers, and an immutable Secret cannot be changed:
        // recreate it.
        let version = metadata.resource_version.as_deref();
        match requests.delete(&path, &uid, version).await {
            Err(error) if !is_code(&error, 404) => Err(error),
            _ => requests.create(&collection, secret).await,
        }
    } else {
        let created_at = managed::created_at(&metadata);
        apply(requests, &path, wanted, &uid, created_at).await
    };
    written
        .map(|written| Some(secret_answer(&written)))
        .map_err(|error| Failure::of(subject, &error))
}

/// Whether a Secret has exactly the wanted data, and at least the wanted labels and annotations.
fn is_up_to_date(found: &Value, wanted: &Value) -> bool {
    let has = |entries: &str| {
        let found = &found["metadata"][entries];
        let wanted = wanted["metadata"][entries].as_object();
        wanted.is_none_or(|wanted| wanted.iter().all(|(name, value)| found[name] == *value))
    };
    found["data"] == wanted["data"] && has("labels") && has("annotations")
}

fn secret_answer(secret: &Value) -> Answer {
    Answer::Secret(Box::new(metadata(secret)))
}

/// Reads the objects with a Machine's cloud-init data, until one cannot be read.
pub(in crate::machine) async fn read_cloud_init(
    requests: &Requests,
    target: &Target,
    named: Vec<(SourceKind, String)>,
) -> kube::Result<Vec<ReadObject>> {
    let mut read = Vec::with_capacity(named.len());
    for (kind, name) in named {
        read.push(match kind {
            SourceKind::Secret => {
                let secret = read_secret(requests, target, &name).await?;
                ReadObject::Secret(name, secret)
            }
            SourceKind::ConfigMap => {
                let map = read_config_map(requests, target, &name).await?;
                ReadObject::ConfigMap(name, map)
            }
        });
    }
    Ok(read)
}

/// Reads a user's Secret; none if it does not exist.
pub(in crate::machine) async fn read_secret(
    requests: &Requests,
    target: &Target,
    name: &str,
) -> kube::Result<Option<Secret>> {
    read_object(requests, &paths::secrets(&target.namespace), name).await
}

/// Reads a user's ConfigMap; none if it does not exist.
pub(in crate::machine) async fn read_config_map(
    requests: &Requests,
    target: &Target,
    name: &str,
) -> kube::Result<Option<ConfigMap>> {
    read_object(requests, &paths::config_maps(&target.namespace), name).await
}

/// Reads an object that a user named. The definition of Machines may belong to someone else and allow any
/// text: a path is built from names only.
async fn read_object<T: DeserializeOwned>(
    requests: &Requests,
    collection: &str,
    name: &str,
) -> kube::Result<Option<T>> {
    if !naming::is_dns_name(name) {
        return Ok(None);
    }
    match requests.get(&format!("{collection}/{name}")).await {
        Ok(object) => decode::from_value(object)
            .map(Some)
            .map_err(Error::SerdeError),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn delete_secret(
    requests: &Requests,
    target: &Target,
    name: &str,
) -> ExecuteResult {
    let subject = secret_subject(name);
    let path = format!("{}/{name}", paths::secrets(&target.namespace));
    let found = match requests.get(&path).await {
        Ok(found) => found,
        Err(error) if is_code(&error, 404) => return Ok(None),
        Err(error) => return Err(Failure::of(subject, &error)),
    };
    let metadata = metadata(&found);
    if !belongs_to(&metadata, target) {
        return Ok(None);
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    match requests.delete(&path, uid, None).await {
        Ok(_) => Ok(None),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(Failure::of(subject, &error)),
    }
}

fn secret_subject(name: &str) -> Subject<'_> {
    Subject {
        part: Part::VirtualMachine,
        kind: "Secret",
        name,
    }
}
