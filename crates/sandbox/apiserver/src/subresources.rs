//! Subresources of built-in kinds other than status and scale: service account tokens, pod bindings
//! and evictions, namespace finalization. Those that need a kubelet are refused.

mod eviction;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    ApiError, ApiResult,
    auth::review,
    body::Body,
    object, output,
    serializer::ContentType,
    stored_policy::StoredPolicy,
    verbs::{Call, FieldOwnership, update::guaranteed_update},
};

/// Handles a subresource other than status and scale.
pub async fn handle(
    call: &mut Call<'_>,
    method: &Method,
    content: ContentType,
    body: &Bytes,
) -> ApiResult {
    match (
        call.resource.plural.as_str(),
        call.path.subresource.as_str(),
    ) {
        ("serviceaccounts", "token") if *method == Method::POST => token(call, content, body),
        ("pods", "binding") if *method == Method::POST => binding(call, content, body).await,
        ("pods", "eviction") if *method == Method::POST => {
            eviction::evict(call, content, body).await
        }
        ("namespaces", "finalize") if *method == Method::PUT => finalize(call, content, body).await,
        ("pods", "log") => {
            call.stored()?;
            Err(not_here("container logs: it runs no containers"))
        }
        ("pods", "exec" | "attach" | "portforward" | "proxy") | (_, "proxy") => {
            call.stored()?;
            Err(not_here(
                "exec, attach, port-forward or proxy: it runs no containers",
            ))
        }
        (_, "token" | "binding" | "eviction" | "finalize") => Err(ApiError::method_not_allowed()),
        (resource, part) => Err(not_here(&format!("{resource}/{part}"))),
    }
}

fn not_here(what: &str) -> ApiError {
    ApiError::not_implemented(what)
}

fn read(content: ContentType, body: &Bytes) -> Result<Value, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    content
        .read(body)
        .map(|decoded| decoded.value)
        .map_err(ApiError::bad_request)
}

fn token(call: &Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let request = read(content, body)?;
    let answer = review::token_request(
        &call.server.authenticator,
        &StoredPolicy(&call.server.store),
        (&call.path.namespace, &call.path.name),
        &request,
        call.server.clock.now(),
        &call.server.random.uid(),
    )?;
    Ok(call.respond(StatusCode::CREATED, Body::full(output::to_bytes(&answer))))
}

/// Binds a pod to a node.
async fn binding(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let binding = read(content, body)?;
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if node.is_empty() {
        return Err(ApiError::invalid(
            "",
            "Binding",
            &call.path.name,
            &[schema::Violation::at(
                "target.name",
                schema::Problem::Required,
            )],
        ));
    }
    let dry_run = call.query.dry_run("CreateOptions")?;
    let now = call.server.clock.timestamp();
    guaranteed_update(call, dry_run, |call, pod| {
        let bound = pod
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !bound.is_empty() {
            return Err(ApiError::conflict(
                crate::ObjectRef {
                    group: "",
                    resource: "pods/binding",
                    name: &call.path.name,
                },
                &format!(
                    "pod {} is already assigned to node {bound:?}",
                    call.path.name
                ),
            ));
        }
        let mut new = pod.clone();
        object::child_mut(object::map_mut(&mut new), "spec")
            .insert("nodeName".to_owned(), node.clone().into());
        let status = object::child_mut(object::map_mut(&mut new), "status");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Value::Array(conditions) = conditions {
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(json!({
                "type": "PodScheduled", "status": "True",
                "lastProbeTime": null, "lastTransitionTime": now,
            }));
        }
        Ok((new, FieldOwnership::FromDiff))
    })
    .await?;
    Ok(success(call, StatusCode::CREATED))
}

/// Replaces the finalizers in the spec of a namespace.
async fn finalize(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let given = read(content, body)?;
    let written = guaranteed_update(call, false, |_, old| {
        let mut new = old.clone();
        let finalizers = given.pointer("/spec/finalizers").cloned();
        let spec = object::child_mut(object::map_mut(&mut new), "spec");
        match finalizers {
            Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
            None => spec.remove("finalizers"),
        };
        Ok((new, FieldOwnership::FromDiff))
    })
    .await?;
    Ok(call.respond_with_result(StatusCode::OK, &written))
}

fn success(call: &Call<'_>, code: StatusCode) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Success", "code": code.as_u16(),
    });
    call.respond(code, Body::full(output::to_bytes(&status)))
}
