//! Labels of a VirtualMachine to adopt, by which caches select it, its instance and its disks.

use api::{ObjectMeta, labels};
use plan::machine::{Kind, Refusal, claims_of, controlled_by_other, is_controlled_by_other};
use serde_json::{Value, json};

use super::{Answer, Failure, Target, metadata};
use crate::{
    machine::{paths, refusal::Subject},
    requests::{Requests, is_code},
};

/// Labels what belongs to the VirtualMachine and is not labelled yet, and the VirtualMachine last. The next
/// plan decides about the rest.
pub(super) async fn label_adopted(
    requests: &Requests,
    target: &Target,
    vm: &str,
    volumes: &[String],
) -> Result<Vec<Answer>, Failure> {
    let kind = Kind::VirtualMachine;
    let subject = Subject::new(kind, vm);
    let path = paths::object(kind, &target.namespace, vm);
    let found = match requests.get(&path).await {
        Ok(found) => found,
        Err(error) if is_code(&error, 404) => return Err(missing(subject)),
        Err(error) => return Err(Failure::of(subject, &error)),
    };
    let existing = metadata(&found);
    if let Some(controller) = is_controlled_by_other(&existing, Some(&target.uid)) {
        return Err(Failure::lasting(Refusal {
            message: controlled_by_other(vm, controller),
            ..subject.foreign()
        }));
    }
    let mut answers = Vec::new();
    let claims = claims_of(&found["spec"]);
    let claims = claims.filter(|(volume, _)| volumes.iter().any(|it| it == volume));
    for (_, claim) in claims {
        for kind in [Kind::PersistentVolumeClaim, Kind::DataVolume] {
            answers.extend(label(requests, target, kind, claim).await?);
        }
    }
    answers.extend(label(requests, target, Kind::VirtualMachineInstance, vm).await?);
    let labelled = label_object(requests, &path, &existing, target).await;
    let labelled = labelled.map_err(|error| Failure::of(subject, &error))?;
    answers.push(Answer::Object(kind, labelled.unwrap_or(found)));
    Ok(answers)
}

/// Labels an object of the VirtualMachine, if it exists.
async fn label(
    requests: &Requests,
    target: &Target,
    kind: Kind,
    name: &str,
) -> Result<Option<Answer>, Failure> {
    let subject = Subject::new(kind, name);
    let path = paths::object(kind, &target.namespace, name);
    let found = match requests.get(&path).await {
        Ok(found) => found,
        Err(error) if is_code(&error, 404) => return Ok(None),
        Err(error) => return Err(Failure::of(subject, &error)),
    };
    let labelled = label_object(requests, &path, &metadata(&found), target).await;
    let labelled = labelled.map_err(|error| Failure::of(subject, &error))?;
    Ok(Some(Answer::Object(kind, labelled.unwrap_or(found))))
}

/// Labels an object without the operator's label.
async fn label_object(
    requests: &Requests,
    path: &str,
    found: &ObjectMeta,
    target: &Target,
) -> kube::Result<Option<Value>> {
    let is_managed = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(labels::MANAGED_BY).map(String::as_str) == Some(labels::MANAGER)
    };
    if found.labels.as_ref().is_some_and(is_managed) {
        return Ok(None);
    }
    let wanted = target.child_labels();
    let body = json!({ "metadata": { "uid": found.uid, "labels": wanted } });
    requests.label(path, &body).await.map(Some)
}

fn missing(subject: Subject<'_>) -> Failure {
    let Subject { name, .. } = subject;
    Failure::lasting(Refusal {
        message: format!(
            "there is no VirtualMachine {name:?} to adopt: to create one, remove the annotation {} from the Machine",
            labels::ADOPT
        ),
        ..subject.foreign()
    })
}
