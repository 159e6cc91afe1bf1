//! CustomResourceDefinition controllers: accept names, serve the resources, and delete all
//! instances before the definition is removed.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::LoopbackClient;
use crate::{
    ApiError, object,
    server::Shared,
    store::{ObjectId, TableId},
    verbs::delete::Propagation,
};

const MANAGER: &str = "kube-apiserver";
const TERMINATING: &str = "Terminating";
const IN_PROGRESS: &str = "InstanceDeletionInProgress";
const COMPLETED: &str = "InstanceDeletionCompleted";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub fn is_crd(id: &ObjectId) -> bool {
    id.table.group.as_ref() == "apiextensions.k8s.io"
}

/// Adds the cleanup finalizer and the Terminating condition to a deleted definition.
pub fn begin_cleanup(definition: &mut Value, now: &str) {
    let mut finalizers: Vec<String> = object::finalizers(definition).map(str::to_owned).collect();
    if !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        object::set_meta(definition, "finalizers", finalizers.into());
    }
    set_condition(
        definition,
        TERMINATING,
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}

/// Serves the resources of a definition, or cleans up after a deleted one.
pub async fn reconcile(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    let client = LoopbackClient::new(server, MANAGER);
    let Some(stored) = server.store.get(&id.table, &id.key) else {
        stop_serving(server, id);
        return Ok(());
    };
    let definition = stored.value();
    if object::is_terminating(&definition) {
        return clean_up(server, &client, id, &definition).await;
    }
    let now = server.clock.timestamp();
    let conflict = name_conflict(server, &definition);
    let accept = |definition: &mut Value| accept(definition, conflict.as_ref(), &now);
    let mut accepted = definition.clone();
    accept(&mut accepted);
    if conflict.is_none() {
        server.define(&definition, stored.revision)?;
    }
    if accepted.get("status") != definition.get("status") {
        client.update(id, "status", accept).await?;
    }
    Ok(())
}

fn accept(definition: &mut Value, conflict: Option<&(&str, String)>, now: &str) {
    let names = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_default();
    match conflict {
        None => {
            object::child_mut(object::map_mut(definition), "status")
                .insert("acceptedNames".to_owned(), names);
            set_condition(
                definition,
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found",
                now,
            );
            set_condition(
                definition,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            );
        }
        Some((reason, message)) => {
            set_condition(definition, "NamesAccepted", "False", reason, message, now);
            set_condition(
                definition,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                now,
            );
        }
    }
    let storage = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name"))
        .cloned();
    if let Some(storage) = storage {
        let status = object::child_mut(object::map_mut(definition), "status");
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Value::Array(stored) = stored
            && !stored.contains(&storage)
        {
            stored.push(storage);
        }
    }
}

/// Reason and message if another definition of the group uses one of the names.
fn name_conflict(server: &Shared, definition: &Value) -> Option<(&'static str, String)> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let group = text("/spec/group");
    let own = object::meta(definition, "name");
    let registry = server.registry();
    let others: Vec<_> = registry
        .all()
        .filter(|resource| resource.group == group)
        .filter(|resource| {
            resource
                .as_custom()
                .is_some_and(|custom| custom.definition != own)
        })
        .collect();
    let short = definition
        .pointer("/spec/names/shortNames")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let resource_names = [
        ("PluralConflict", text("/spec/names/plural")),
        ("SingularConflict", text("/spec/names/singular")),
    ];
    let kinds = [
        ("KindConflict", text("/spec/names/kind")),
        ("ListKindConflict", text("/spec/names/listKind")),
    ];
    let mut conflict = None;
    // kube-apiserver reports the last conflict.
    for (reason, name) in resource_names
        .into_iter()
        .chain(short.map(|name| ("ShortNamesConflict", name)))
    {
        let in_use = others.iter().any(|other| {
            other.plural == name
                || other.singular == name
                || other.short_names.iter().any(|short| short == name)
        });
        if in_use && !name.is_empty() {
            conflict = Some((reason, format!("{name:?} is already in use")));
        }
    }
    for (reason, name) in kinds {
        let in_use = others
            .iter()
            .any(|other| other.kind == name || other.list_kind == name);
        if in_use && !name.is_empty() {
            conflict = Some((reason, format!("{name:?} is already in use")));
        }
    }
    conflict
}

async fn clean_up(
    server: &Arc<Shared>,
    client: &LoopbackClient<'_>,
    id: &ObjectId,
    definition: &Value,
) -> Result<(), ApiError> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let table = TableId::new(text("/spec/group"), text("/spec/names/plural"));
    if !object::finalizers(definition).any(|finalizer| finalizer == CLEANUP) {
        return Ok(());
    }
    let now = server.clock.timestamp();
    if !is_terminating_because(definition, IN_PROGRESS) {
        client
            .update(id, "status", |definition| {
                let message = "CustomResource deletion is in progress";
                set_condition(definition, TERMINATING, "True", IN_PROGRESS, message, &now);
            })
            .await?;
    }
    let mut result = Ok(());
    for stored in server.store.list(&table, "").objects {
        let child = ObjectId {
            table: table.clone(),
            key: stored.key.clone(),
        };
        // An instance that cannot be deleted must not block the others.
        let deleted = client
            .delete(&child, &stored.uid, Propagation::Background)
            .await;
        result = result.and(deleted);
    }
    result?;
    let remaining = server.store.count(&table);
    if remaining > 0 {
        return Err(ApiError::internal(format!(
            "{remaining} objects of {table} still have finalizers"
        )));
    }
    // Other finalizers may keep the definition.
    client
        .update(id, "status", |definition| {
            let message = "removed all instances";
            set_condition(definition, TERMINATING, "False", COMPLETED, message, &now);
        })
        .await?;
    client.remove_finalizer(id, CLEANUP).await?;
    if server.store.get(&id.table, &id.key).is_none() {
        stop_serving(server, id);
    }
    Ok(())
}

/// Stops serving a deleted definition. Its name is `PLURAL.GROUP`.
fn stop_serving(server: &Shared, id: &ObjectId) {
    server.undefine(&id.key);
    if let Some((plural, group)) = id.key.split_once('.') {
        server.store.close(&TableId::new(group, plural));
    }
}

fn is_terminating_because(definition: &Value, reason: &str) -> bool {
    definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == TERMINATING && condition["reason"] == reason)
}

fn set_condition(
    definition: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let map = object::child_mut(object::map_mut(definition), "status");
    let conditions = map.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else {
        return;
    };
    let fresh = |time: &str| {
        let mut condition = Map::new();
        for (key, value) in [
            ("type", kind),
            ("status", status),
            ("reason", reason),
            ("message", message),
            ("lastTransitionTime", time),
        ] {
            condition.insert(key.to_owned(), value.into());
        }
        Value::Object(condition)
    };
    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    {
        Some(condition) => {
            let time = match condition["lastTransitionTime"].as_str() {
                Some(time) if condition["status"] == status => time.to_owned(),
                _ => now.to_owned(),
            };
            *condition = fresh(&time);
        }
        None => conditions.push(fresh(now)),
    }
}
