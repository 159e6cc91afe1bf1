//! Carries out one step, and tells what came of it.
//!
//! Nothing is decided here: a step says exactly what to write. What the API server answers is handed
//! back, so that the caches know of it before the watches tell.

mod definitions;
mod issue;

use api::kubevirt::install::{self, KubeVirt};
use kube::{Error, ResourceExt as _};
use plan::kubevirt::{
    Action, Existing, Fingerprint, Id, Live, Object, Step,
    cause::Cause,
    observed::{Count, Node, WriteError},
};
use serde_json::{Value, json};

use super::{
    Clock,
    kinds::Resource,
    slim::{self, Secret, Slim},
};
use crate::requests::{Requests, as_conflict, in_one_line, is_code, is_taken, words};

/// The KubeVirt resource that steps are carried out for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl Target {
    pub(super) fn of(kubevirt: &KubeVirt) -> Self {
        Self {
            namespace: kubevirt.namespace().unwrap_or_default(),
            name: kubevirt.name_any(),
            uid: kubevirt.uid().unwrap_or_default(),
            resource_version: kubevirt.resource_version().unwrap_or_default(),
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    pub(super) fn id(&self) -> Id {
        Id::new("kubevirt.io", "KubeVirt", &self.namespace, &self.name)
    }

    /// What a refusal of its status is remembered under.
    pub(super) fn status_id(&self) -> Id {
        Id::new(
            "kubevirt.io",
            "KubeVirt/status",
            &self.namespace,
            &self.name,
        )
    }

    fn path(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        format!("/apis/kubevirt.io/v1/namespaces/{namespace}/kubevirts/{name}")
    }
}

/// A step, and all that it takes to carry it out.
pub(super) struct Work {
    pub(super) step: Step,
    /// How the kind of its object is served.
    pub(super) resource: Option<Resource>,
}

/// What is now known to be so, because the API server answered.
pub(super) enum Answer {
    /// The KubeVirt resource itself, as it is now.
    KubeVirt(Value),
    /// The KubeVirt resource itself is gone.
    KubeVirtGone(String),
    /// An object, as it is now.
    Object(Live),
    /// An object, as it is after what has that fingerprint was applied.
    Applied(Live, Fingerprint),
    /// A Secret with a certificate, as it is now.
    Secret(Secret),
    /// A node, as it is now.
    Node(Slim<Node>),
    /// An object is gone.
    Gone(Id, String),
    /// How many objects a definition has.
    Counted(String, Count),
}

/// Why a step was not carried out.
pub(super) struct Failure {
    pub(super) error: WriteError,
    pub(super) message: String,
    /// Whether it was not tried because this process does not lead.
    pub(super) is_fenced: bool,
    /// What was learned from it.
    pub(super) answer: Option<Box<Answer>>,
}

impl Failure {
    fn new(error: &Error) -> Self {
        let (kind, message) = match error {
            Error::Api(status) => (WriteError::Status(status.code), words(status)),
            error => {
                let error = in_one_line(&error.to_string());
                let message = format!("the API server did not answer: {error}");
                (WriteError::Unanswered, message)
            }
        };
        Self {
            error: kind,
            message,
            is_fenced: runtime::client::is_fenced(error),
            answer: None,
        }
    }

    /// The cause that others of the round share, if so.
    pub(super) fn cause(&self, subject: &Id) -> Option<Cause> {
        Cause::of(subject, self.error, &self.message).filter(|_| !self.is_fenced)
    }

    fn said(message: String) -> Self {
        Self {
            error: WriteError::NotSent,
            message,
            is_fenced: false,
            answer: None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(&error)
    }
}

type Carried = Result<Vec<Answer>, Failure>;

/// What a step is about.
pub(super) fn subject(target: &Target, action: &Action) -> Id {
    action.subject(&target.id())
}

/// What a step writes, so that something else is tried at once after a refusal.
pub(super) fn fingerprint(action: &Action) -> Option<Fingerprint> {
    action.fingerprint()
}

/// Carries steps out for one KubeVirt resource.
#[derive(Clone)]
pub(super) struct Executor {
    pub(super) requests: Requests,
    pub(super) target: Target,
    pub(super) clock: Clock,
}

impl Executor {
    /// Carries a step out.
    pub(super) async fn carry_out(&self, action: Action, resource: Option<&Resource>) -> Carried {
        match action {
            Action::Finalizers(finalizers) => {
                let Target {
                    uid,
                    resource_version,
                    ..
                } = &self.target;
                let metadata = json!({
                    "uid": uid, "resourceVersion": resource_version, "finalizers": finalizers,
                });
                self.kubevirt(&json!({ "metadata": metadata })).await
            }
            Action::Annotate(annotations) => {
                let annotations: serde_json::Map<String, Value> = annotations
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into()))
                    .collect();
                let metadata = json!({ "uid": self.target.uid, "annotations": annotations });
                self.kubevirt(&json!({ "metadata": metadata })).await
            }
            Action::Create(object) => self.create(&object, served(resource, &object.id)?).await,
            Action::Apply { object, existing } => {
                let resource = served(resource, &object.id)?;
                self.apply(&object, existing.as_ref(), resource).await
            }
            Action::Issue {
                issue,
                existing,
                labels,
                annotations,
            } => issue::carry_out(self, &issue, existing.as_ref(), labels, annotations).await,
            Action::Patch { id, version, patch } => {
                let path = path(served(resource, &id)?, &version, &id);
                let patched = self.requests.merge(&path, &patch).await?;
                Ok(Self::observed(&id, &version, patched))
            }
            Action::Delete { id, version, uid } => {
                let path = path(served(resource, &id)?, &version, &id);
                match self.requests.delete(&path, &uid, None).await {
                    Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => {
                        Ok(Self::observed(&id, &version, answer))
                    }
                    Ok(_) => Ok(vec![Answer::Gone(id, uid)]),
                    Err(error) if is_code(&error, 404) => Ok(vec![Answer::Gone(id, uid)]),
                    Err(error) => Err(error.into()),
                }
            }
            Action::DeleteAll { definition } => self.delete_all(definition).await,
            Action::Count { definition } => self.count(definition).await,
        }
    }

    /// Writes what differs of the status.
    pub(super) async fn write_status(&self, old: &Value, new: &Value) -> Carried {
        let status = difference(old, new);
        let body = json!({ "metadata": { "uid": self.target.uid }, "status": status });
        let path = format!("{}/status", self.target.path());
        self.answered(self.requests.merge(&path, &body).await)
    }

    async fn kubevirt(&self, body: &Value) -> Carried {
        self.answered(self.requests.merge(&self.target.path(), body).await)
    }

    fn answered(&self, written: kube::Result<Value>) -> Carried {
        let uid = self.target.uid.clone();
        match written {
            // What nothing holds any more is gone with the write; its version need not tell.
            Ok(value) if is_let_go(&value) => Ok(vec![Answer::KubeVirtGone(uid)]),
            Ok(value) => Ok(vec![Answer::KubeVirt(value)]),
            Err(error) if is_code(&error, 404) => Ok(vec![Answer::KubeVirtGone(uid)]),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, object: &Object, resource: &Resource) -> Carried {
        let collection = resource.collection(&object.version, &object.id.namespace);
        match self.requests.create(&collection, &object.value()).await {
            Ok(created) => Ok(Self::observed(&object.id, &object.version, created)),
            // The answer to our own create was lost, or somebody was faster.
            Err(error) if is_taken(&error) => {
                let path = path(resource, &object.version, &object.id);
                let found = self.requests.get(&path).await?;
                Ok(Self::observed(&object.id, &object.version, found))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn apply(
        &self,
        object: &Object,
        existing: Option<&Existing>,
        resource: &Resource,
    ) -> Carried {
        let path = path(resource, &object.version, &object.id);
        let mut body = object.value();
        if let Some(existing) = existing {
            self.take_over(&path, existing).await?;
            body["metadata"]["uid"] = existing.uid.as_str().into();
        }
        match self.requests.apply(&path, &body).await {
            Ok(applied) => {
                let live = live(&object.id, &object.version, applied);
                let live = live.map(|live| Answer::Applied(live, object.fingerprint));
                Ok(live.into_iter().collect())
            }
            Err(error) => Err(self.refused(&error, object, existing, &path).await),
        }
    }

    /// Makes the entries of KubeVirt's own operator ours, so that what it set and we leave out now
    /// goes away.
    async fn take_over(&self, path: &str, existing: &Existing) -> Result<(), Failure> {
        if existing.upstream_entries.is_empty() {
            return Ok(());
        }
        let test = json!({ "op": "test", "path": "/metadata/uid", "value": existing.uid });
        let entries = existing.upstream_entries.iter().flat_map(|place| {
            let entry = format!("/metadata/managedFields/{place}");
            let (manager, operation) = (format!("{entry}/manager"), format!("{entry}/operation"));
            let theirs = install::UPSTREAM_FIELD_MANAGER;
            [
                json!({ "op": "test", "path": manager, "value": theirs }),
                json!({ "op": "test", "path": operation, "value": "Update" }),
                json!({ "op": "replace", "path": manager, "value": install::FIELD_MANAGER }),
                json!({ "op": "replace", "path": operation, "value": "Apply" }),
            ]
        });
        let operations: Vec<_> = std::iter::once(test).chain(entries).collect();
        let patched = self.requests.patch(path, &operations.into()).await;
        patched.map_err(as_conflict)?;
        Ok(())
    }

    /// What was to be created may be there without a label: then the caches do not know of it, and
    /// the plan has to.
    async fn refused(
        &self,
        error: &Error,
        object: &Object,
        existing: Option<&Existing>,
        path: &str,
    ) -> Failure {
        let mut failure = Failure::new(error);
        if existing.is_none()
            && matches!(failure.error, WriteError::Status(409 | 422))
            && let Ok(found) = self.requests.get(path).await
        {
            failure.answer =
                live(&object.id, &object.version, found).map(|live| Box::new(Answer::Object(live)));
        }
        failure
    }

    /// What an answer tells of an object.
    fn observed(id: &Id, version: &str, value: Value) -> Vec<Answer> {
        if id.is("", "Node") {
            let node = slim::node(value.to_string().as_bytes()).ok();
            return node.map(Answer::Node).into_iter().collect();
        }
        if is_let_go(&value) {
            let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
            return vec![Answer::Gone(id.clone(), uid.to_owned())];
        }
        let live = live(id, version, value).map(Answer::Object);
        live.into_iter().collect()
    }
}

fn live(id: &Id, version: &str, value: Value) -> Option<Live> {
    slim::object(&id.group, version, &id.kind, value).ok()
}

fn served<'a>(resource: Option<&'a Resource>, id: &Id) -> Result<&'a Resource, Failure> {
    let unknown = || Failure::said(format!("the API server does not serve the kind of {id}"));
    resource.ok_or_else(unknown)
}

fn path(resource: &Resource, version: &str, id: &Id) -> String {
    format!(
        "{}/{}",
        resource.collection(version, &id.namespace),
        id.name
    )
}

/// Whether an object is deleted, and nothing holds it.
fn is_let_go(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    metadata["deletionTimestamp"].is_string() && finalizers.is_none_or(Vec::is_empty)
}

/// The merge patch that makes `new` of `old`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let changed = new.iter().filter_map(|(name, value)| match old.get(name) {
        Some(before) if before == value => None,
        Some(before) => Some((name.clone(), difference(before, value))),
        None => Some((name.clone(), value.clone())),
    });
    gone.chain(changed)
        .collect::<serde_json::Map<_, _>>()
        .into()
}
