//! Carries steps out, one after the other, until one fails.
//!
//! Nothing is decided here: a step says exactly what to write. What the API server answers is handed
//! back, so that the caches know of it before the watches tell.

use std::time::Duration;

use api::{Machine, ObjectMeta, core::Secret, labels};
use kube::Error;
use plan::{
    machine::{
        Action, Kind, MetadataChange, Object, Part, Refusal, SecretMetadata, Step,
        label_repair_event,
    },
    managed,
};
use serde_json::{Value, json};

use super::{
    paths::{self, Owner},
    refusal::Subject,
    withdraw,
};
use crate::requests::{Requests, as_conflict, is_code, is_taken};

/// The resource that steps are carried out for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) finalizers: Vec<String>,
}

impl Target {
    /// The resource that this is the metadata of.
    pub(super) fn of(owner: Owner, metadata: &ObjectMeta) -> Self {
        Self {
            owner,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
        }
    }

    fn path(&self) -> String {
        self.owner.path(&self.namespace, &self.name)
    }

    /// The beginning of an apply to the resource itself, and to no other of its name.
    fn body(&self) -> Value {
        json!({
            "apiVersion": api::API_VERSION, "kind": self.owner.kind(),
            "metadata": { "name": self.name, "namespace": self.namespace, "uid": self.uid },
        })
    }
}

/// What is now known to be so, because the API server answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The resource itself, as it is now.
    Owner(Value),
    /// The resource itself is gone.
    OwnerGone { uid: String },
    /// The Secret with cloud-init's data, as its metadata shows it now.
    Secret(Box<ObjectMeta>),
    /// An object, as it is now.
    Object(Kind, Value),
    /// No claim with this UID exists.
    ClaimLost { uid: String },
    /// Whether a claim or DataVolume was created is not known.
    Unconfirmed { kind: Kind, name: String },
    /// No such claim or DataVolume of the Machine exists.
    Absent { kind: Kind, name: String },
    /// An object is gone.
    Gone {
        kind: Kind,
        name: String,
        uid: String,
    },
}

/// How far the steps came.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Answers, in order.
    pub(super) answers: Vec<Answer>,
    /// Whether a step was carried out that need not be repeated.
    pub(super) made_progress: bool,
    /// Events of the steps that were carried out.
    pub(super) events: Vec<plan::Event>,
    /// Why the next step was not.
    pub(super) refusal: Option<Refusal>,
    /// How long the API server that refused it wishes to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// Whether it was not carried out because we no longer lead.
    pub(super) is_fenced: bool,
}

/// Carries the steps out.
pub(super) async fn execute(requests: &Requests, target: &Target, steps: Vec<Step>) -> Outcome {
    let mut outcome = Outcome::default();
    for step in steps {
        // The Secret is written again before each attempt to write its VirtualMachine.
        let is_progress = !matches!(step.action, Action::WriteSecret(_));
        let mut event = step.event;
        let carried_out = carry_out(requests, target, step.action, &mut event).await;
        match carried_out {
            Ok(answer) => {
                outcome.made_progress |= is_progress;
                outcome.answers.extend(answer);
                outcome.events.extend(event);
            }
            Err(failure) => {
                outcome.answers.extend(failure.answers);
                outcome.refusal = Some(failure.refusal);
                outcome.retry_after = failure.retry_after;
                outcome.is_fenced = failure.is_fenced;
                break;
            }
        }
    }
    outcome
}

/// Why a step was not carried out, and what was learned from it.
struct Failure {
    refusal: Refusal,
    retry_after: Option<Duration>,
    is_fenced: bool,
    answers: Vec<Answer>,
}

impl Failure {
    fn of(subject: Subject<'_>, error: &Error) -> Self {
        Self {
            refusal: subject.refused(error),
            retry_after: runtime::client::retry_after(error),
            is_fenced: runtime::client::is_fenced(error),
            answers: Vec::new(),
        }
    }

    /// A create that failed may still have taken effect, unless the API server refused it.
    fn of_create(object: &Object, error: &Error) -> Self {
        let (kind, name) = (object.kind(), object.name());
        let is_disk = matches!(kind, Kind::PersistentVolumeClaim | Kind::DataVolume);
        let is_refused = matches!(error, Error::Api(status) if status.code < 500);
        let mut failure = Self::of(Subject::new(kind, name), error);
        if is_disk && !is_refused && !failure.is_fenced {
            let name = name.to_owned();
            failure.answers.push(Answer::Unconfirmed { kind, name });
        }
        failure
    }

    fn lasting(refusal: Refusal) -> Self {
        Self {
            refusal,
            retry_after: None,
            is_fenced: false,
            answers: Vec::new(),
        }
    }
}

type Carried = Result<Option<Answer>, Failure>;

/// Carries out a step. `event` is what is reported of it.
async fn carry_out(
    requests: &Requests,
    target: &Target,
    action: Action,
    event: &mut Option<plan::Event>,
) -> Carried {
    match action {
        Action::AddFinalizer => add_finalizer(requests, target).await,
        Action::RemoveFinalizer => remove_finalizer(requests, target).await,
        Action::Create(object) => create(requests, target, &object, event).await,
        Action::Recreate(object) => {
            confirm_not_deleted(requests, target).await?;
            create(requests, target, &object, event).await
        }
        Action::Apply {
            object,
            uid,
            created_at,
        } => {
            let kind = object.kind();
            let subject = Subject::new(kind, object.name());
            let path = paths::object(kind, &target.namespace, object.name());
            let body = to_value(&object);
            let applied = apply(requests, &path, body, &uid, created_at).await;
            let applied = applied.map_err(|error| Failure::of(subject, &error))?;
            Ok(Some(Answer::Object(kind, applied)))
        }
        Action::RestoreOwner {
            object,
            uid,
            created_at,
        } => restore_owner(requests, target, &object, &uid, created_at).await,
        Action::ChangeMetadata {
            kind,
            name,
            uid,
            change,
        } => {
            let subject = Subject::new(kind, &name);
            let path = paths::object(kind, &target.namespace, &name);
            let changed = requests.label(&path, &metadata_patch(&uid, change)).await;
            let changed = changed.map_err(|error| Failure::of(subject, &error))?;
            Ok(Some(Answer::Object(kind, changed)))
        }
        Action::RecoverClaim { name, uid, change } => {
            recover_claim(requests, target, (&name, uid), change, event).await
        }
        Action::ObserveDisk { kind, name } => observe_disk(requests, target, kind, name).await,
        // The loop reads for all Machines of a namespace at once.
        Action::ObserveReferences => Ok(None),
        Action::WriteSecret(secret) => write_secret(requests, target, &secret).await,
        Action::DeleteSecret { name } => delete_secret(requests, target, &name).await,
        Action::Delete {
            kind,
            name,
            uid,
            resource_version,
        } => {
            let subject = Subject::new(kind, &name);
            let path = paths::object(kind, &target.namespace, &name);
            let deleted = requests
                .delete(&path, &uid, resource_version.as_deref())
                .await;
            match deleted {
                Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => {
                    Ok(Some(Answer::Object(kind, answer)))
                }
                Ok(_) => Ok(Some(Answer::Gone { kind, name, uid })),
                Err(error) if is_code(&error, 404) => Ok(Some(Answer::Gone { kind, name, uid })),
                Err(error) => Err(Failure::of(subject, &error)),
            }
        }
        Action::Pause { name } => call(requests, target, &name, "pause").await,
        Action::Unpause { name } => call(requests, target, &name, "unpause").await,
    }
}

async fn add_finalizer(requests: &Requests, target: &Target) -> Carried {
    let mut body = target.body();
    body["metadata"]["finalizers"] = json!([target.owner.finalizer()]);
    let applied = requests.apply(&target.path(), &body).await;
    answered(target, applied)
}

/// Taken out by its place in the list, whoever put it there.
async fn remove_finalizer(requests: &Requests, target: &Target) -> Carried {
    let finalizer = target.owner.finalizer();
    let place = target.finalizers.iter().position(|held| held == finalizer);
    let Some(place) = place else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{place}");
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": target.uid },
        { "op": "test", "path": path, "value": finalizer },
        { "op": "remove", "path": path },
    ]);
    let patched = requests.patch(&target.path(), &operations).await;
    answered(target, patched.map_err(as_conflict))
}

/// The answer to a write to the resource itself.
fn answered(target: &Target, written: kube::Result<Value>) -> Carried {
    let gone = Answer::OwnerGone {
        uid: target.uid.clone(),
    };
    match written {
        // What nothing holds any more is gone with the write; its version need not tell.
        Ok(value) if is_let_go(&metadata(&value)) => Ok(Some(gone)),
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
pub(super) async fn write_status(
    requests: &Requests,
    target: &Target,
    status: Value,
    events: Vec<plan::Event>,
) -> Outcome {
    let mut body = target.body();
    body["status"] = status;
    let path = format!("{}/status", target.path());
    let mut outcome = Outcome::default();
    match answered(target, requests.apply(&path, &body).await) {
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

/// Creates an object. One that is there already is ours if it was made for this very resource: then
/// the caches are behind, or somebody took its label off.
async fn create(
    requests: &Requests,
    target: &Target,
    object: &Object,
    event: &mut Option<plan::Event>,
) -> Carried {
    let kind = object.kind();
    let subject = Subject::new(kind, object.name());
    let collection = paths::collection(kind, &target.namespace);
    match requests.create(&collection, object).await {
        Ok(created) => return Ok(Some(Answer::Object(kind, created))),
        Err(error) if is_taken(&error) => {}
        Err(error) => return Err(Failure::of_create(object, &error)),
    }
    let path = paths::object(kind, &target.namespace, object.name());
    let found = requests.get(&path).await;
    let found = found.map_err(|error| Failure::of_create(object, &error))?;
    let metadata = metadata(&found);
    let wanted = &to_value(object)["metadata"]["labels"];
    let kind_of_owner = target.owner.kind();
    if managed::is_of_predecessor(&metadata, kind_of_owner, &target.name, &target.uid) {
        return Err(Failure::lasting(subject.of_predecessor()));
    }
    if !is_made_for(&metadata, target) {
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
    // Only the labels are put back: the rest is decided once it is seen what there is.
    let body = json!({ "metadata": { "uid": metadata.uid, "labels": wanted } });
    let labelled = requests.label(&path, &body).await;
    let labelled = labelled.map_err(|error| Failure::of(subject, &error))?;
    Ok(Some(Answer::Object(kind, labelled)))
}

/// Reads a claim that the caches do not show, and puts its labels back.
async fn recover_claim(
    requests: &Requests,
    target: &Target,
    (name, uid): (&str, String),
    change: MetadataChange,
    event: &mut Option<plan::Event>,
) -> Carried {
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
async fn observe_disk(requests: &Requests, target: &Target, kind: Kind, name: String) -> Carried {
    let path = paths::object(kind, &target.namespace, &name);
    match requests.get(&path).await {
        Ok(found) if is_made_for(&metadata(&found), target) => {
            Ok(Some(Answer::Object(kind, found)))
        }
        Ok(_) => Ok(Some(Answer::Absent { kind, name })),
        Err(error) if is_code(&error, 404) => Ok(Some(Answer::Absent { kind, name })),
        Err(error) => Err(Failure::of(Subject::new(kind, &name), &error)),
    }
}

/// A merge patch of metadata: what has no value is removed.
fn metadata_patch(uid: &str, change: MetadataChange) -> Value {
    let MetadataChange {
        labels,
        annotations,
        owners,
    } = change;
    let mut metadata = json!({ "uid": uid });
    if !labels.is_empty() {
        metadata["labels"] = json!(labels);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    if let Some((owners, version)) = owners {
        metadata["ownerReferences"] = json!(owners);
        if let Some(version) = version {
            metadata["resourceVersion"] = version.into();
        }
    }
    json!({ "metadata": metadata })
}

/// Applies an object with its owner reference, unless the resource is being deleted. A deletion that
/// orphans removes the reference only after it is recorded on the resource, so a read that follows the
/// removal shows it. A deletion that comes between the read and the write is met by a second read: the
/// object then loses the reference again, and is left to those who have the choice.
async fn restore_owner(
    requests: &Requests,
    target: &Target,
    object: &Object,
    uid: &str,
    created_at: Option<usize>,
) -> Carried {
    let kind = object.kind();
    let subject = Subject::new(kind, object.name());
    let path = paths::object(kind, &target.namespace, object.name());
    confirm_not_deleted(requests, target).await?;
    let applied = apply(requests, &path, to_value(object), uid, created_at).await;
    let applied = applied.map_err(|error| Failure::of(subject, &error))?;
    let Err(mut failure) = confirm_not_deleted(requests, target).await else {
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

/// Reads the resource itself from the API server. Fails, with what was read, if it is being deleted,
/// gone, or another of its name.
async fn confirm_not_deleted(requests: &Requests, target: &Target) -> Result<(), Failure> {
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
            error_type: plan::machine::ErrorType::ApiError,
            part: Part::VirtualMachine,
            message: format!("{} {:?} is being deleted", target.owner.kind(), target.name),
            is_persistent: false,
        })
    })
}

/// Applies to this very object. What we created is first marked as applied, so that what we leave
/// out now goes away.
async fn apply(
    requests: &Requests,
    path: &str,
    mut body: Value,
    uid: &str,
    created_at: Option<usize>,
) -> kube::Result<Value> {
    if let Some(place) = created_at {
        let entry = format!("/metadata/managedFields/{place}");
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

/// Whether the result of an apply was refused for a `null`, which no body of ours contains.
fn is_refused_for_null(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 422 && status.message.contains("null"))
}

async fn write_secret(requests: &Requests, target: &Target, secret: &Secret) -> Carried {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let subject = secret_subject(name);
    let collection = paths::secrets(&target.namespace);
    match requests.create(&collection, secret).await {
        Ok(created) => return Ok(Some(secret_answer(&created))),
        Err(error) if is_taken(&error) => {}
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
    if !is_made_for(&metadata, target) {
        return Err(Failure::lasting(subject.foreign()));
    }
    let wanted = to_value(secret);
    let tampered = SecretMetadata::of(&metadata)
        .other_managers()
        .next()
        .is_some();
    if !tampered && is_written(&found, &wanted) {
        return Ok(Some(secret_answer(&found)));
    }
    let uid = metadata.uid.clone().unwrap_or_default();
    let written = if tampered || found["immutable"] == true {
        // Others keep what they own of an object that is applied to, and what is immutable stays as
        // it is: the Secret is made anew.
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

/// Whether a Secret holds the data that is wanted and no other, with our labels and annotations.
fn is_written(found: &Value, wanted: &Value) -> bool {
    let has = |entries: &str| {
        let found = &found["metadata"][entries];
        let wanted = wanted["metadata"][entries].as_object();
        wanted.is_none_or(|wanted| wanted.iter().all(|(name, value)| found[name] == *value))
    };
    found["data"] == wanted["data"] && has("labels") && has("annotations")
}

/// What is kept of an answer that holds a Secret.
fn secret_answer(secret: &Value) -> Answer {
    Answer::Secret(Box::new(metadata(secret)))
}

/// Reads a Machine with all that it says. The right to list them is enough for that.
pub(super) async fn read_machine(
    requests: &Requests,
    target: &Target,
) -> kube::Result<Option<Machine>> {
    let machines = target.owner.path(&target.namespace, "");
    let machines = machines.trim_end_matches('/');
    let path = format!("{machines}?fieldSelector=metadata.name%3D{}", target.name);
    let mut list = requests.get(&path).await?;
    match list.pointer_mut("/items/0").map(Value::take) {
        Some(mut machine) => {
            // Items of a list do not say what they are.
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

/// Reads a Secret of the user's, if there is one.
pub(super) async fn read_secret(
    requests: &Requests,
    target: &Target,
    name: &str,
) -> kube::Result<Option<Secret>> {
    let path = format!("{}/{name}", paths::secrets(&target.namespace));
    match requests.get(&path).await {
        Ok(secret) => decode::from_value(secret)
            .map(Some)
            .map_err(Error::SerdeError),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn delete_secret(requests: &Requests, target: &Target, name: &str) -> Carried {
    let subject = secret_subject(name);
    let path = format!("{}/{name}", paths::secrets(&target.namespace));
    let found = match requests.get(&path).await {
        Ok(found) => found,
        Err(error) if is_code(&error, 404) => return Ok(None),
        Err(error) => return Err(Failure::of(subject, &error)),
    };
    let metadata = metadata(&found);
    if !is_made_for(&metadata, target) {
        return Ok(None);
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    match requests.delete(&path, uid, None).await {
        Ok(_) => Ok(None),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(Failure::of(subject, &error)),
    }
}

async fn call(requests: &Requests, target: &Target, name: &str, call: &str) -> Carried {
    let path = paths::instance_call(&target.namespace, name, call);
    let subject = Subject::new(Kind::VirtualMachineInstance, name);
    let called = requests.call(&path).await;
    called
        .map(|()| None)
        .map_err(|error| Failure::of(subject, &error))
}

fn secret_subject(name: &str) -> Subject<'_> {
    Subject {
        part: Part::VirtualMachine,
        kind: "Secret",
        name,
    }
}

/// Whether an object was made for this very resource.
fn is_made_for(metadata: &ObjectMeta, target: &Target) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let annotations = metadata.annotations.as_ref();
    let noted = annotations.and_then(|annotations| annotations.get(labels::MACHINE_UID));
    owners.iter().any(|owner| owner.uid == target.uid) || noted == Some(&target.uid)
}

fn is_controlled(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true))
}

/// Whether an object is deleted, and nothing holds it.
fn is_let_go(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    metadata.deletion_timestamp.is_some() && finalizers.is_empty()
}

fn metadata(object: &Value) -> ObjectMeta {
    decode::from_value(object["metadata"].clone()).unwrap_or_default()
}

fn to_value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
