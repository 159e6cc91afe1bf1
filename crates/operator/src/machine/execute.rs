//! Execution of a plan's steps for one resource, in order, until one fails.
//!
//! Nothing is decided here: an action says exactly what to write. The answers are returned, so that the
//! caches are updated before the watch events arrive.

mod adoption;
mod children;
mod owner;
mod secret;

use std::{collections::BTreeMap, time::Duration};

use api::ObjectMeta;
use kube::Error;
use plan::machine::{Action, Identity, Kind, MetadataChange, Object, Refusal, RemoteCluster, Step};
use serde_json::{Value, json};

use self::{
    adoption::label_adopted,
    children::{apply, create, observe_disk, recover_claim, restore_owner},
    owner::{
        add_finalizer, apply_network, confirm_not_deleted, place, remove_finalizer,
        replace_former_finalizer,
    },
    secret::{delete_secret, write_secret},
};
pub(super) use self::{
    owner::{read_machine, write_status},
    secret::{read_cloud_init, read_config_map, read_secret},
};
use super::{
    clusters::Clusters,
    paths::{self, Owner},
    refusal::Subject,
};
use crate::requests::{Requests, is_code};

/// Resource that steps are executed for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) finalizers: Vec<String>,
    /// The cluster of its objects, if it is not its own.
    pub(super) cluster: Option<RemoteCluster>,
}

impl Target {
    pub(super) fn of(owner: Owner, metadata: &ObjectMeta) -> Self {
        Self {
            owner,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            cluster: None,
        }
    }

    pub(super) fn in_cluster(self, cluster: Option<RemoteCluster>) -> Self {
        Self { cluster, ..self }
    }

    /// Labels by which caches select the objects of a Machine.
    fn child_labels(&self) -> BTreeMap<String, String> {
        plan::machine::child_labels(&Identity {
            name: self.name.clone(),
            namespace: Some(self.namespace.clone()),
            uid: Some(self.uid.clone()),
            cluster: self.cluster.clone(),
        })
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

impl Outcome {
    fn fail(&mut self, failure: Failure) {
        self.answers.extend(failure.answers);
        self.refusal = Some(failure.refusal);
        self.retry_after = failure.retry_after;
        self.is_fenced = failure.is_fenced;
    }
}

pub(super) async fn execute(clusters: &Clusters, target: &Target, steps: Vec<Step>) -> Outcome {
    let mut outcome = Outcome::default();
    for step in steps {
        // The Secret is written again before each attempt to write its VirtualMachine.
        let is_progress = !matches!(step.action, Action::WriteSecret(_));
        let mut event = step.event;
        if let Action::LabelAdopted { name, volumes } = &step.action {
            match label_adopted(&clusters.workload, target, name, volumes).await {
                Ok(answers) => {
                    outcome.made_progress = true;
                    outcome.answers.extend(answers);
                    continue;
                }
                Err(failure) => {
                    outcome.fail(failure);
                    break;
                }
            }
        }
        let result = execute_action(clusters, target, step.action, &mut event).await;
        match result {
            Ok(answer) => {
                outcome.made_progress |= is_progress;
                outcome.answers.extend(answer);
                outcome.events.extend(event);
            }
            Err(failure) => {
                outcome.fail(failure);
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
    clusters: &Clusters,
    target: &Target,
    action: Action,
    event: &mut Option<plan::Event>,
) -> ExecuteResult {
    match action {
        Action::AddFinalizer => add_finalizer(&clusters.management, target).await,
        Action::Place { cluster, annotate } => {
            place(&clusters.management, target, &cluster, annotate).await
        }
        Action::ReplaceFormerFinalizer => {
            replace_former_finalizer(&clusters.management, target).await
        }
        Action::RemoveFinalizer => remove_finalizer(&clusters.management, target).await,
        Action::ApplyNetwork {
            with_finalizer,
            with_provider,
        } => apply_network(&clusters.management, target, with_finalizer, with_provider).await,
        Action::Create(object) => create(clusters, target, &object, event).await,
        Action::Recreate(object) => {
            confirm_not_deleted(&clusters.management, target).await?;
            create(clusters, target, &object, event).await
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
            let applied = apply(clusters.of(kind), &path, body, &uid, created_at).await;
            let applied = applied.map_err(|error| Failure::of(subject, &error))?;
            Ok(Some(Answer::Object(kind, applied)))
        }
        Action::RestoreOwner {
            object,
            uid,
            created_at,
        } => restore_owner(clusters, target, &object, &uid, created_at).await,
        Action::ChangeMetadata {
            kind,
            name,
            uid,
            change,
        } => {
            let subject = Subject::new(kind, &name);
            let path = paths::object(kind, &target.namespace, &name);
            let changed = clusters
                .of(kind)
                .label(&path, &metadata_patch(&uid, change))
                .await;
            let changed = changed.map_err(|error| Failure::of(subject, &error))?;
            Ok(Some(Answer::Object(kind, changed)))
        }
        Action::RecoverClaim { name, uid, change } => {
            recover_claim(&clusters.workload, target, (&name, uid), change, event).await
        }
        Action::ObserveDisk { kind, name } => {
            observe_disk(&clusters.workload, target, kind, name).await
        }
        // The control loop reads for all Machines of a namespace at once, and a batch of steps labels
        // what is to be adopted.
        Action::ObserveReferences | Action::LabelAdopted { .. } => Ok(None),
        Action::WriteSecret(secret) => write_secret(&clusters.workload, target, &secret).await,
        Action::DeleteSecret { name } => delete_secret(&clusters.workload, target, &name).await,
        Action::Delete {
            kind,
            name,
            uid,
            resource_version,
        } => {
            let subject = Subject::new(kind, &name);
            let path = paths::object(kind, &target.namespace, &name);
            let deleted = clusters
                .of(kind)
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
        Action::Pause { name } => call(&clusters.workload, target, &name, "pause").await,
        Action::Unpause { name } => call(&clusters.workload, target, &name, "unpause").await,
    }
}

/// Merge patch of metadata: entries without value are removed.
fn metadata_patch(uid: &str, change: MetadataChange) -> Value {
    let MetadataChange {
        labels,
        annotations,
        template_labels,
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
    let mut patch = json!({ "metadata": metadata });
    if !template_labels.is_empty() {
        let labels = json!({ "metadata": { "labels": template_labels } });
        patch["spec"] = json!({ "template": labels });
    }
    patch
}

async fn call(requests: &Requests, target: &Target, name: &str, call: &str) -> ExecuteResult {
    let path = paths::instance_call(&target.namespace, name, call);
    let subject = Subject::new(Kind::VirtualMachineInstance, name);
    let called = requests.call(&path).await;
    called
        .map(|()| None)
        .map_err(|error| Failure::of(subject, &error))
}

fn metadata(object: &Value) -> ObjectMeta {
    decode::from_value(object["metadata"].clone()).unwrap_or_default()
}

fn to_value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
