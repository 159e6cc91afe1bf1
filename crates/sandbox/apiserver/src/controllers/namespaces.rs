//! Namespace controller: deletes all content of a terminating namespace, then removes its
//! finalizer.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::LoopbackClient;
use crate::{
    ApiError, object,
    server::Shared,
    store::{ObjectId, TableId},
    verbs::delete::Propagation,
};

const MANAGER: &str = "namespace-controller";

pub fn is_namespace(id: &ObjectId) -> bool {
    id.table.group.is_empty() && id.table.resource.as_ref() == "namespaces"
}

pub async fn reconcile(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    let client = LoopbackClient::new(server, MANAGER);
    let Some(namespace) = client.get(id).filter(object::is_terminating) else {
        return Ok(());
    };
    let name = object::meta(&namespace, "name").to_owned();
    let tables = server.registry().namespaced_tables();
    let prefix = format!("{name}/");
    let mut first_error = None;
    for table in &tables {
        for stored in server.store.list(table, &prefix).objects {
            if object::is_terminating(&stored.value()) {
                continue;
            }
            let child = ObjectId {
                table: table.clone(),
                key: stored.key.clone(),
            };
            if let Err(error) = client
                .delete(&child, &stored.uid, Propagation::Background)
                .await
            {
                first_error.get_or_insert(error);
            }
        }
    }
    let remaining: Vec<(TableId, Vec<Value>)> = tables
        .into_iter()
        .map(|table| {
            let objects = server.store.list(&table, &prefix).objects;
            let values = objects.iter().map(|stored| stored.value()).collect();
            (table, values)
        })
        .filter(|(_, objects): &(_, Vec<Value>)| !objects.is_empty())
        .collect();
    if remaining.is_empty() {
        // Removing the last finalizer deletes the namespace.
        return client
            .update(id, "finalize", |namespace| {
                object::child_mut(object::map_mut(namespace), "spec").remove("finalizers");
            })
            .await;
    }
    let conditions = conditions(
        &remaining,
        &server.clock.timestamp(),
        namespace.pointer("/status/conditions"),
    );
    client
        .update(id, "status", |namespace| {
            object::child_mut(object::map_mut(namespace), "status")
                .insert("conditions".to_owned(), conditions.clone());
        })
        .await?;
    first_error.map_or(Ok(()), Err)
}

/// Deletion conditions of the namespace.
fn conditions(remaining: &[(TableId, Vec<Value>)], now: &str, before: Option<&Value>) -> Value {
    let mut contents = Vec::new();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (table, objects) in remaining {
        contents.push(format!(
            "{}.{} has {} resource instances",
            table.resource,
            table.group,
            objects.len()
        ));
        for finalizer in objects.iter().flat_map(object::finalizers) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let remaining_finalizers: Vec<String> = finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let (finalizers_status, finalizers_reason, finalizers_message) =
        if remaining_finalizers.is_empty() {
            (
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            (
                "True",
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    remaining_finalizers.join(", ")
                ),
            )
        };
    let fresh = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", contents.join(", ")),
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers_status,
            finalizers_reason,
            finalizers_message,
        ),
    ];
    fresh
        .into_iter()
        .map(|(kind, status, reason, message)| {
            let earlier = before
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == kind && condition["status"] == status)
                .and_then(|condition| condition["lastTransitionTime"].as_str())
                .unwrap_or(now);
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": earlier,
            })
        })
        .collect()
}
