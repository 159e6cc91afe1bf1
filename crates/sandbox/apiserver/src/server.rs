//! The server: every request comes in here, and is handed to what answers it.

use std::{
    convert::Infallible,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    ApiError,
    auth::{Attributes, Authenticator, User, impersonate, rbac, review},
    body::{self, Body},
    bootstrap,
    clock::Clock,
    content::{Content, PatchContent},
    controllers, discovery,
    extension::{Admission, Extension, ExtensionRequest},
    object, openapi,
    output::{self, Output},
    parts, policy,
    random::Random,
    registry::{Registry, Resource},
    request::{self, Query, ResourcePath, Target},
    store::{Expect, Journal, JournalError, ObjectId, Store, TableId, Write},
    verbs::{
        Call, create, delete,
        list::{self, parse_version, too_new},
        patch, read, scale, update, watch,
    },
};

/// How a server is set up.
#[derive(Debug)]
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
    pub(crate) stopping: CancellationToken,
    extensions: Vec<Arc<dyn Extension>>,
    registry: RwLock<Arc<Registry>>,
}

/// The Kubernetes API in memory. Cheap to clone; all clones are one server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl Shared {
    /// What is served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
    pub(crate) fn wait_for_revision(&self, query: &Query) -> Result<(), ApiError> {
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
        server.shared.store.keep(journal);
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
            let _ = shared.store.commit(&id, Expect::Absent, Write::Put(value));
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

    /// Drops the history of all resources: watches and lists of older versions get `410 Gone`.
    pub fn compact(&self) {
        self.shared.store.compact();
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

    async fn answer<B>(&self, user: Option<Arc<User>>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let result = self
            .route(user, &parts.method, &parts.uri, &parts.headers, body)
            .await;
        result.unwrap_or_else(|error| refusal(&parts.headers, &error))
    }

    async fn route<B>(
        &self,
        user: Option<Arc<User>>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Response<Body>, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let shared = &self.shared;
        let policy = policy::Stored(&shared.store);
        let sender = match user {
            Some(user) => user,
            None => Arc::new(shared.authenticator.authenticate(
                headers,
                shared.clock.now(),
                &policy,
            )?),
        };
        let target = Target::parse(uri.path());
        let query = Query::parse(uri);
        let user = match impersonate::wanted(headers)? {
            None => sender,
            Some(wanted) => {
                let verb = verb(method, &target, &query);
                let attributes = attributes(&sender, &verb, &target, &query);
                Arc::new(impersonate::impersonate(&policy, &attributes, &wanted)?)
            }
        };
        let verb = verb(method, &target, &query);
        rbac::require(&policy, &attributes(&user, &verb, &target, &query))?;
        match target {
            Target::Other(path) => self.other(method, &path, headers),
            Target::Resource(path) => {
                self.resource(&user, method, headers, &path, &query, uri, body)
                    .await
            }
        }
    }

    fn other(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, ApiError> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let registry = self.shared.registry();
        let extensions = &self.shared.extensions;
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let value = match parts.as_slice() {
            [""] => Some(json!({"paths": paths(&registry)})),
            ["healthz" | "livez" | "readyz", ..] => {
                return Ok(plain("ok"));
            }
            ["version"] => Some(version()),
            ["api" | "apis"] => {
                let core = parts.first() == Some(&"api");
                if let Some(version) = discovery::is_aggregated(headers) {
                    let list = discovery::aggregated(&registry, extensions, core, version);
                    let mut response = respond(StatusCode::OK, &list);
                    let media = discovery::aggregated_type(version);
                    if let Ok(media) = header::HeaderValue::from_str(&media) {
                        response.headers_mut().insert(header::CONTENT_TYPE, media);
                    }
                    return Ok(response);
                }
                Some(if core {
                    discovery::versions()
                } else {
                    discovery::group_list(&registry, extensions)
                })
            }
            ["api", version] => Some(
                discovery::resource_list(&registry, extensions, "", version)
                    .ok_or_else(ApiError::no_such_path)?,
            ),
            ["apis", group] => discovery::group(&registry, extensions, group),
            ["apis", group, version] => {
                discovery::resource_list(&registry, extensions, group, version)
            }
            ["openapi", "v3"] => {
                // So a real server labels it, though it is JSON.
                let mut response = respond(StatusCode::OK, &openapi::index(&registry));
                response.headers_mut().insert(
                    header::CONTENT_TYPE,
                    header::HeaderValue::from_static("text/plain; charset=utf-8"),
                );
                return Ok(response);
            }
            ["openapi", "v3", "api", version] => openapi::document(&registry, "", version),
            ["openapi", "v3", "apis", group, version] => {
                openapi::document(&registry, group, version)
            }
            ["openapi", "v2"] => {
                return Err(ApiError::not_implemented(
                    "OpenAPI v2; current clients ask for /openapi/v3",
                ));
            }
            ["metrics", ..] => {
                return Err(ApiError::not_implemented("metrics of its API server"));
            }
            _ => None,
        };
        match value {
            Some(value) => Ok(respond(StatusCode::OK, &value)),
            None => Ok(nowhere()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    async fn resource<B>(
        &self,
        user: &Arc<User>,
        method: &Method,
        headers: &HeaderMap,
        path: &ResourcePath,
        query: &Query,
        uri: &Uri,
        body: B,
    ) -> Result<Response<Body>, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let registry = self.shared.registry();
        let Some(resource) = registry.find(&path.group, &path.version, &path.resource) else {
            if let Some(extension) = self.shared.extensions.iter().find(|extension| {
                extension.group() == path.group && extension.version() == path.version
            }) {
                let bytes = body::read(body).await?;
                return self
                    .extension(extension, user, method, path, uri, &bytes)
                    .await;
            }
            // Of groups that definitions add, a real server knows only what is served.
            let known = registry.all().find(|resource| {
                resource.group == path.group
                    && (resource.built_in_kind().is_some() || resource.version == path.version)
            });
            return match known {
                Some(_) => Err(ApiError::no_such_path()),
                None => Ok(nowhere()),
            };
        };
        if resource.as_custom().is_some() && !resource.namespaced && !path.namespace.is_empty() {
            return Ok(nowhere());
        }
        check_scope(resource, method, path)?;
        let output = Output::negotiate(headers, query.get("includeObject"))?;
        let mut call = Call {
            server: &self.shared,
            resource,
            path,
            query,
            user,
            output,
            manager: manager(method, headers, query)?,
            warnings: Vec::new(),
        };
        if let Some(warning) = resource
            .as_custom()
            .and_then(|custom| custom.deprecation.clone())
        {
            call.warnings.push(warning);
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Self::reading(&call);
        }
        let bytes = body::read(body).await?;
        Self::writing(&mut call, method, headers, &bytes).await
    }

    fn reading(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        if call
            .resource
            .built_in_kind()
            .is_some_and(|kind| !kind.is_stored())
        {
            return Err(ApiError::method_not_allowed());
        }
        match (call.path.name.as_str(), call.path.subresource.as_str()) {
            ("", _) if call.query.flag("watch") => watch::watch(call),
            ("", _) => list::list(call),
            (_, "") if call.query.flag("watch") => watch::watch(call),
            (_, "") => read::get(call),
            (_, "status") if call.resource.has_status() => read::get(call),
            (_, "scale") if call.resource.has_subresource("scale") => scale::get(call),
            (_, part) if call.resource.has_subresource(part) => {
                call.stored()?;
                Err(ApiError::not_implemented(format!(
                    "{}/{part}: no container runs in it",
                    call.resource.plural
                )))
            }
            _ => Err(ApiError::no_such_path()),
        }
    }

    async fn writing(
        call: &mut Call<'_>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let is_custom = call.resource.as_custom().is_some();
        let part = call.path.subresource.clone();
        if !part.is_empty() && !call.resource.has_subresource(&part) {
            return Err(ApiError::no_such_path());
        }
        if call
            .resource
            .built_in_kind()
            .is_some_and(|kind| !kind.is_stored())
        {
            return answered(call, method, Content::of(headers)?, body);
        }
        let named = !call.path.name.is_empty();
        match (method, part.as_str()) {
            (&Method::POST, "") if !named => {
                create::create(call, Content::of(headers)?, body).await
            }
            (&Method::PUT, "" | "status") if named => {
                update::replace(call, Content::of(headers)?, body).await
            }
            (&Method::PATCH, "" | "status") if named => {
                patch::patch(call, PatchContent::of(headers, is_custom)?, body).await
            }
            (&Method::PUT, "scale") => scale::replace(call, Content::of(headers)?, body).await,
            (&Method::PATCH, "scale") => {
                scale::patch(call, PatchContent::of(headers, is_custom)?, body).await
            }
            (&Method::DELETE, "") if named => {
                delete::delete(call, Content::of(headers)?, body).await
            }
            (&Method::DELETE, "") if call.resource.allows("deletecollection") => {
                delete::collection(call, Content::of(headers)?, body).await
            }
            (_, "" | "status" | "scale") => Err(ApiError::method_not_allowed()),
            _ => parts::handle(call, method, Content::of(headers)?, body).await,
        }
    }

    async fn extension(
        &self,
        extension: &Arc<dyn Extension>,
        user: &User,
        method: &Method,
        path: &ResourcePath,
        uri: &Uri,
        body: &Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let body = if body.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else {
            crate::decode::json(body)
                .map_err(ApiError::bad_request)?
                .value
        };
        let request = ExtensionRequest {
            method: method.clone(),
            path: path.clone(),
            query: uri.query().unwrap_or_default().to_owned(),
            body,
            user: user.clone(),
            now: self.shared.clock.now(),
        };
        let (code, value) = extension.handle(self.client(), request).await;
        Ok(if value.is_null() {
            let mut response = Response::new(Body::Whole(None));
            *response.status_mut() = code;
            response
        } else {
            respond(code, &value)
        })
    }
}

/// Requests that are answered and not stored.
fn answered(
    call: &Call<'_>,
    method: &Method,
    content: Content,
    body: &Bytes,
) -> Result<Response<Body>, ApiError> {
    if *method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let shared = call.server;
    let policy = policy::Stored(&shared.store);
    let body = content.read(body).map_err(ApiError::bad_request)?.value;
    let now = shared.clock.now();
    let answer = match call.resource.kind.as_str() {
        "SelfSubjectAccessReview" => review::self_subject_access(&policy, call.user, &body)?,
        "SubjectAccessReview" => review::subject_access(&policy, &body)?,
        "LocalSubjectAccessReview" => {
            review::local_subject_access(&policy, &call.path.namespace, &body)?
        }
        "SelfSubjectRulesReview" => review::self_subject_rules(&policy, call.user, &body)?,
        "SelfSubjectReview" => review::self_subject(call.user, now),
        "TokenReview" => review::token(&shared.authenticator, &body, now, &policy)?,
        kind => return Err(ApiError::not_implemented(kind)),
    };
    Ok(respond(StatusCode::CREATED, &answer))
}

fn check_scope(resource: &Resource, method: &Method, path: &ResourcePath) -> Result<(), ApiError> {
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    if resource.namespaced
        && path.namespace.is_empty()
        && path.name.is_empty()
        && matches!(*method, Method::POST | Method::DELETE)
    {
        return Err(ApiError::method_not_allowed());
    }
    let misplaced = if resource.namespaced {
        path.namespace.is_empty() && !path.name.is_empty()
    } else {
        !path.namespace.is_empty() && !is_namespace
    };
    if misplaced {
        return Err(ApiError::no_such_path());
    }
    Ok(())
}

fn verb(method: &Method, target: &Target, query: &Query) -> String {
    match target {
        Target::Resource(path) => request::verb(method, path, query).to_owned(),
        Target::Other(_) => method.as_str().to_ascii_lowercase(),
    }
}

fn attributes<'a>(
    user: &'a User,
    verb: &'a str,
    target: &'a Target,
    query: &'a Query,
) -> Attributes<'a> {
    match target {
        Target::Other(path) => Attributes::path(user, verb, path),
        Target::Resource(path) => Attributes {
            subresource: &path.subresource,
            name: match path.name.as_str() {
                "" => query
                    .get("fieldSelector")
                    .strip_prefix("metadata.name=")
                    .filter(|name| !name.contains(','))
                    .unwrap_or_default(),
                name => name,
            },
            namespace: &path.namespace,
            ..Attributes::resource(user, verb, &path.group, &path.resource)
        },
    }
}

/// The manager of the fields that a request sets: as it says, or by the name of its program.
fn manager(method: &Method, headers: &HeaderMap, query: &Query) -> Result<String, ApiError> {
    let given = query.get("fieldManager");
    if given.chars().count() > 128 {
        return Err(ApiError::invalid(
            "meta.k8s.io",
            match *method {
                Method::PUT => "UpdateOptions",
                Method::PATCH => "PatchOptions",
                _ => "CreateOptions",
            },
            "",
            &[schema::Violation::at(
                "fieldManager",
                schema::Problem::TooLong { max: 128 },
            )],
        ));
    }
    if !given.is_empty() {
        return Ok(given.to_owned());
    }
    let program = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split('/').next())
        .unwrap_or_default();
    Ok(match program {
        "" => "unknown".to_owned(),
        program => program.chars().take(128).collect(),
    })
}

fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: std::collections::BTreeSet<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    for resource in registry.all() {
        if resource.group.is_empty() {
            paths.insert(format!("/api/{}", resource.version));
        } else {
            paths.insert(format!("/apis/{}", resource.group));
            paths.insert(format!("/apis/{}/{}", resource.group, resource.version));
        }
    }
    paths.into_iter().collect()
}

/// The release whose behaviour the recorded answers hold the server against.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": format!("v1.37.0+kubevirt-operator-sandbox.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }),
    })
}

/// The answer where no API is.
fn nowhere() -> Response<Body> {
    let mut response = plain("404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn plain(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn respond(code: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::whole(output::to_bytes(value)));
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

fn refusal(headers: &HeaderMap, error: &ApiError) -> Response<Body> {
    let status = error.to_status();
    let mut response = respond(error.code, &status);
    if Output::negotiate(headers, "") == Ok(Output::Yaml) {
        *response.body_mut() = Body::whole(output::yaml(&status));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/yaml"),
        );
    }
    response
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
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, user } = self.clone();
        Box::pin(async move { Ok(server.answer(user, request).await) })
    }
}
