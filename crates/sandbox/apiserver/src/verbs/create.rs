//! Create.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::{Call, FieldOwnership, WriteResult};
use crate::{
    ApiError, ApiResult, ObjectRef,
    admission::{self, WriteAttributes},
    object, quota,
    serializer::{self, ContentType},
    store::{Precondition, Write},
    validation,
};

pub async fn create(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let validation = call.query.field_validation("CreateOptions")?;
    let mut new = serializer::decode_object(call, content, body, validation)?;
    set_namespace(call, &mut new)?;
    let written = insert(call, new, FieldOwnership::FromDiff, dry_run).await?;
    Ok(call.respond_with_result(StatusCode::CREATED, &written))
}

/// Sets the namespace of the request, or refuses another one.
pub fn set_namespace(call: &Call<'_>, new: &mut Value) -> Result<(), ApiError> {
    let wanted = call.namespace();
    let given = object::meta(new, "namespace").to_owned();
    if call.resource.namespaced {
        if given.is_empty() {
            object::set_meta(new, "namespace", wanted.into());
        } else if given != wanted {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else {
        object::set_meta(new, "namespace", Value::Null);
    }
    Ok(())
}

pub async fn insert(
    call: &mut Call<'_>,
    mut new: Value,
    ownership: FieldOwnership,
    dry_run: bool,
) -> Result<WriteResult, ApiError> {
    if !object::meta(&new, "resourceVersion").is_empty() {
        return Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let resource = call.resource;
    if ownership == FieldOwnership::FromDiff {
        call.update_managed_fields(None, &mut new);
    }
    let write = WriteAttributes::create(dry_run);
    admission::mutate(call, write, &mut new).await?;
    let generated = object::meta(&new, "name").is_empty();
    let base = object::meta(&new, "generateName").to_owned();
    // Retry with another name if a generated one exists.
    for attempt in 0.. {
        let mut candidate = if generated {
            new.clone()
        } else {
            std::mem::take(&mut new)
        };
        if generated && !base.is_empty() {
            let short: String = base.chars().take(58).collect();
            let name = format!("{short}{}", call.server.random.suffix());
            object::set_meta(&mut candidate, "name", name.into());
        }
        set_system_fields(call, &mut candidate);
        resource.prepare_create(&mut candidate);
        if resource.group.is_empty() && resource.kind == "PersistentVolume" {
            object::child_mut(object::map_mut(&mut candidate), "status").insert(
                "lastPhaseTransitionTime".to_owned(),
                call.server.clock.timestamp().into(),
            );
        }
        call.warnings
            .extend(validation::validate(resource, &candidate, None, "")?);
        admission::validate(call, write, Some(&candidate)).await?;
        let name = object::meta(&candidate, "name").to_owned();
        let id = call.id(&name);
        let already_exists = || {
            let mut error = ApiError::already_exists(ObjectRef {
                group: &resource.group,
                resource: &resource.plural,
                name: &name,
            });
            let existing = call.server.store.get(&id.table, &id.key);
            if existing.is_some_and(|existing| object::is_terminating(&existing.value())) {
                error.message = format!("object is being deleted: {}", error.message);
            }
            error
        };
        if dry_run {
            return match call.server.store.get(&id.table, &id.key) {
                Some(_) => Err(already_exists()),
                None => Ok(WriteResult::NotStored(candidate)),
            };
        }
        let write = Write::Put(call.to_stored(candidate));
        match call.server.store.commit(&id, Precondition::Absent, write) {
            Ok(stored) => return Ok(WriteResult::Stored(stored)),
            Err(_) if generated && attempt < 7 => quota::recount(call),
            Err(_) => {
                quota::recount(call);
                return Err(already_exists());
            }
        }
    }
    Err(ApiError::internal("no name could be generated"))
}

/// Sets metadata that only the server may set.
fn set_system_fields(call: &Call<'_>, new: &mut Value) {
    let uid = call.server.random.uid();
    let now = call.server.clock.timestamp();
    let metadata = object::meta_mut(new);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if call.resource.has_generation() {
        metadata.insert("generation".to_owned(), 1.into());
    }
}
