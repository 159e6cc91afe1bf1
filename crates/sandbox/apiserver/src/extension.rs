//! What others add to the server from inside the process: APIs of their own, as an aggregated API
//! server would, and admission, as a webhook would.

use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Cause,
    admission::webhook::Operation,
    auth::{Attributes, User, rbac},
    object,
    request::ResourcePath,
    store::{Store, TableId},
    stored_policy::StoredPolicy,
};

/// A request for an extension's API. The caller has been authenticated and authorized.
#[derive(Debug)]
pub struct ExtensionRequest {
    /// The HTTP method.
    pub method: http::Method,
    /// The path.
    pub path: ResourcePath,
    /// The query, as it was sent.
    pub query: String,
    /// The body; null where there is none.
    pub body: Value,
    /// Who asks.
    pub user: User,
    /// The server's time.
    pub now: Timestamp,
}

/// An API group that something else than the store answers for.
pub trait Extension: Send + Sync + std::fmt::Debug {
    /// The API group.
    fn group(&self) -> &str;
    /// Its version.
    fn version(&self) -> &str;
    /// The CustomResourceDefinition without which the API is not there, if there is one.
    fn definition(&self) -> Option<&str> {
        None
    }
    /// The `APIResourceList` of it.
    fn resources(&self) -> Value;
    /// Answers a request, with a client of this server.
    fn handle(
        &self,
        client: kube::Client,
        request: ExtensionRequest,
    ) -> BoxFuture<'static, (StatusCode, Value)>;
}

/// The CustomResourceDefinitions of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Definitions<'a>(pub(crate) &'a Store);

impl Definitions<'_> {
    /// The definition of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Value>> {
        let stored = self.0.get(&DEFINITIONS, name)?;
        Some(stored.parsed().clone())
    }
}

/// Looked into with every write, so not made anew each time.
static DEFINITIONS: LazyLock<TableId> =
    LazyLock::new(|| TableId::new("apiextensions.k8s.io", "customresourcedefinitions"));

/// A write, as admission sees it.
#[derive(Debug)]
pub struct Review<'a> {
    /// What is to be done.
    pub operation: Operation,
    /// The API group of the resource.
    pub group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource, empty for none.
    pub subresource: &'a str,
    /// The namespace of the request, empty for none.
    pub namespace: &'a str,
    /// Who sent it.
    pub user: &'a User,
    /// The object as it is.
    pub old: Option<&'a Value>,
    /// The definitions of the cluster.
    pub definitions: Definitions<'a>,
    /// The server's time.
    pub now: Timestamp,
    /// A number from the server's seed, another one for each write.
    pub random: u64,
}

impl Review<'_> {
    /// Whether who sent the request may create an object, as a SubjectAccessReview answers.
    pub fn may_create(
        &self,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let attributes = Attributes {
            subresource,
            name,
            namespace,
            ..Attributes::resource(self.user, "create", group, resource)
        };
        rbac::authorize(&StoredPolicy(self.definitions.0), &attributes).allowed
    }

    /// An object of the cluster.
    pub fn find(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        let table = TableId::new(group, resource);
        let stored = self
            .definitions
            .0
            .get(&table, &object::key(namespace, name))?;
        Some(stored.parsed().clone())
    }
}

/// A refusal of an in-process admission.
#[derive(Debug)]
pub struct Denial {
    /// The name of the webhook that it stands for.
    pub webhook: &'static str,
    /// The HTTP status.
    pub code: StatusCode,
    /// The sentence.
    pub message: String,
    /// One entry for each thing that is wrong.
    pub causes: Vec<Cause>,
}

/// Why an in-process admission does not let a write pass.
#[derive(Debug)]
pub enum Refusal {
    /// It says no.
    Denied(Denial),
    /// It says nothing: what it stands for cannot be reached.
    Unreachable {
        /// The name of the webhook that it stands for.
        webhook: &'static str,
        /// What happened to the call.
        why: String,
    },
}

/// Admission from inside the process.
pub trait Admission: Send + Sync + std::fmt::Debug {
    /// Changes an object before it is stored.
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Refusal>;
    /// Refuses an object, or lets it pass with warnings.
    fn validate(&self, review: &Review<'_>, object: Option<&Value>)
    -> Result<Vec<String>, Refusal>;
    /// Refuses the eviction of a pod, and may write something instead.
    fn evict<'a>(
        &'a self,
        _client: kube::Client,
        _pod: &'a Value,
        _dry_run: bool,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
