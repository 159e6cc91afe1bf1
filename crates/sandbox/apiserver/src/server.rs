//! API server: shared state, start, stop and in-process clients.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    ApiError,
    auth::{Authenticator, User},
    body::Body,
    bootstrap,
    clock::Clock,
    controllers,
    extension::{Admission, Extension},
    object,
    random::Random,
    registry::Registry,
    request::Query,
    service_backends::{Backend, ServiceBackends, ServiceLocation},
    store::{Journal, JournalError, ObjectId, Precondition, Store, TableId, Write, WriteLog},
    verbs::list::{parse_version, too_new},
};

pub struct Options {
    /// Seed of UIDs and generated names.
    pub seed: u64,
    /// Token keys derive from it: whoever knows it can sign tokens.
    pub secret: Vec<u8>,
    pub start: Timestamp,
    /// Watch events that each resource keeps.
    pub history: usize,
    /// In-process APIs.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// In-process admission plugins.
    pub admissions: Vec<Arc<dyn Admission>>,
    /// Backends of Services by the program of their ready pods: the first element of a container's
    /// command.
    pub programs: Vec<(String, Backend)>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never print the secret.
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("start", &self.start)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Fully deterministic server for tests.
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            secret: seed.to_be_bytes().to_vec(),
            start: Timestamp::from_second(1_767_225_600).unwrap_or_default(),
            history: 10_000,
            extensions: Vec::new(),
            admissions: Vec::new(),
            programs: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) authenticator: Authenticator,
    pub(crate) admissions: Vec<Arc<dyn Admission>>,
    pub(crate) service_backends: ServiceBackends,
    pub(crate) stopping: CancellationToken,
    extensions: Vec<Arc<dyn Extension>>,
    registry: RwLock<Arc<Registry>>,
}

/// In-memory kube-apiserver. Clones share one server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

impl Shared {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Extensions whose CustomResourceDefinition is served.
    pub(crate) fn extensions(&self, registry: &Registry) -> Vec<Arc<dyn Extension>> {
        let is_there = |extension: &&Arc<dyn Extension>| {
            extension
                .definition()
                .is_none_or(|definition| registry.defines(definition))
        };
        self.extensions.iter().filter(is_there).cloned().collect()
    }

    pub(crate) fn define(&self, definition: &Value, since: u64) -> Result<(), ApiError> {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = Registry::clone(&registry);
        changed
            .define(definition, since)
            .map_err(ApiError::internal)?;
        *registry = Arc::new(changed);
        Ok(())
    }

    pub(crate) fn undefine(&self, definition: &str) {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = Registry::clone(&registry);
        changed.undefine(definition);
        *registry = Arc::new(changed);
    }

    /// Refuses reads at a revision that is not reached yet.
    pub(crate) fn check_revision(&self, query: &Query) -> Result<(), ApiError> {
        let wanted = parse_version(query.get("resourceVersion"))?;
        let newest = self.store.revision();
        if wanted > newest {
            return Err(too_new(wanted, newest));
        }
        Ok(())
    }
}

impl ApiServer {
    /// Starts a server with the bootstrap objects. Must be called inside a tokio runtime: the
    /// controllers run there until [`stop`](Self::stop).
    pub fn start(options: Options) -> Self {
        let server = Self::prepare(options);
        server.bootstrap();
        server.run_controllers();
        server
    }

    /// Starts a server from the journal in `folder` and continues the journal.
    pub fn resume(options: Options, folder: &Path) -> Result<Self, JournalError> {
        let path = folder.join("state.jsonl");
        let lines = Journal::read(&path)?;
        let server = Self::prepare(options);
        let fresh = lines.is_empty();
        server.shared.store.restore(lines);
        if fresh {
            server.bootstrap();
        }
        server.define_all();
        let journal = Journal::begin(&path, &server.shared.store.lines())?;
        server.shared.store.journal_to(journal);
        server.run_controllers();
        Ok(server)
    }

    fn prepare(options: Options) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: Store::new(options.history),
                clock: Clock::starting_at(options.start),
                random: Random::seeded(options.seed),
                authenticator: Authenticator::new(&options.secret),
                admissions: options.admissions,
                service_backends: ServiceBackends::new(options.programs),
                stopping: CancellationToken::new(),
                extensions: options.extensions,
                registry: RwLock::new(Arc::new(Registry::built_in())),
            }),
        }
    }

    fn bootstrap(&self) {
        let shared = &self.shared;
        let registry = shared.registry();
        for mut value in bootstrap::objects() {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            let (group, version) = object::split_api_version(&api_version);
            let Some(resource) = registry.find_kind(group, version, &kind) else {
                continue;
            };
            object::set_meta(&mut value, "uid", shared.random.uid().into());
            object::set_meta(
                &mut value,
                "creationTimestamp",
                shared.clock.timestamp().into(),
            );
            let key = object::key(
                object::meta(&value, "namespace"),
                object::meta(&value, "name"),
            );
            let id = ObjectId {
                table: resource.table.clone(),
                key: key.into(),
            };
            // The store is empty, so this cannot conflict.
            let _ = shared
                .store
                .commit(&id, Precondition::Absent, Write::Put(value));
        }
        for resource in registry.all() {
            shared.store.open(&resource.table);
        }
        shared.store.compact();
    }

    /// All definitions must be served before the first request after a restart.
    fn define_all(&self) {
        let table = TableId::new("apiextensions.k8s.io", "customresourcedefinitions");
        for stored in self.shared.store.list(&table, "").objects {
            if let Err(error) = self.shared.define(&stored.value(), stored.revision) {
                tracing::warn!(definition = %stored.name(), message = %error.message, "CustomResourceDefinition from the journal cannot be served");
            }
        }
    }

    fn run_controllers(&self) {
        tokio::spawn(controllers::run(self.shared.clone()));
    }

    /// Stops controllers and watches, and closes the journal.
    pub fn stop(&self) -> Result<(), JournalError> {
        self.shared.stopping.cancel();
        self.shared.store.close_journal()
    }

    pub fn admin_token(&self) -> &str {
        self.shared.authenticator.admin_token()
    }

    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    pub fn revision(&self) -> u64 {
        self.shared.store.revision()
    }

    /// Log of all writes from now on, in order and not subject to compaction.
    pub fn write_log(&self) -> WriteLog {
        self.shared.store.write_log()
    }

    /// Drops the watch history: older watches and lists get `410 Gone`.
    pub fn compact(&self) {
        self.shared.store.compact();
    }

    /// Handles the webhooks of a Service in process until [`Self::forget_service`]. The Service
    /// must exist and the webhooks need a CA bundle, but no serving certificate is verified.
    pub fn answer_for_service(&self, namespace: &str, name: &str, backend: Backend) {
        let place = ServiceLocation::InProcess(backend, None);
        self.shared
            .service_backends
            .set(namespace, name, Some(place));
    }

    /// Sets the loopback address at which a Service serves HTTPS.
    pub fn locate_service(&self, namespace: &str, name: &str, address: SocketAddr) {
        let place = ServiceLocation::Address(address);
        self.shared
            .service_backends
            .set(namespace, name, Some(place));
    }

    /// Removes the location of a Service: its pods and its annotation count again.
    pub fn forget_service(&self, namespace: &str, name: &str) {
        self.shared.service_backends.set(namespace, name, None);
    }

    /// In-process client with cluster-admin rights.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.as_user(User::admin()), "default")
    }

    /// In-process client with the permissions of a service account.
    pub fn client_of(&self, namespace: &str, service_account: &str) -> kube::Client {
        let user = User::service_account(namespace, service_account, "");
        kube::Client::new(self.as_user(user), namespace)
    }

    /// `tower::Service` for one user, or with token authentication.
    pub fn as_user(&self, user: User) -> InProcess {
        InProcess {
            server: self.clone(),
            user: Some(Arc::new(user)),
        }
    }

    /// The server with token authentication.
    pub fn by_token(&self) -> InProcess {
        InProcess {
            server: self.clone(),
            user: None,
        }
    }
}

/// The server for one user, or for all who show a token: a `tower::Service`.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: ApiServer,
    user: Option<Arc<User>>,
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, user } = self.clone();
        Box::pin(async move { Ok(server.handle(user, request).await) })
    }
}
