//! The server: what all requests share, how it starts and ends, and who may call it.

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

/// How a server is set up.
pub struct Options {
    /// All uids and generated names come from it.
    pub seed: u64,
    /// What the keys of tokens are made from. Whoever knows it can make tokens.
    pub secret: Vec<u8>,
    /// The time at which the server's clock starts.
    pub start: Timestamp,
    /// How many events each resource keeps for watches.
    pub history: usize,
    /// APIs that are answered for from inside the process.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// Admission from inside the process.
    pub admissions: Vec<Arc<dyn Admission>>,
    /// What answers for a Service whose ready pods run a program, which is the first word of a
    /// container's command.
    pub programs: Vec<(String, Backend)>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("start", &self.start)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// A server whose every byte is repeatable: for tests.
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

/// What all requests share.
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

/// The Kubernetes API in memory. Cheap to clone; all clones are one server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

impl Shared {
    /// What is served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The extensions that are there, given what is served.
    pub(crate) fn extensions(&self, registry: &Registry) -> Vec<Arc<dyn Extension>> {
        let is_there = |extension: &&Arc<dyn Extension>| {
            extension
                .definition()
                .is_none_or(|definition| registry.defines(definition))
        };
        self.extensions.iter().filter(is_there).cloned().collect()
    }

    /// Serves what a definition describes.
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

    /// Serves nothing of a definition any more.
    pub(crate) fn undefine(&self, definition: &str) {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = Registry::clone(&registry);
        changed.undefine(definition);
        *registry = Arc::new(changed);
    }

    /// A read at a revision that has not been reached cannot be answered.
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
    /// A server with what every cluster has. Must be called inside a tokio runtime: the server's
    /// controllers run there until [`stop`](Self::stop).
    pub fn start(options: Options) -> Self {
        let server = Self::prepare(options);
        server.bootstrap();
        server.run_controllers();
        server
    }

    /// A server that goes on where `folder` says the last one ended, and writes there what happens.
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
            // The store is empty, so nothing can be in the way.
            let _ = shared
                .store
                .commit(&id, Precondition::Absent, Write::Put(value));
        }
        for resource in registry.all() {
            shared.store.open(&resource.table);
        }
        shared.store.compact();
    }

    /// After a restart all definitions are served before the first request.
    fn define_all(&self) {
        let table = TableId::new("apiextensions.k8s.io", "customresourcedefinitions");
        for stored in self.shared.store.list(&table, "").objects {
            if let Err(error) = self.shared.define(&stored.value(), stored.revision) {
                tracing::warn!(definition = %stored.name(), message = %error.message, "not served");
            }
        }
    }

    fn run_controllers(&self) {
        tokio::spawn(controllers::run(self.shared.clone()));
    }

    /// Ends the controllers and all watches, and closes what is kept on disk.
    pub fn stop(&self) -> Result<(), JournalError> {
        self.shared.stopping.cancel();
        self.shared.store.close_journal()
    }

    /// The administrator's token.
    pub fn admin_token(&self) -> &str {
        self.shared.authenticator.admin_token()
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The newest revision of the store.
    pub fn revision(&self) -> u64 {
        self.shared.store.revision()
    }

    /// Keeps every write from now on, in order, whatever is compacted meanwhile.
    pub fn write_log(&self) -> WriteLog {
        self.shared.store.write_log()
    }

    /// Drops the history of all resources: watches and lists of older versions get `410 Gone`.
    pub fn compact(&self) {
        self.shared.store.compact();
    }

    /// Answers the webhooks of a Service from inside the process, until [`Self::forget_service`]. The
    /// Service has to be there, and the webhooks need a CA bundle, but no certificate is shown.
    pub fn answer_for_service(&self, namespace: &str, name: &str, backend: Backend) {
        let place = ServiceLocation::InProcess(backend, None);
        self.shared
            .service_backends
            .set(namespace, name, Some(place));
    }

    /// Says where a Service is: an address of the loopback interface, where HTTPS is spoken.
    pub fn locate_service(&self, namespace: &str, name: &str, address: SocketAddr) {
        let place = ServiceLocation::Address(address);
        self.shared
            .service_backends
            .set(namespace, name, Some(place));
    }

    /// Takes back what was said of a Service: its pods and its annotation count again.
    pub fn forget_service(&self, namespace: &str, name: &str) {
        self.shared.service_backends.set(namespace, name, None);
    }

    /// A client of the administrator, without a socket between.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.as_user(User::admin()), "default")
    }

    /// A client that acts as a service account does, with its rights and no others.
    pub fn client_of(&self, namespace: &str, service_account: &str) -> kube::Client {
        let user = User::service_account(namespace, service_account, "");
        kube::Client::new(self.as_user(user), namespace)
    }

    /// The server as somebody who need not show a token sees it.
    pub fn as_user(&self, user: User) -> InProcess {
        InProcess {
            server: self.clone(),
            user: Some(Arc::new(user)),
        }
    }

    /// The server as clients see it that show a token with each request.
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
