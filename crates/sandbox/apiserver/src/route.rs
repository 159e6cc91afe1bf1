//! Request handler chain: authentication, impersonation, authorization, routing.

use std::{fmt::Display, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use serde_json::{Value, json};

use crate::{
    ApiError, ApiResult,
    auth::{Attributes, User, impersonate, rbac, review},
    body::{self, Body},
    discovery,
    extension::{Extension, ExtensionRequest},
    openapi,
    output::Output,
    registry::Resource,
    request::{self, Query, ResourcePath, Target},
    respond::{page_not_found, paths, plain, refusal, respond, version},
    serializer::{ContentType, PatchType},
    server::ApiServer,
    stored_policy::StoredPolicy,
    subresources,
    upgrade::Upgrade,
    verbs::{Call, create, delete, get, list, patch, scale, update, watch},
};

impl ApiServer {
    /// Handles a request. `user` is set for in-process clients, which need no token.
    pub(crate) async fn handle<B>(
        &self,
        user: Option<Arc<User>>,
        request: Request<B>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes, Error: Display> + Unpin,
    {
        if request.method() == Method::HEAD {
            return no_head();
        }
        let (mut parts, body) = request.into_parts();
        let upgrade = Upgrade::of(&mut parts);
        let result = self
            .route(
                user,
                &parts.method,
                &parts.uri,
                &parts.headers,
                upgrade,
                body,
            )
            .await;
        result.unwrap_or_else(|error| refusal(&parts.headers, &error))
    }

    async fn route<B>(
        &self,
        user: Option<Arc<User>>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        upgrade: Option<Upgrade>,
        body: B,
    ) -> ApiResult
    where
        B: http_body::Body<Data = Bytes, Error: Display> + Unpin,
    {
        let shared = &self.shared;
        let policy = StoredPolicy(&shared.store);
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
        let user = match impersonate::requested_user(headers)? {
            None => sender,
            Some(requested) => {
                let verb = verb(method, &target, &query);
                let attributes = attributes(&sender, &verb, &target, &query);
                Arc::new(impersonate::impersonate(&policy, &attributes, &requested)?)
            }
        };
        let verb = verb(method, &target, &query);
        rbac::require(&policy, &attributes(&user, &verb, &target, &query))?;
        match target {
            Target::Other(path) => self.serve_non_resource(method, &path, headers),
            Target::Resource(path) => {
                self.serve_resource(&user, method, headers, &path, &query, uri, upgrade, body)
                    .await
            }
        }
    }

    fn serve_non_resource(&self, method: &Method, path: &str, headers: &HeaderMap) -> ApiResult {
        if *method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let registry = self.shared.registry();
        let extensions = &self.shared.extensions(&registry);
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
                // kube-apiserver sends this content type although the body is JSON.
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
            ["openapi", "v2"] => return Ok(openapi::version_2(headers)),
            ["metrics", ..] => {
                return Err(ApiError::not_implemented("metrics of its API server"));
            }
            _ => None,
        };
        match value {
            Some(value) => Ok(respond(StatusCode::OK, &value)),
            None => Ok(page_not_found()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    async fn serve_resource<B>(
        &self,
        user: &Arc<User>,
        method: &Method,
        headers: &HeaderMap,
        path: &ResourcePath,
        query: &Query,
        uri: &Uri,
        upgrade: Option<Upgrade>,
        body: B,
    ) -> ApiResult
    where
        B: http_body::Body<Data = Bytes, Error: Display> + Unpin,
    {
        let registry = self.shared.registry();
        let Some(resource) = registry.find(&path.group, &path.version, &path.resource) else {
            let extensions = self.shared.extensions(&registry);
            if let Some(extension) = extensions.iter().find(|extension| {
                extension.group() == path.group && extension.version() == path.version
            }) {
                let bytes = body::read(body).await?;
                let request = ExtensionRequest {
                    method: method.clone(),
                    path: path.clone(),
                    query: uri.query().unwrap_or_default().to_owned(),
                    body: extension_body(&bytes)?,
                    user: User::clone(user),
                    now: self.shared.clock.now(),
                };
                return self.serve_extension(extension, request, upgrade).await;
            }
            // In CustomResourceDefinition groups, a real server knows only served versions.
            let known = registry.all().find(|resource| {
                resource.group == path.group
                    && (resource.built_in_kind().is_some() || resource.version == path.version)
            });
            return match known {
                Some(_) => Err(ApiError::no_such_path()),
                None => Ok(page_not_found()),
            };
        };
        if resource.as_custom().is_some() && !resource.namespaced && !path.namespace.is_empty() {
            return Ok(page_not_found());
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
        if *method == Method::GET {
            return Self::serve_read(&call);
        }
        let bytes = body::read(body).await?;
        Self::serve_write(&mut call, method, headers, &bytes).await
    }

    fn serve_read(call: &Call<'_>) -> ApiResult {
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
            (_, "") => get::get(call),
            (_, "status") if call.resource.has_status() => get::get(call),
            (_, "scale") if call.resource.has_subresource("scale") => scale::get(call),
            (_, part) if call.resource.has_subresource(part) => {
                call.stored()?;
                Err(ApiError::not_implemented(format!(
                    "{}/{part}: it runs no containers",
                    call.resource.plural
                )))
            }
            _ => Err(ApiError::no_such_path()),
        }
    }

    async fn serve_write(
        call: &mut Call<'_>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> ApiResult {
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
            return create_review(call, method, ContentType::of(headers)?, body);
        }
        let named = !call.path.name.is_empty();
        match (method, part.as_str()) {
            (&Method::POST, "") if !named => {
                create::create(call, ContentType::of(headers)?, body).await
            }
            (&Method::PUT, "" | "status") if named => {
                update::replace(call, ContentType::of(headers)?, body).await
            }
            (&Method::PATCH, "" | "status") if named => {
                patch::patch(call, PatchType::of(headers, is_custom)?, body).await
            }
            (&Method::PUT, "scale") => scale::replace(call, ContentType::of(headers)?, body).await,
            (&Method::PATCH, "scale") => {
                scale::patch(call, PatchType::of(headers, is_custom)?, body).await
            }
            (&Method::DELETE, "") if named => {
                delete::delete(call, ContentType::of(headers)?, body).await
            }
            (&Method::DELETE, "") if call.resource.allows("deletecollection") => {
                delete::delete_collection(call, ContentType::of(headers)?, body).await
            }
            (_, "" | "status" | "scale") => Err(ApiError::method_not_allowed()),
            _ => subresources::handle(call, method, ContentType::of(headers)?, body).await,
        }
    }

    async fn serve_extension(
        &self,
        extension: &Arc<dyn Extension>,
        request: ExtensionRequest,
        upgrade: Option<Upgrade>,
    ) -> ApiResult {
        if let Some(upgrade) = upgrade
            && let Some(connecting) = extension.connect(&self.client(), &request)
        {
            return match connecting.await {
                Ok(tunnel) => upgrade.accept(tunnel),
                Err((code, value)) => Ok(respond(code, &value)),
            };
        }
        let (code, value) = extension.handle(self.client(), request).await;
        Ok(if value.is_null() {
            let mut response = Response::new(Body::Full(None));
            *response.status_mut() = code;
            response
        } else {
            respond(code, &value)
        })
    }
}

/// Body of a request to an extension; null if there is none.
fn extension_body(body: &Bytes) -> Result<Value, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let decoded = crate::decode::json(body).map_err(ApiError::bad_request)?;
    Ok(decoded.value)
}

/// kube-apiserver does not serve HEAD either. The response has no body.
fn no_head() -> Response<Body> {
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

/// Review kinds are answered, not stored.
fn create_review(
    call: &Call<'_>,
    method: &Method,
    content: ContentType,
    body: &Bytes,
) -> ApiResult {
    if *method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let shared = call.server;
    let policy = StoredPolicy(&shared.store);
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

/// Field manager: the option, or the program name of the User-Agent.
fn manager(method: &Method, headers: &HeaderMap, query: &Query) -> Result<String, ApiError> {
    let given = query.get("fieldManager");
    if given.chars().count() > 128 {
        let options = match *method {
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "CreateOptions",
        };
        let problem = schema::Problem::TooLong { max: 128 };
        return Err(ApiError::invalid_options(options, "fieldManager", problem));
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
