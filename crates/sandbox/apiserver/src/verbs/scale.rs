//! Scale subresource.

use bytes::Bytes;
use http::{Response, StatusCode};
use merge::{json_patch, merge_patch};
use serde_json::{Value, json};

use super::{
    Call, FieldOwnership,
    update::{MODIFIED, guaranteed_update},
};
use crate::{
    ApiError, ApiResult,
    body::Body,
    decode, object, output,
    registry::Source,
    serializer::{ContentType, PatchType},
};

pub fn get(call: &Call<'_>) -> ApiResult {
    let object = output::value(call.resource, call.stored()?.as_ref());
    Ok(answer(call, &of(call, &object)?))
}

pub async fn replace(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let dry_run = call.query.dry_run("UpdateOptions")?;
    let given = content.read(body).map_err(ApiError::bad_request)?.value;
    set(call, dry_run, |_| Ok(given.clone())).await
}

pub async fn patch(call: &mut Call<'_>, content: PatchType, body: &Bytes) -> ApiResult {
    let dry_run = call.query.dry_run("PatchOptions")?;
    let patch = decode::yaml(body).map_err(ApiError::bad_request)?.value;
    set(call, dry_run, |scale| {
        let mut new = scale.clone();
        match content {
            PatchType::Json => json_patch::apply(&mut new, &patch)
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            // A scale has no lists, so all other patch types merge alike.
            PatchType::Merge | PatchType::Strategic | PatchType::Apply => {
                merge_patch::apply(&mut new, &patch);
            }
        }
        Ok(new)
    })
    .await
}

async fn set(
    call: &mut Call<'_>,
    dry_run: bool,
    transform: impl Fn(&Value) -> Result<Value, ApiError>,
) -> ApiResult {
    let written = guaranteed_update(call, dry_run, |call, old| {
        let scale = transform(&of(call, old)?)?;
        let version = object::meta(&scale, "resourceVersion");
        if !version.is_empty() && version != object::meta(old, "resourceVersion") {
            return Err(ApiError::conflict(call.object_ref(), MODIFIED));
        }
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(replicas) => replicas
                .as_i64()
                .ok_or_else(|| ApiError::bad_request("spec.replicas must be an integer"))?,
        };
        if replicas < 0 {
            return Err(negative(call, replicas));
        }
        let mut new = old.clone();
        match &call.resource.source {
            Source::BuiltIn(_) => kinds::set_scale(&mut new, &scale),
            Source::Custom(custom) => {
                if let Some(paths) = &custom.scale {
                    paths.spec.set(&mut new, replicas.into());
                }
            }
        }
        Ok((new, FieldOwnership::FromDiff))
    })
    .await?;
    let object = written.into_value(call.resource);
    Ok(answer(call, &of(call, &object)?))
}

fn negative(call: &Call<'_>, replicas: i64) -> ApiError {
    let value = Some(replicas.into());
    match call
        .resource
        .as_custom()
        .and_then(|custom| custom.scale.as_ref())
    {
        None => ApiError::invalid(
            "autoscaling",
            "Scale",
            &call.path.name,
            &[schema::Violation::at(
                "spec.replicas",
                schema::Problem::Invalid {
                    value,
                    detail: "must be greater than or equal to 0".to_owned(),
                },
            )],
        ),
        Some(paths) => ApiError::invalid(
            &call.resource.group,
            &call.resource.kind,
            &call.path.name,
            &[schema::Violation::at(
                paths.spec.text(),
                schema::Problem::Invalid {
                    value,
                    detail: "should be a non-negative integer".to_owned(),
                },
            )],
        ),
    }
}

fn answer(call: &Call<'_>, scale: &Value) -> Response<Body> {
    call.respond(StatusCode::OK, Body::full(output::to_bytes(scale)))
}

fn of(call: &Call<'_>, object: &Value) -> Result<Value, ApiError> {
    match &call.resource.source {
        Source::BuiltIn(kind) => kinds::scale(kind, object).ok_or_else(ApiError::no_such_path),
        Source::Custom(custom) => {
            let paths = custom.scale.as_ref().ok_or_else(ApiError::no_such_path)?;
            let number = |path: &crate::jsonpath::JsonPath| {
                path.first(object)
                    .and_then(Value::as_i64)
                    .unwrap_or_default()
            };
            if paths.spec.first(object).is_none() {
                return Err(ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "",
                    format!(
                        "the spec replicas field {:?} does not exist",
                        paths.spec.text()
                    ),
                ));
            }
            let mut scale = json!({
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": kinds::scale_metadata(object),
                "spec": {},
                "status": {"replicas": number(&paths.status)},
            });
            let replicas = number(&paths.spec);
            if replicas != 0 {
                scale["spec"]["replicas"] = replicas.into();
            }
            if let Some(selector) = paths
                .selector
                .as_ref()
                .and_then(|path| path.first(object))
                .and_then(Value::as_str)
                .filter(|selector| !selector.is_empty())
            {
                scale["status"]["selector"] = selector.into();
            }
            Ok(scale)
        }
    }
}
