//! Reads and writes of the reconciled resource itself: finalizers and status.

use api::{Machine, ObjectMeta, labels};
use kube::Error;
use plan::machine::{ErrorType, Part, Refusal, cluster_finalizer};
use serde_json::{Value, json};

use super::{Answer, ExecuteResult, Failure, Outcome, Target, metadata};
use crate::{
    machine::refusal::Subject,
    requests::{Requests, as_conflict, is_code},
};

pub(super) async fn add_finalizer(requests: &Requests, target: &Target) -> ExecuteResult {
    let mut body = target.body();
    body["metadata"]["finalizers"] = json!([target.owner.finalizer()]);
    let applied = requests.apply(&target.path(), &body).await;
    owner_result(target, applied)
}

/// Adds the finalizer and the record of the cluster. An apply has all fields that the operator owns.
pub(super) async fn place(
    requests: &Requests,
    target: &Target,
    cluster: &str,
    annotate: bool,
) -> ExecuteResult {
    let mut body = target.body();
    body["metadata"]["finalizers"] = json!([target.owner.finalizer(), cluster_finalizer(cluster)]);
    if annotate {
        body["metadata"]["annotations"] = json!({ labels::KUBEVIRT_CONFIG: cluster });
    }
    let applied = requests.apply(&target.path(), &body).await;
    owner_result(target, applied)
}

/// Applies all fields of a NetworkConfiguration that the operator owns: an apply removes those that it
/// leaves out.
pub(super) async fn apply_network(
    requests: &Requests,
    target: &Target,
    with_finalizer: bool,
    with_provider: bool,
) -> ExecuteResult {
    let mut body = target.body();
    if with_finalizer {
        body["metadata"]["finalizers"] = json!([target.owner.finalizer()]);
    }
    if with_provider {
        body["spec"] = json!({ "provider": api::NETWORK_PROVIDER });
    }
    let applied = requests.apply(&target.path(), &body).await;
    owner_result(target, applied)
}

/// Replaces the finalizer of the former operator by its index, or removes it if ours is there already.
pub(super) async fn replace_former_finalizer(
    requests: &Requests,
    target: &Target,
) -> ExecuteResult {
    let former = labels::FORMER_FINALIZER;
    let position = |wanted: &str| target.finalizers.iter().position(|found| found == wanted);
    let Some(index) = position(former) else {
        return Ok(None);
    };
    let own = target.owner.finalizer();
    let path = format!("/metadata/finalizers/{index}");
    let change = match position(own) {
        Some(_) => json!({ "op": "remove", "path": path }),
        None => json!({ "op": "replace", "path": path, "value": own }),
    };
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": target.uid },
        { "op": "test", "path": path, "value": former },
        change,
    ]);
    let patched = requests.patch(&target.path(), &operations).await;
    owner_result(target, patched.map_err(as_conflict))
}

/// Removes the finalizer by its index, whichever field manager set it, and the record of the cluster.
pub(super) async fn remove_finalizer(requests: &Requests, target: &Target) -> ExecuteResult {
    let own = target.owner.finalizer();
    let is_own = |found: &str| found == own || found.starts_with(labels::CLUSTER_FINALIZER);
    let finalizers = target.finalizers.iter().enumerate();
    // From the last one, so that the indexes stay right.
    let found: Vec<(usize, &String)> = finalizers.rev().filter(|(_, it)| is_own(it)).collect();
    if !found.iter().any(|(_, finalizer)| *finalizer == own) {
        return Ok(None);
    }
    let mut operations =
        vec![json!({ "op": "test", "path": "/metadata/uid", "value": target.uid })];
    for (index, finalizer) in found {
        let path = format!("/metadata/finalizers/{index}");
        operations.push(json!({ "op": "test", "path": path, "value": finalizer }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    let patched = requests.patch(&target.path(), &operations.into()).await;
    owner_result(target, patched.map_err(as_conflict))
}

/// Result of a write to the resource itself.
fn owner_result(target: &Target, written: kube::Result<Value>) -> ExecuteResult {
    let gone = Answer::OwnerGone {
        uid: target.uid.clone(),
    };
    match written {
        // A deleted object without finalizers is gone with this write.
        Ok(value) if is_removed(&metadata(&value)) => Ok(Some(gone)),
        Ok(value) => Ok(Some(Answer::Owner(value))),
        Err(error) if is_code(&error, 404) => Ok(Some(gone)),
        Err(error) => {
            let subject = Subject {
                part: Part::Spec,
                kind: target.owner.kind(),
                name: &target.name,
            };
            Err(Failure::of(subject, &error))
        }
    }
}

/// Writes the status of the resource itself.
pub(in crate::machine) async fn write_status(
    requests: &Requests,
    target: &Target,
    status: Value,
    events: Vec<plan::Event>,
) -> Outcome {
    let mut body = target.body();
    body["status"] = status;
    let path = format!("{}/status", target.path());
    let mut outcome = Outcome::default();
    match owner_result(target, requests.apply(&path, &body).await) {
        Ok(answer) => {
            outcome.answers.extend(answer);
            outcome.events = events;
        }
        Err(failure) => {
            outcome.refusal = Some(failure.refusal);
            outcome.retry_after = failure.retry_after;
            outcome.is_fenced = failure.is_fenced;
        }
    }
    outcome
}

/// Reads the resource from the API server. Fails, with the answer, if it is being deleted, gone, or
/// replaced by another of the same name.
pub(super) async fn confirm_not_deleted(
    requests: &Requests,
    target: &Target,
) -> Result<(), Failure> {
    let subject = Subject {
        part: Part::Spec,
        kind: target.owner.kind(),
        name: &target.name,
    };
    let list = format!(
        "{}?fieldSelector=metadata.name%3D{}",
        target.owner.collection(&target.namespace),
        target.name
    );
    let found = requests.get(&list).await;
    let found = found.map_err(|error| Failure::of(subject, &error))?;
    let mut items = found["items"].as_array().into_iter().flatten();
    let found = items.find(|item| item["metadata"]["uid"] == target.uid.as_str());
    let is_alive = found.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_null());
    if is_alive {
        return Ok(());
    }
    let answer = match found {
        Some(found) => {
            let mut found = found.clone();
            found["apiVersion"] = api::API_VERSION.into();
            found["kind"] = target.owner.kind().into();
            Answer::Owner(found)
        }
        None => Answer::OwnerGone {
            uid: target.uid.clone(),
        },
    };
    Err(Failure {
        answers: vec![answer],
        ..Failure::lasting(Refusal {
            error_type: ErrorType::ApiError,
            part: Part::VirtualMachine,
            message: format!("{} {:?} is being deleted", target.owner.kind(), target.name),
            is_persistent: false,
        })
    })
}

/// Reads a Machine with its cloud-init data. Permission to list Machines is enough.
pub(in crate::machine) async fn read_machine(
    requests: &Requests,
    target: &Target,
) -> kube::Result<Option<Machine>> {
    let machines = target.owner.path(&target.namespace, "");
    let machines = machines.trim_end_matches('/');
    let path = format!("{machines}?fieldSelector=metadata.name%3D{}", target.name);
    let mut list = requests.get(&path).await?;
    match list.pointer_mut("/items/0").map(Value::take) {
        Some(mut machine) => {
            // List items have no apiVersion and kind.
            if let Some(fields) = machine.as_object_mut() {
                fields.insert("apiVersion".to_owned(), api::API_VERSION.into());
                fields.insert("kind".to_owned(), target.owner.kind().into());
            }
            decode::from_value(machine)
                .map(Some)
                .map_err(Error::SerdeError)
        }
        None => Ok(None),
    }
}

/// Whether an object is being deleted and has no finalizers.
fn is_removed(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    metadata.deletion_timestamp.is_some() && finalizers.is_empty()
}
