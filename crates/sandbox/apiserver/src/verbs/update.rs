//! Update: PUT, and the read-modify-write loop shared with PATCH.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use merge::managed;
use serde_json::Value;

use super::{Call, FieldOwnership, WriteResult, create};
use crate::{
    ApiError, ApiResult,
    admission::{self, WriteAttributes},
    object, output,
    request::FieldValidation,
    serializer::{self, ContentType},
    store::{Precondition, Stored, Write},
    validation,
};

/// Attempts when the object changes concurrently.
const ATTEMPTS: usize = 5;
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

pub async fn replace(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let dry_run = call.query.dry_run("UpdateOptions")?;
    let validation = call.query.field_validation("UpdateOptions")?;
    let new = decode_replacement(call, content, body, validation)?;
    if call.resource.creates_on_update() && call.stored().is_err() {
        let written = create::insert(call, new, FieldOwnership::FromDiff, dry_run).await?;
        return Ok(call.respond_with_result(StatusCode::CREATED, &written));
    }
    let mut first = Some(new);
    let written = guaranteed_update(call, dry_run, |call, _| {
        let new = match first.take() {
            Some(new) => new,
            // Warnings were collected on the first attempt.
            None => decode_replacement(call, content, body, FieldValidation::Ignore)?,
        };
        Ok((new, FieldOwnership::FromDiff))
    })
    .await?;
    Ok(call.respond_with_result(StatusCode::OK, &written))
}

/// Decodes the body and checks its name and namespace.
fn decode_replacement(
    call: &mut Call<'_>,
    content: ContentType,
    body: &Bytes,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let mut new = serializer::decode_object(call, content, body, validation)?;
    check_name_and_namespace(call, &new)?;
    object::set_meta(&mut new, "name", call.path.name.clone().into());
    if call.resource.namespaced {
        object::set_meta(&mut new, "namespace", call.path.namespace.clone().into());
    }
    Ok(new)
}

fn check_name_and_namespace(call: &Call<'_>, new: &Value) -> Result<(), ApiError> {
    let (name, namespace) = (object::meta(new, "name"), object::meta(new, "namespace"));
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.path.name
        )));
    }
    if name != call.path.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        )));
    }
    if call.resource.namespaced && !namespace.is_empty() && namespace != call.path.namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            call.path.namespace
        )));
    }
    Ok(())
}

/// Reads, transforms and writes the object; `transform` runs again if the object changed
/// concurrently.
pub async fn guaranteed_update<'a>(
    call: &mut Call<'a>,
    dry_run: bool,
    mut transform: impl FnMut(&mut Call<'a>, &Value) -> Result<(Value, FieldOwnership), ApiError>,
) -> Result<WriteResult, ApiError> {
    for _ in 0..ATTEMPTS {
        let stored = call.stored()?;
        let old = output::value(call.resource, &stored);
        let (new, ownership) = transform(call, &old)?;
        let prepared = prepare(call, new, &old, ownership, dry_run).await?;
        if dry_run {
            return Ok(WriteResult::NotStored(prepared));
        }
        if let Some(written) = write(call, &stored, &old, prepared) {
            return Ok(written);
        }
    }
    Err(ApiError::conflict(call.object_ref(), MODIFIED))
}

async fn prepare(
    call: &mut Call<'_>,
    mut new: Value,
    old: &Value,
    ownership: FieldOwnership,
    dry_run: bool,
) -> Result<Value, ApiError> {
    let resource = call.resource;
    check_version(call, &new, old)?;
    check_uid(call, &new, old)?;
    keep_system_fields(&mut new, old);
    let subresource = call.path.subresource.clone();
    // Admission must not receive fields that this subresource cannot change.
    resource.prepare_update(&mut new, old, &subresource);
    if ownership == FieldOwnership::FromDiff {
        call.update_managed_fields(Some(old), &mut new);
    }
    let before_admission = admission::may_mutate(call).then(|| new.clone());
    let write = WriteAttributes::update(old, dry_run);
    admission::mutate(call, write, &mut new).await?;
    if before_admission.is_some_and(|before| before != new) {
        keep_system_fields(&mut new, old);
        resource.prepare_update(&mut new, old, &subresource);
    }
    managed::ignore_times(old, &mut new);
    if resource.has_generation() && subresource != "status" && resource.is_new_generation(&new, old)
    {
        let generation = old
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        object::set_meta(&mut new, "generation", generation.saturating_add(1).into());
    }
    call.warnings.extend(validation::validate(
        resource,
        &new,
        Some(old),
        &subresource,
    )?);
    admission::validate(call, write, Some(&new)).await?;
    Ok(new)
}

fn check_version(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    match object::meta(new, "resourceVersion") {
        "" if call.resource.allows_unconditional_update() => Ok(()),
        "" => Err(ApiError::invalid(
            &call.resource.group,
            &call.resource.plural,
            &call.path.name,
            &[schema::Violation::at(
                "metadata.resourceVersion",
                schema::Problem::Invalid {
                    value: Some(0.into()),
                    detail: "must be specified for an update".to_owned(),
                },
            )],
        )),
        given if given == object::meta(old, "resourceVersion") => Ok(()),
        given => match given.parse::<u64>() {
            Ok(_) => Err(ApiError::conflict(call.object_ref(), MODIFIED)),
            Err(_) => Err(ApiError::invalid(
                &call.resource.group,
                &call.resource.kind,
                &call.path.name,
                &[schema::Violation::at(
                    "metadata.resourceVersion",
                    schema::Problem::Invalid {
                        value: Some(given.into()),
                        detail: format!("strconv.ParseUint: parsing {given:?}: invalid syntax"),
                    },
                )],
            )),
        },
    }
}

fn check_uid(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (given, actual) = (object::meta(new, "uid"), object::meta(old, "uid"));
    if given.is_empty() || given == actual {
        return Ok(());
    }
    Err(ApiError::conflict(
        call.object_ref(),
        &format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {actual}",
            call.resource.storage_key(&call.id(&call.path.name).key)
        ),
    ))
}

/// Restores metadata that clients cannot change.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let kept = |field: &str| {
        old.get("metadata")
            .and_then(|metadata| metadata.get(field))
            .cloned()
            .unwrap_or(Value::Null)
    };
    for field in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
        object::set_meta(new, field, kept(field));
    }
    // Restored only if omitted: validation refuses other values.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if object::meta_mut(new).get(field).is_none_or(Value::is_null) {
            object::set_meta(new, field, kept(field));
        }
    }
    object::set_meta(new, "selfLink", Value::Null);
}

/// Stores the object; `None` on a concurrent change.
fn write(call: &Call<'_>, stored: &Arc<Stored>, old: &Value, new: Value) -> Option<WriteResult> {
    if new == *old {
        return Some(WriteResult::Stored(stored.clone()));
    }
    let id = call.id(&call.path.name);
    let last_finalizer_gone = object::is_terminating(&new)
        && object::finalizers(&new).next().is_none()
        && new
            .get("metadata")
            .and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_i64())
            .unwrap_or_default()
            == 0
        && !super::delete::has_namespace_finalizers(call.resource, &new);
    let precondition = Precondition::Revision(stored.revision);
    let store = &call.server.store;
    if last_finalizer_gone {
        // Watches receive the last stored state, the client the requested one.
        let last = Write::Remove(call.to_stored(old.clone()));
        store.commit(&id, precondition, last).ok()?;
        return Some(WriteResult::NotStored(new));
    }
    let write = Write::Put(call.to_stored(new));
    store
        .commit(&id, precondition, write)
        .ok()
        .map(WriteResult::Stored)
}
