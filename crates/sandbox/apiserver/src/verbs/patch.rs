//! Patch: JSON patch, merge patch, strategic merge patch and server-side apply.

use bytes::Bytes;
use http::StatusCode;
use merge::{json_patch, managed, merge_patch, strategic};
use serde_json::Value;

use super::{Call, FieldOwnership, create, update::guaranteed_update};
use crate::{
    ApiError, ApiResult, Cause, Details, decode, object,
    request::FieldValidation,
    serializer::{self, PatchType},
};

pub async fn patch(call: &mut Call<'_>, content: PatchType, body: &Bytes) -> ApiResult {
    let dry_run = call.query.dry_run("PatchOptions")?;
    let validation = call.query.field_validation("PatchOptions")?;
    if content == PatchType::Apply {
        return apply(call, body, dry_run, validation).await;
    }
    if call.query.has("force") {
        return Err(invalid_options(
            "force",
            schema::Problem::Forbidden {
                detail: "may not be specified for non-apply patch".to_owned(),
            },
        ));
    }
    let patch = decode::json(body).map_err(|error| {
        ApiError::bad_request(match content {
            PatchType::Merge => "invalid JSON patch".to_owned(),
            _ => format!("error decoding patch: {error}"),
        })
    })?;
    let written = guaranteed_update(call, dry_run, |call, old| {
        let mut new = patched(call, content, old, &patch.value)?;
        // Error texts show the patched object before pruning.
        let unfit = |call: &Call<'_>, error: ApiError| match error.code {
            StatusCode::BAD_REQUEST => patched(call, content, old, &patch.value)
                .map_or_else(|error| error, |shown| unfit(&shown, &error)),
            _ => error,
        };
        serializer::check_kind(call, &mut new).map_err(|error| unfit(call, error))?;
        check_identity(call, &mut new, old)?;
        serializer::prune_and_default(call, &mut new, validation, &patch.duplicates)
            .map_err(|error| unfit(call, error))?;
        Ok((new, FieldOwnership::FromDiff))
    })
    .await?;
    Ok(call.respond_with_result(StatusCode::OK, &written))
}

fn patched(
    call: &Call<'_>,
    content: PatchType,
    old: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    match content {
        PatchType::Json => {
            let mut new = old.clone();
            json_patch::apply(&mut new, patch).map_err(|error| patch_error(&error))?;
            Ok(new)
        }
        PatchType::Strategic => {
            strategic::apply(call.resource.shape(), old, patch).map_err(|error| patch_error(&error))
        }
        PatchType::Merge | PatchType::Apply => {
            if !patch.is_object() {
                return Err(ApiError::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    if patch.is_array() { "array" } else { "value" }
                )));
            }
            let mut new = old.clone();
            merge_patch::apply(&mut new, patch);
            Ok(new)
        }
    }
}

fn patch_error(error: &merge::PatchError) -> ApiError {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
    match code {
        StatusCode::UNPROCESSABLE_ENTITY => ApiError {
            details: Some(Details::default()),
            ..ApiError::new(
                code,
                "Invalid",
                "the server rejected our request due to an error in our request",
            )
        },
        StatusCode::PAYLOAD_TOO_LARGE => {
            ApiError::new(code, "RequestEntityTooLarge", error.to_string())
        }
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::new(code, "", error.to_string()),
        _ => ApiError::bad_request(error.to_string()),
    }
}

/// An object as Go prints it: metadata in struct order, other fields by name.
fn shown(object: &Value) -> String {
    const ORDER: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let Value::Object(fields) = object else {
        return object.to_string();
    };
    let entry = |key: &str, value: String| format!("{}:{value}", Value::from(key));
    let entries: Vec<String> = fields
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Object(metadata) if key == "metadata" => {
                    let known = ORDER
                        .iter()
                        .filter_map(|key| Some(entry(key, metadata.get(*key)?.to_string())));
                    format!("{{{}}}", known.collect::<Vec<_>>().join(","))
                }
                value => value.to_string(),
            };
            entry(key, value)
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// Error for a patch whose result does not decode.
fn unfit(patched: &Value, error: &ApiError) -> ApiError {
    let detail = match error.message.split_once(": ") {
        Some((_, detail)) if error.message.contains(" cannot be handled as a ") => detail,
        _ => &error.message,
    };
    ApiError::invalid(
        "",
        "",
        "",
        &[schema::Violation::at(
            "patch",
            schema::Problem::Invalid {
                value: Some(shown(patched).into()),
                detail: detail.to_owned(),
            },
        )],
    )
}

/// A patch must not change kind, name or namespace.
fn check_identity(call: &Call<'_>, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    serializer::check_kind(call, new)?;
    for field in ["name", "namespace"] {
        let (after, before) = (object::meta(new, field), object::meta(old, field));
        if after.is_empty() && !before.is_empty() {
            object::set_meta(new, field, before.into());
        } else if after != before {
            let message = if field == "name" {
                format!(
                    "the name of the object ({after}) does not match the name on the URL ({before})"
                )
            } else {
                format!(
                    "the namespace of the object ({after}) does not match the namespace on the request ({before})"
                )
            };
            return Err(ApiError::bad_request(message));
        }
    }
    Ok(())
}

async fn apply(
    call: &mut Call<'_>,
    body: &Bytes,
    dry_run: bool,
    validation: FieldValidation,
) -> ApiResult {
    if call.query.get("fieldManager").is_empty() {
        return Err(invalid_options(
            "fieldManager",
            schema::Problem::RequiredBecause {
                detail: "is required for apply patch".to_owned(),
            },
        ));
    }
    let force = call.query.flag("force");
    let decoded = decode::yaml(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
    call.apply_field_validation(validation, &decoded.duplicates, &[])?;
    let applied = decoded.value;
    check_applied_kind(call, &applied)?;
    let missing = call.stored().is_err();
    if missing && call.path.subresource.is_empty() {
        let uid = object::meta(&applied, "uid");
        if !uid.is_empty() {
            return Err(ApiError::conflict(
                call.object_ref(),
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        let mut new = merged(call, None, &applied, force)?;
        object::set_meta(&mut new, "resourceVersion", Value::Null);
        let name = object::meta(&new, "name").to_owned();
        if name.is_empty() {
            object::set_meta(&mut new, "name", call.path.name.clone().into());
        } else if name != call.path.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.path.name
            )));
        }
        serializer::prune_and_default(call, &mut new, validation, &[])?;
        create::set_namespace(call, &mut new)?;
        match create::insert(call, new, FieldOwnership::FromApply, dry_run).await {
            Ok(written) => return Ok(call.respond_with_result(StatusCode::CREATED, &written)),
            // Created concurrently: apply to the existing object.
            Err(error) if error.reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
        }
    }
    let written = guaranteed_update(call, dry_run, |call, old| {
        let mut new = merged(call, Some(old), &applied, force)?;
        check_identity(call, &mut new, old)?;
        serializer::prune_and_default(call, &mut new, validation, &[])?;
        Ok((new, FieldOwnership::FromApply))
    })
    .await?;
    Ok(call.respond_with_result(StatusCode::OK, &written))
}

/// Checks the kind of an applied object.
fn check_applied_kind(call: &Call<'_>, applied: &Value) -> Result<(), ApiError> {
    let text = |key: &str| applied.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() || api_version != call.resource.api_version() || kind == call.resource.kind {
        return Ok(());
    }
    let (group, version) = object::split_api_version(api_version);
    Err(ApiError::bad_request(format!(
        "invalid object type: {group}/{version}, Kind={kind}"
    )))
}

fn merged(
    call: &Call<'_>,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, ApiError> {
    let now = call.server.clock.timestamp();
    let api_version = call.resource.api_version();
    let context = call.managed_context(&api_version, &now);
    managed::apply(call.resource.shape(), live, applied, &context, force).map_err(|error| {
        let message = error.to_string();
        match error {
            managed::ApplyError::BadRequest(_) => ApiError::bad_request(message),
            managed::ApplyError::Internal(_) => {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
            }
            managed::ApplyError::Conflicts(conflicts) => ApiError {
                details: Some(Details {
                    causes: conflicts
                        .causes()
                        .into_iter()
                        .map(|cause| Cause {
                            reason: cause.reason.to_owned(),
                            message: cause.message,
                            field: cause.field,
                        })
                        .collect(),
                    ..Details::default()
                }),
                ..ApiError::new(StatusCode::CONFLICT, "Conflict", message)
            },
        }
    })
}

fn invalid_options(field: &str, problem: schema::Problem) -> ApiError {
    ApiError::invalid_options("PatchOptions", field, problem)
}
