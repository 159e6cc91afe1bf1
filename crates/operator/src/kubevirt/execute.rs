//! Execution of one action of the KubeVirt planner.
//!
//! Nothing is decided here: an action says exactly what to write. The answers are returned, so that the
//! caches are updated before the watch events arrive.

mod definitions;
mod issue;

use api::kubevirt::install::{self, KubeVirt};
use kube::{Error, ResourceExt as _};
use plan::{
    kubevirt::{
        Action, Existing, Fingerprint, Id, Live, Object, Step,
        cause::Cause,
        observed::{Count, Node, WriteError},
    },
    upstream_messages::RefusalCause,
};
use runtime::cache::Trimmed;
use serde_json::{Value, json};

use super::{
    Clock,
    kinds::Resource,
    slim::{self, Secret},
};
use crate::requests::{
    Requests, already_exists, as_conflict, in_one_line, is_code, status_message,
};

/// KubeVirt resource that steps are executed for.
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

    /// Key of a refused status write.
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

/// Step with the API resource of its object.
pub(super) struct Work {
    pub(super) step: Step,
    pub(super) resource: Option<Resource>,
}

/// State of an object that an answer of the API server shows.
pub(super) enum Answer {
    /// Current state of the KubeVirt resource.
    KubeVirt(Value),
    /// The KubeVirt resource with this UID is gone.
    KubeVirtGone(String),
    /// Current state of an object.
    Object(Live),
    /// State after an apply, with the fingerprint of what was applied.
    Applied(Live, Fingerprint),
    /// Current state of a Secret with a certificate.
    Secret(Secret),
    /// Current state of a node.
    Node(Trimmed<Node>),
    /// The object with this UID is gone.
    Gone(Id, String),
    /// Number of objects of a definition.
    Counted(String, Count),
}

/// Failed step.
pub(super) struct Failure {
    pub(super) error: WriteError,
    pub(super) cause: RefusalCause,
    pub(super) message: String,
    /// Whether the request was not sent because this process does not lead.
    pub(super) is_fenced: bool,
    pub(super) answer: Option<Box<Answer>>,
}

impl Failure {
    fn new(error: &Error) -> Self {
        let (kind, message) = match error {
            Error::Api(status) => (WriteError::Status(status.code), status_message(status)),
            error => {
                let error = in_one_line(&error.to_string());
                let message = format!("the API server did not answer: {error}");
                (WriteError::Unanswered, message)
            }
        };
        Self {
            error: kind,
            cause: RefusalCause::parse(&message),
            message,
            is_fenced: runtime::client::is_fenced(error),
            answer: None,
        }
    }

    /// Shared cause of the failure, if there is one.
    pub(super) fn shared_cause(&self, subject: &Id) -> Option<Cause> {
        Cause::of(subject, self.error, &self.cause).filter(|_| !self.is_fenced)
    }

    fn with_message(message: String) -> Self {
        Self {
            error: WriteError::NotSent,
            cause: RefusalCause::Other,
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

type ExecuteResult = Result<Vec<Answer>, Failure>;

pub(super) fn subject(target: &Target, action: &Action) -> Id {
    action.subject(&target.id())
}

/// Hash of what an action writes: a changed write is sent at once after a refusal.
pub(super) fn fingerprint(action: &Action) -> Option<Fingerprint> {
    action.fingerprint()
}

#[derive(Clone)]
pub(super) struct Executor {
    pub(super) requests: Requests,
    pub(super) target: Target,
    pub(super) clock: Clock,
}

impl Executor {
    pub(super) async fn execute(
        &self,
        action: Action,
        resource: Option<&Resource>,
    ) -> ExecuteResult {
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
            } => issue::execute(self, &issue, existing.as_ref(), labels, annotations).await,
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

    /// Writes the status as a merge patch of the differences.
    pub(super) async fn write_status(&self, old: &Value, new: &Value) -> ExecuteResult {
        let status = difference(old, new);
        let body = json!({ "metadata": { "uid": self.target.uid }, "status": status });
        let path = format!("{}/status", self.target.path());
        self.kubevirt_result(self.requests.merge(&path, &body).await)
    }

    async fn kubevirt(&self, body: &Value) -> ExecuteResult {
        self.kubevirt_result(self.requests.merge(&self.target.path(), body).await)
    }

    fn kubevirt_result(&self, written: kube::Result<Value>) -> ExecuteResult {
        let uid = self.target.uid.clone();
        match written {
            // A deleted object without finalizers is gone with this write.
            Ok(value) if is_removed(&value) => Ok(vec![Answer::KubeVirtGone(uid)]),
            Ok(value) => Ok(vec![Answer::KubeVirt(value)]),
            Err(error) if is_code(&error, 404) => Ok(vec![Answer::KubeVirtGone(uid)]),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, object: &Object, resource: &Resource) -> ExecuteResult {
        let collection = resource.collection(&object.version, object.id.namespace());
        match self.requests.create(&collection, &object.value()).await {
            Ok(created) => Ok(Self::observed(&object.id, &object.version, created)),
            // The answer to an earlier create was lost, or someone else created it first.
            Err(error) if already_exists(&error) => {
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
    ) -> ExecuteResult {
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

    /// Turns the managed fields of KubeVirt's own operator into those of an apply by this operator, so
    /// that fields that the body leaves out are removed.
    async fn take_over(&self, path: &str, existing: &Existing) -> Result<(), Failure> {
        if existing.upstream_entries.is_empty() {
            return Ok(());
        }
        let test = json!({ "op": "test", "path": "/metadata/uid", "value": existing.uid });
        let entries = existing.upstream_entries.iter().flat_map(|place| {
            let entry = format!("/metadata/managedFields/{place}");
            let (manager, operation) = (format!("{entry}/manager"), format!("{entry}/operation"));
            let upstream = install::UPSTREAM_FIELD_MANAGER;
            [
                json!({ "op": "test", "path": manager, "value": upstream }),
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

    /// Failure of an apply. If the object exists without labels, it is not cached: the answer contains it
    /// for the next plan.
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

    fn observed(id: &Id, version: &str, value: Value) -> Vec<Answer> {
        if id.is("", "Node") {
            let node = slim::node(value.to_string().as_bytes()).ok();
            return node.map(Answer::Node).into_iter().collect();
        }
        if is_removed(&value) {
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
    let unknown =
        || Failure::with_message(format!("the API server does not serve the kind of {id}"));
    resource.ok_or_else(unknown)
}

fn path(resource: &Resource, version: &str, id: &Id) -> String {
    format!(
        "{}/{}",
        resource.collection(version, id.namespace()),
        id.name
    )
}

/// Whether an object is being deleted and has no finalizers.
fn is_removed(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    metadata["deletionTimestamp"].is_string() && finalizers.is_none_or(Vec::is_empty)
}

/// Merge patch from `old` to `new`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let removed = removed.map(|name| (name.clone(), Value::Null));
    let changed = new.iter().filter_map(|(name, value)| match old.get(name) {
        Some(before) if before == value => None,
        Some(before) => Some((name.clone(), difference(before, value))),
        None => Some((name.clone(), value.clone())),
    });
    removed
        .chain(changed)
        .collect::<serde_json::Map<_, _>>()
        .into()
}
