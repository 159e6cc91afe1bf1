//! Garbage collector: deletes objects whose owners are gone, orphans dependents, and completes
//! foreground deletion.

use std::sync::Arc;

use serde_json::Value;

use super::LoopbackClient;
use crate::{
    ApiError, object,
    server::Shared,
    store::{FOREGROUND, ObjectId},
    verbs::delete::{ORPHAN, Propagation},
};

const MANAGER: &str = "generic-garbage-collector";

/// Reconciles all objects that the deleted owner had.
pub async fn on_owner_deleted(server: &Arc<Shared>, uid: &str) -> Result<(), ApiError> {
    let mut result = Ok(());
    for child in server.store.children(uid) {
        // A child that cannot be deleted must not block the others.
        let reconciled = reconcile(server, &child).await;
        result = result.and(reconciled);
    }
    result
}

/// Reconciles an object that has owners or is terminating.
pub async fn reconcile(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    let client = LoopbackClient::new(server, MANAGER);
    let Some(object) = client.get(id) else {
        return Ok(());
    };
    if object::is_terminating(&object) {
        let uid = object::meta(&object, "uid");
        if object::finalizers(&object).any(|one| one == ORPHAN) {
            return orphan_children(&client, id, uid, server).await;
        }
        if object::finalizers(&object).any(|one| one == FOREGROUND) {
            return delete_children_first(&client, id, uid, server).await;
        }
        return Ok(());
    }
    delete_unless_owned(server, &client, id, &object).await
}

async fn orphan_children(
    client: &LoopbackClient<'_>,
    id: &ObjectId,
    uid: &str,
    server: &Arc<Shared>,
) -> Result<(), ApiError> {
    let mut result = Ok(());
    for child in server.store.children(uid) {
        result = result.and(remove_owner_references(client, &child, &[uid.to_owned()]).await);
    }
    result?;
    client.remove_finalizer(id, ORPHAN).await
}

async fn delete_children_first(
    client: &LoopbackClient<'_>,
    id: &ObjectId,
    uid: &str,
    server: &Arc<Shared>,
) -> Result<(), ApiError> {
    let mut blocked = false;
    let mut result = Ok(());
    for child in server.store.children(uid) {
        let Some(object) = client.get(&child) else {
            continue;
        };
        let blocks = object::owners(&object).any(|owner| {
            owner.get("uid").and_then(Value::as_str) == Some(uid)
                && owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
        });
        result = result.and(delete_unless_owned(server, client, &child, &object).await);
        blocked |= blocks && server.store.get(&child.table, &child.key).is_some();
    }
    result?;
    if blocked {
        // The deletion of the last child queues the owner again.
        return Ok(());
    }
    client.remove_finalizer(id, FOREGROUND).await
}

/// State of an owner, as kube-controller-manager classifies it.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Solid,
    /// Terminating with the finalizer `foregroundDeletion`.
    WaitingForChildren,
    Absent,
    /// Its kind is not served, so the object must be kept.
    Unknown,
}

async fn delete_unless_owned(
    server: &Arc<Shared>,
    client: &LoopbackClient<'_>,
    id: &ObjectId,
    object: &Value,
) -> Result<(), ApiError> {
    let mut owners = Vec::new();
    for reference in object::owners(object) {
        let uid = reference
            .get("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        owners.push((classify_owner(server, client, id, reference), uid));
    }
    let is = |wanted: Owner| owners.iter().any(|(owner, _)| *owner == wanted);
    if owners.is_empty() || is(Owner::Unknown) {
        return Ok(());
    }
    if is(Owner::Solid) {
        let removed: Vec<String> = owners
            .iter()
            .filter(|(owner, _)| *owner != Owner::Solid)
            .map(|(_, uid)| uid.clone())
            .collect();
        if removed.is_empty() {
            return Ok(());
        }
        return remove_owner_references(client, id, &removed).await;
    }
    if object::is_terminating(object) {
        return Ok(());
    }
    let uid = object::meta(object, "uid");
    let children = server.store.children(uid);
    let has_children = !children.is_empty();
    if is(Owner::WaitingForChildren)
        && children
            .iter()
            .any(|child| waits_for_children(client, child))
    {
        // Breaks cycles, in which owners would wait for one another forever.
        unblock_owner_deletion(client, id).await?;
    }
    let propagation = if object::finalizers(object).any(|one| one == ORPHAN) {
        Propagation::Orphan
    } else if is(Owner::WaitingForChildren) && has_children {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    client.delete(id, uid, propagation).await
}

fn classify_owner(
    server: &Arc<Shared>,
    client: &LoopbackClient<'_>,
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
    match client.get(&id) {
        Some(owner) if object::meta(&owner, "uid") == text("uid") => {
            let waits = object::is_terminating(&owner)
                && object::finalizers(&owner).any(|one| one == FOREGROUND);
            if waits {
                Owner::WaitingForChildren
            } else {
                Owner::Solid
            }
        }
        _ => Owner::Absent,
    }
}

fn waits_for_children(client: &LoopbackClient<'_>, id: &ObjectId) -> bool {
    client.get(id).is_some_and(|object| {
        object::is_terminating(&object) && object::finalizers(&object).any(|one| one == FOREGROUND)
    })
}

async fn unblock_owner_deletion(
    client: &LoopbackClient<'_>,
    id: &ObjectId,
) -> Result<(), ApiError> {
    client
        .update(id, "", |object| {
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

async fn remove_owner_references(
    client: &LoopbackClient<'_>,
    id: &ObjectId,
    uids: &[String],
) -> Result<(), ApiError> {
    client
        .update(id, "", |object| {
            let kept = object::owners(object)
                .filter(|owner| {
                    let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
                    !uids.iter().any(|removed| removed == uid)
                })
                .cloned()
                .collect();
            object::set_meta_list(object, "ownerReferences", kept);
        })
        .await
}
