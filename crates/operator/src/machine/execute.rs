//! Execution of a plan's steps for one resource, in order, until one fails.
//!
//! Nothing is decided here: an action says exactly what to write. The answers are returned, so that the
//! caches are updated before the watch events arrive.

mod secret;

use std::time::Duration;

use api::{Machine, ObjectMeta, labels};
use kube::Error;
use plan::{
    machine::{Action, Kind, MetadataChange, Object, Part, Refusal, Step, label_repair_event},
    managed,
};
use serde_json::{Value, json};

pub(super) use self::secret::read_secret;
use self::secret::{delete_secret, write_secret};
use super::{
    paths::{self, Owner},
    refusal::Subject,
    withdraw,
};
use crate::requests::{Requests, already_exists, as_conflict, is_code};

/// Resource that steps are executed for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) finalizers: Vec<String>,
}

impl Target {
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

    /// Start of an apply body; the UID makes it fail for another resource of the same name.
    fn body(&self) -> Value {
        json!({
            "apiVersion": api::API_VERSION, "kind": self.owner.kind(),
            "metadata": { "name": self.name, "namespace": self.namespace, "uid": self.uid },
        })
    }
}

/// State of an object that an answer of the API server shows.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Current state of the resource.
    Owner(Value),
    /// The resource is gone.
    OwnerGone { uid: String },
    /// Current metadata of the cloud-init Secret.
    Secret(Box<ObjectMeta>),
    /// Current state of a child.
    Object(Kind, Value),
    /// No claim with this UID exists.
    ClaimLost { uid: String },
    /// It is unknown whether a claim or DataVolume was created.
    Unconfirmed { kind: Kind, name: String },
    /// No such claim or DataVolume of the Machine exists.
    Absent { kind: Kind, name: String },
    /// The child is gone.
    Gone {
        kind: Kind,
        name: String,
        uid: String,
    },
}

/// Outcome of a batch of steps, or of a status write.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Answers, in order.
    pub(super) answers: Vec<Answer>,
    /// Whether a step succeeded that is not repeated in the next attempt.
    pub(super) made_progress: bool,
    /// Events of the steps that succeeded.
    pub(super) events: Vec<plan::Event>,
    /// Refusal of the step that failed.
    pub(super) refusal: Option<Refusal>,
    /// Retry-After of that refusal.
    pub(super) retry_after: Option<Duration>,
    /// Whether the step was not sent because this process does not lead.
    pub(super) is_fenced: bool,
}

pub(super) async fn execute(requests: &Requests, target: &Target, steps: Vec<Step>) -> Outcome {
    let mut outcome = Outcome::default();
    for step in steps {
        // The Secret is written again before each attempt to write its VirtualMachine.
        let is_progress = !matches!(step.action, Action::WriteSecret(_));
        let mut event = step.event;
        let result = execute_action(requests, target, step.action, &mut event).await;
        match result {
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

/// Failed step, with the answers that it got.
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

    /// A failed create may still have created the object, unless the API server refused it.
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

type ExecuteResult = Result<Option<Answer>, Failure>;

/// Executes an action. It may replace `event`, the Event to publish on success.
async fn execute_action(
    requests: &Requests,
    target: &Target,
    action: Action,
    event: &mut Option<plan::Event>,
) -> ExecuteResult {
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
        // The control loop reads for all Machines of a namespace at once.
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

async fn add_finalizer(requests: &Requests, target: &Target) -> ExecuteResult {
    let mut body = target.body();
    body["metadata"]["finalizers"] = json!([target.owner.finalizer()]);
    let applied = requests.apply(&target.path(), &body).await;
    owner_result(target, applied)
}

/// Removes the finalizer by its index, whichever field manager set it.
async fn remove_finalizer(requests: &Requests, target: &Target) -> ExecuteResult {
    let finalizer = target.owner.finalizer();
    let mut finalizers = target.finalizers.iter();
    let Some(index) = finalizers.position(|found| found == finalizer) else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{index}");
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": target.uid },
        { "op": "test", "path": path, "value": finalizer },
        { "op": "remove", "path": path },
    ]);
    let patched = requests.patch(&target.path(), &operations).await;
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

/// Creates a child. If it exists and belongs to this resource, the caches are stale or somebody removed
/// its labels; these are restored.
async fn create(
    requests: &Requests,
    target: &Target,
    object: &Object,
    event: &mut Option<plan::Event>,
) -> ExecuteResult {
    let kind = object.kind();
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
async fn recover_claim(
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
async fn observe_disk(
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

/// Merge patch of metadata: entries without value are removed.
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

/// Applies an object with its owner reference, unless the resource is being deleted. A deletion with
/// orphaning is recorded on the resource before the garbage collector removes the reference, so a read
/// after the removal shows it. A second read detects a deletion between the first read and the write; the
/// reference is then removed again.
async fn restore_owner(
    requests: &Requests,
    target: &Target,
    object: &Object,
    uid: &str,
    created_at: Option<usize>,
) -> ExecuteResult {
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

/// Reads the resource from the API server. Fails, with the answer, if it is being deleted, gone, or
/// replaced by another of the same name.
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

/// Applies to the object with this UID. The managed fields of the operator's create are first turned into
/// those of an apply, so that fields that the body leaves out are removed.
async fn apply(
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
    matches!(error, Error::Api(status) if status.code == 422 && status.message.contains("null"))
}

/// Reads a Machine with its cloud-init data. Permission to list Machines is enough.
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

async fn call(requests: &Requests, target: &Target, name: &str, call: &str) -> ExecuteResult {
    let path = paths::instance_call(&target.namespace, name, call);
    let subject = Subject::new(Kind::VirtualMachineInstance, name);
    let called = requests.call(&path).await;
    called
        .map(|()| None)
        .map_err(|error| Failure::of(subject, &error))
}

/// Whether an object was created for the resource with this UID.
fn belongs_to(metadata: &ObjectMeta, target: &Target) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let annotations = metadata.annotations.as_ref();
    let recorded = annotations.and_then(|annotations| annotations.get(labels::MACHINE_UID));
    owners.iter().any(|owner| owner.uid == target.uid) || recorded == Some(&target.uid)
}

fn is_controlled(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true))
}

/// Whether an object is being deleted and has no finalizers.
fn is_removed(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    metadata.deletion_timestamp.is_some() && finalizers.is_empty()
}

fn metadata(object: &Value) -> ObjectMeta {
    decode::from_value(object["metadata"].clone()).unwrap_or_default()
}

fn to_value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
