//! The garbage collector: what nobody owns any more goes, and an owner that waits for what it owns
//! goes when that is gone.

use std::sync::Arc;

use serde_json::Value;

use super::Internal;
use crate::{
    ApiError, object,
    server::Shared,
    store::{FOREGROUND, ObjectId},
    verbs::delete::{ORPHAN, Propagation},
};

const MANAGER: &str = "generic-garbage-collector";

/// Looks at everything that the object with this uid owned.
pub async fn owner_is_gone(server: &Arc<Shared>, uid: &str) -> Result<(), ApiError> {
    let mut ended = Ok(());
    for child in server.store.children(uid) {
        // One that cannot go does not hold back the others.
        let attended = attend(server, &child).await;
        ended = ended.and(attended);
    }
    ended
}

/// Looks at an object that has owners, or is being deleted.
pub async fn attend(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    let internal = Internal::new(server, MANAGER);
    let Some(object) = internal.get(id) else {
        return Ok(());
    };
    if object::is_terminating(&object) {
        let uid = object::meta(&object, "uid");
        if object::finalizers(&object).any(|one| one == ORPHAN) {
            return orphan(&internal, id, uid, server).await;
        }
        if object::finalizers(&object).any(|one| one == FOREGROUND) {
            return children_first(&internal, id, uid, server).await;
        }
        return Ok(());
    }
    judge_owners(server, &internal, id, &object).await
}

async fn orphan(
    internal: &Internal<'_>,
    id: &ObjectId,
    uid: &str,
    server: &Arc<Shared>,
) -> Result<(), ApiError> {
    let mut ended = Ok(());
    for child in server.store.children(uid) {
        ended = ended.and(drop_owners(internal, &child, &[uid.to_owned()]).await);
    }
    ended?;
    internal.remove_finalizer(id, ORPHAN).await
}

async fn children_first(
    internal: &Internal<'_>,
    id: &ObjectId,
    uid: &str,
    server: &Arc<Shared>,
) -> Result<(), ApiError> {
    let mut blocked = false;
    let mut ended = Ok(());
    for child in server.store.children(uid) {
        let Some(object) = internal.get(&child) else {
            continue;
        };
        let blocks = object::owners(&object).any(|owner| {
            owner.get("uid").and_then(Value::as_str) == Some(uid)
                && owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
        });
        ended = ended.and(judge_owners(server, internal, &child, &object).await);
        blocked |= blocks && server.store.get(&child.table, &child.key).is_some();
    }
    ended?;
    if blocked {
        // The end of the last child brings the owner here again.
        return Ok(());
    }
    internal.remove_finalizer(id, FOREGROUND).await
}

/// What an owner is to its child.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    /// It is there, and stays.
    Solid,
    /// It is there, and waits until its children are gone.
    Waiting,
    /// There is no such object.
    Absent,
    /// Its kind is not known, so nothing can be said.
    Unknown,
}

async fn judge_owners(
    server: &Arc<Shared>,
    internal: &Internal<'_>,
    id: &ObjectId,
    object: &Value,
) -> Result<(), ApiError> {
    let mut judged = Vec::new();
    for reference in object::owners(object) {
        let uid = reference
            .get("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        judged.push((owner(server, internal, id, reference), uid));
    }
    let is = |wanted: Owner| judged.iter().any(|(owner, _)| *owner == wanted);
    if judged.is_empty() || is(Owner::Unknown) {
        return Ok(());
    }
    if is(Owner::Solid) {
        let gone: Vec<String> = judged
            .iter()
            .filter(|(owner, _)| *owner != Owner::Solid)
            .map(|(_, uid)| uid.clone())
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        return drop_owners(internal, id, &gone).await;
    }
    if object::is_terminating(object) {
        return Ok(());
    }
    let uid = object::meta(object, "uid");
    let children = server.store.children(uid);
    let has_children = !children.is_empty();
    if is(Owner::Waiting) && children.iter().any(|child| waits(internal, child)) {
        // Owners in a circle would wait for one another for ever.
        unblock(internal, id).await?;
    }
    let propagation = if object::finalizers(object).any(|one| one == ORPHAN) {
        Propagation::Orphan
    } else if is(Owner::Waiting) && has_children {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    internal.delete(id, uid, propagation).await
}

fn owner(
    server: &Arc<Shared>,
    internal: &Internal<'_>,
    child: &ObjectId,
    reference: &Value,
) -> Owner {
    let text = |key: &str| {
        reference
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, version) = object::split_api_version(text("apiVersion"));
    let registry = server.registry();
    let Some(resource) = registry.find_kind(group, version, text("kind")) else {
        return Owner::Unknown;
    };
    let namespace = match child.key.split_once('/') {
        Some((namespace, _)) if resource.namespaced => namespace,
        _ => "",
    };
    let id = ObjectId {
        table: resource.table.clone(),
        key: object::key(namespace, text("name")).into(),
    };
    match internal.get(&id) {
        Some(owner) if object::meta(&owner, "uid") == text("uid") => {
            let waits = object::is_terminating(&owner)
                && object::finalizers(&owner).any(|one| one == FOREGROUND);
            if waits { Owner::Waiting } else { Owner::Solid }
        }
        _ => Owner::Absent,
    }
}

fn waits(internal: &Internal<'_>, id: &ObjectId) -> bool {
    internal.get(id).is_some_and(|object| {
        object::is_terminating(&object) && object::finalizers(&object).any(|one| one == FOREGROUND)
    })
}

async fn unblock(internal: &Internal<'_>, id: &ObjectId) -> Result<(), ApiError> {
    internal
        .change(id, "", |object| {
            let references = object
                .pointer_mut("/metadata/ownerReferences")
                .and_then(Value::as_array_mut);
            for reference in references.into_iter().flatten() {
                if let Value::Object(reference) = reference {
                    reference.insert("blockOwnerDeletion".to_owned(), false.into());
                }
            }
        })
        .await
}

async fn drop_owners(
    internal: &Internal<'_>,
    id: &ObjectId,
    uids: &[String],
) -> Result<(), ApiError> {
    internal
        .change(id, "", |object| {
            let kept: Vec<Value> = object::owners(object)
                .filter(|owner| {
                    let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
                    !uids.iter().any(|gone| gone == uid)
                })
                .cloned()
                .collect();
            let value = if kept.is_empty() {
                Value::Null
            } else {
                kept.into()
            };
            object::set_meta(object, "ownerReferences", value);
        })
        .await
}
