//! In-process extensions: APIs in place of an aggregated API server, and admission in place of a
//! webhook.

use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Cause, Tunnel,
    admission::webhook::Operation,
    auth::{Attributes, User, rbac},
    object,
    request::ResourcePath,
    store::{Store, TableId},
    stored_policy::StoredPolicy,
};

/// Authenticated and authorized request to an extension's API.
#[derive(Debug)]
pub struct ExtensionRequest {
    pub method: http::Method,
    pub path: ResourcePath,
    pub query: String,
    /// Null if absent.
    pub body: Value,
    pub user: User,
    pub now: Timestamp,
}

/// An API group that an extension serves instead of the store.
pub trait Extension: Send + Sync + std::fmt::Debug {
    fn group(&self) -> &str;
    fn version(&self) -> &str;
    /// CustomResourceDefinition that must exist for the API to be served.
    fn definition(&self) -> Option<&str> {
        None
    }
    /// `APIResourceList` for discovery.
    fn resources(&self) -> Value;
    fn handle(
        &self,
        client: kube::Client,
        request: ExtensionRequest,
    ) -> BoxFuture<'static, (StatusCode, Value)>;
    /// Opens what is behind a WebSocket; none if the request is handled like any other.
    fn connect(&self, _client: &kube::Client, _request: &ExtensionRequest) -> Option<Connecting> {
        None
    }
}

/// A tunnel, or the answer of a refusal.
pub type Connecting = BoxFuture<'static, Result<Tunnel, (StatusCode, Value)>>;

#[derive(Clone, Copy, Debug)]
pub struct Definitions<'a>(pub(crate) &'a Store);

impl Definitions<'_> {
    pub fn get(&self, name: &str) -> Option<Arc<Value>> {
        let stored = self.0.get(&DEFINITIONS, name)?;
        Some(stored.parsed().clone())
    }
}

/// Used by every write, so allocated once.
static DEFINITIONS: LazyLock<TableId> =
    LazyLock::new(|| TableId::new("apiextensions.k8s.io", "customresourcedefinitions"));

/// Admission attributes of a write.
#[derive(Debug)]
pub struct Review<'a> {
    pub operation: Operation,
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for none.
    pub subresource: &'a str,
    /// Empty for cluster scope.
    pub namespace: &'a str,
    pub user: &'a User,
    pub old: Option<&'a Value>,
    pub definitions: Definitions<'a>,
    pub now: Timestamp,
    /// From the server's seed, different for each write.
    pub random: u64,
}

impl Review<'_> {
    /// Whether the user may create an object, as a SubjectAccessReview answers.
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

/// Denial by an in-process webhook.
#[derive(Debug)]
pub struct Denial {
    pub webhook: &'static str,
    pub code: StatusCode,
    pub message: String,
    pub causes: Vec<Cause>,
}

#[derive(Debug)]
pub enum Refusal {
    Denied(Denial),
    /// The simulated webhook is unreachable.
    Unreachable {
        webhook: &'static str,
        /// Error of the call.
        why: String,
    },
}

/// In-process admission plugin.
pub trait Admission: Send + Sync + std::fmt::Debug {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Refusal>;
    /// Refuses a write, or returns warnings.
    fn validate(&self, review: &Review<'_>, object: Option<&Value>)
    -> Result<Vec<String>, Refusal>;
    /// Refuses the eviction of a pod; may write to the cluster instead.
    fn evict<'a>(
        &'a self,
        _client: kube::Client,
        _pod: &'a Value,
        _dry_run: bool,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
