//! Creates, applies and repairs of children.

use api::{ObjectMeta, labels};
use kube::Error;
use plan::{
    machine::{Kind, MetadataChange, Object, Part, label_repair_event},
    managed,
    upstream_messages::RefusalCause,
};
use serde_json::{Value, json};

use super::{
    Answer, ExecuteResult, Failure, Target, metadata, metadata_patch, owner::confirm_not_deleted,
    to_value,
};
use crate::{
    machine::{
        clusters::Clusters,
        paths::{self, Owner},
        refusal::Subject,
        withdraw,
    },
    requests::{Requests, already_exists, as_conflict, is_code},
};

/// Creates a child. If it exists and belongs to this resource, the caches are stale or someone removed
/// its labels; these are restored.
pub(super) async fn create(
    clusters: &Clusters,
    target: &Target,
    object: &Object,
    event: &mut Option<plan::Event>,
) -> ExecuteResult {
    let kind = object.kind();
    let requests = clusters.of(kind);
    let subject = Subject::new(kind, object.name());
    let collection = paths::collection(kind, &target.namespace);
    match requests.create(&collection, object).await {
        Ok(created) => return Ok(Some(Answer::Object(kind, created))),
        Err(error) if already_exists(&error) => {}
        Err(error) => return Err(Failure::of_create(object, &error)),
    }
    let path = paths::object(kind, &target.namespace, object.name());
    let found = requests.get(&path).await;
    let found = found.map_err(|error| Failure::of_create(object, &error))?;
    let metadata = metadata(&found);
    // Machines share the definition of a VLAN, and use it whoever created it.
    if kind == Kind::NetworkAttachmentDefinition && target.owner == Owner::Machine {
        return Ok(Some(Answer::Object(kind, found)));
    }
    let wanted = &to_value(object)["metadata"]["labels"];
    let kind_of_owner = target.owner.kind();
    if managed::is_of_predecessor(&metadata, kind_of_owner, &target.name, &target.uid) {
        return Err(Failure::lasting(subject.of_predecessor()));
    }
    if !belongs_to(&metadata, target) {
        let machine = wanted[labels::MACHINE].as_str();
        return Err(Failure::lasting(match machine {
            Some(machine) if subject.part == Part::Storage && !is_controlled(&metadata) => {
                subject.unclaimed(machine)
            }
            _ => subject.foreign(),
        }));
    }
    let is_labelled = wanted.as_object().is_none_or(|wanted| {
        let mut wanted = wanted.iter();
        wanted.all(|(label, value)| found["metadata"]["labels"][label] == *value)
    });
    if is_labelled {
        return Ok(Some(Answer::Object(kind, found)));
    }
    let labels = serde_json::from_value(wanted.clone()).unwrap_or_default();
    *event = label_repair_event(kind, &metadata, &labels);
    // Only the labels are restored: the next plan decides about the rest.
    let body = json!({ "metadata": { "uid": metadata.uid, "labels": wanted } });
    let labelled = requests.label(&path, &body).await;
    let labelled = labelled.map_err(|error| Failure::of(subject, &error))?;
    Ok(Some(Answer::Object(kind, labelled)))
}

/// Reads a claim that the caches do not show, and restores its labels.
pub(super) async fn recover_claim(
    requests: &Requests,
    target: &Target,
    (name, uid): (&str, String),
    change: MetadataChange,
    event: &mut Option<plan::Event>,
) -> ExecuteResult {
    let kind = Kind::PersistentVolumeClaim;
    let subject = Subject::new(kind, name);
    let path = paths::object(kind, &target.namespace, name);
    let found = match requests.get(&path).await {
        Ok(found) if found["metadata"]["uid"] == uid.as_str() => found,
        Ok(_) => return Ok(Some(Answer::ClaimLost { uid })),
        Err(error) if is_code(&error, 404) => return Ok(Some(Answer::ClaimLost { uid })),
        Err(error) => return Err(Failure::of(subject, &error)),
    };
    let mut labels = change.labels.iter();
    let has = |(label, value): (&String, &Option<String>)| {
        found["metadata"]["labels"][label].as_str() == value.as_deref()
    };
    if labels.all(has) {
        return Ok(Some(Answer::Object(kind, found)));
    }
    let wanted = change.labels.iter();
    let wanted = wanted.filter_map(|(label, value)| Some((label.clone(), value.clone()?)));
    *event = label_repair_event(kind, &metadata(&found), &wanted.collect());
    let labelled = requests.label(&path, &metadata_patch(&uid, change)).await;
    let labelled = labelled.map_err(|error| Failure::of(subject, &error))?;
    Ok(Some(Answer::Object(kind, labelled)))
}

/// Reads a claim or DataVolume that may have been created for the resource.
pub(super) async fn observe_disk(
    requests: &Requests,
    target: &Target,
    kind: Kind,
    name: String,
) -> ExecuteResult {
    let path = paths::object(kind, &target.namespace, &name);
    match requests.get(&path).await {
        Ok(found) if belongs_to(&metadata(&found), target) => Ok(Some(Answer::Object(kind, found))),
        Ok(_) => Ok(Some(Answer::Absent { kind, name })),
        Err(error) if is_code(&error, 404) => Ok(Some(Answer::Absent { kind, name })),
        Err(error) => Err(Failure::of(Subject::new(kind, &name), &error)),
    }
}

/// Applies an object with its owner reference, unless the resource is being deleted. A deletion with
/// orphaning is recorded on the resource before the garbage collector removes the reference, so a read
/// after the removal shows it. A second read detects a deletion between the first read and the write; the
/// reference is then removed again.
pub(super) async fn restore_owner(
    clusters: &Clusters,
    target: &Target,
    object: &Object,
    uid: &str,
    created_at: Option<usize>,
) -> ExecuteResult {
    let kind = object.kind();
    let requests = clusters.of(kind);
    let subject = Subject::new(kind, object.name());
    let path = paths::object(kind, &target.namespace, object.name());
    confirm_not_deleted(&clusters.management, target).await?;
    let applied = apply(requests, &path, to_value(object), uid, created_at).await;
    let applied = applied.map_err(|error| Failure::of(subject, &error))?;
    let Err(mut failure) = confirm_not_deleted(&clusters.management, target).await else {
        return Ok(Some(Answer::Object(kind, applied)));
    };
    let owners = metadata(&applied).owner_references.unwrap_or_default();
    let others = owners.into_iter().filter(|owner| owner.uid != target.uid);
    let change = MetadataChange {
        owners: Some((others.collect(), None)),
        ..MetadataChange::default()
    };
    let reverted = requests.label(&path, &metadata_patch(uid, change)).await;
    match reverted {
        Ok(reverted) => failure.answers.push(Answer::Object(kind, reverted)),
        Err(error) => return Err(Failure::of(subject, &error)),
    }
    Err(failure)
}

/// Applies to the object with this UID. The managed fields of the operator's create are first turned into
/// those of an apply, so that fields that the body leaves out are removed.
pub(super) async fn apply(
    requests: &Requests,
    path: &str,
    mut body: Value,
    uid: &str,
    created_at: Option<usize>,
) -> kube::Result<Value> {
    if let Some(index) = created_at {
        let entry = format!("/metadata/managedFields/{index}");
        let operations = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": format!("{entry}/manager"), "value": labels::MANAGER },
            { "op": "test", "path": format!("{entry}/operation"), "value": "Update" },
            { "op": "replace", "path": format!("{entry}/operation"), "value": "Apply" },
        ]);
        let upgraded = requests.patch(path, &operations).await;
        upgraded.map_err(as_conflict)?;
    }
    body["metadata"]["uid"] = uid.into();
    match requests.apply(path, &body).await {
        Err(error) if is_refused_for_null(&error) => {
            let live = requests.get(path).await?;
            let removals = withdraw::removals(&live, &body);
            if removals.is_empty() {
                return Err(error);
            }
            let version = &live["metadata"]["resourceVersion"];
            let mut operations = vec![
                json!({ "op": "test", "path": "/metadata/uid", "value": uid }),
                json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }),
            ];
            operations.extend(removals);
            let removed = requests.patch(path, &operations.into()).await;
            removed.map_err(as_conflict)?;
            requests.apply(path, &body).await
        }
        applied => applied,
    }
}

/// Whether an apply was refused for a `null`, which the operator's bodies do not contain.
fn is_refused_for_null(error: &Error) -> bool {
    let Error::Api(status) = error else {
        return false;
    };
    status.code == 422 && RefusalCause::parse(&status.message) == RefusalCause::NullValue
}

/// Whether an object was created for the resource with this UID.
pub(super) fn belongs_to(metadata: &ObjectMeta, target: &Target) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let annotations = metadata.annotations.as_ref();
    let recorded = annotations.and_then(|annotations| annotations.get(labels::MACHINE_UID));
    owners.iter().any(|owner| owner.uid == target.uid) || recorded == Some(&target.uid)
}

fn is_controlled(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true))
}
