//! ResourceQuota admission plugin. Runs last, so that only admitted writes are charged.

use std::sync::Arc;

use serde_json::Value;

use super::{Amounts, TABLE, add, amounts, concerns, is_in_scope, name_of, pods, to_value, usage};
use crate::{
    ApiError,
    admission::webhook::Operation,
    object,
    store::{ObjectId, Precondition, Store, Stored, WorkItem, Write},
    verbs::Call,
};

/// Attempts when other writes are charged concurrently.
const ATTEMPTS: usize = 10;

/// Charges a write to the quotas of its namespace, or refuses it.
pub fn charge(
    call: &Call<'_>,
    operation: Operation,
    new: Option<&Value>,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<(), ApiError> {
    let Some(new) = new.filter(|_| is_counted(call, operation)) else {
        return Ok(());
    };
    for quota in quotas(&call.server.store, call.namespace()) {
        let id = ObjectId {
            table: TABLE.clone(),
            key: quota.key.clone(),
        };
        let mut latest = Some(quota);
        for _ in 0..ATTEMPTS {
            let Some(quota) = latest.take() else { break };
            let Some(charged) = charged(call, &quota.value(), new, old)? else {
                break;
            };
            if dry_run {
                break;
            }
            let precondition = Precondition::Revision(quota.revision);
            if call
                .server
                .store
                .commit(&id, precondition, Write::Put(charged))
                .is_ok()
            {
                break;
            }
            latest = call.server.store.get(&id.table, &id.key);
        }
    }
    Ok(())
}

/// Requeues the quotas of the namespace: a charged write was not stored.
pub fn recount(call: &Call<'_>) {
    for quota in quotas(&call.server.store, call.namespace()) {
        call.server.store.requeue(WorkItem::Object(ObjectId {
            table: TABLE.clone(),
            key: quota.key.clone(),
        }));
    }
}

fn quotas(store: &Store, namespace: &str) -> Vec<Arc<Stored>> {
    if namespace.is_empty() || store.count(&TABLE) == 0 {
        return Vec::new();
    }
    store.list(&TABLE, &format!("{namespace}/")).objects
}

/// Whether a write may increase usage. Only claims and Services can grow by an update.
fn is_counted(call: &Call<'_>, operation: Operation) -> bool {
    let changes = call.resource.group.is_empty()
        && matches!(
            call.resource.plural.as_str(),
            "services" | "persistentvolumeclaims"
        );
    call.path.subresource.is_empty()
        && (operation == Operation::Create || (operation == Operation::Update && changes))
}

/// The quota with the write charged; `None` if nothing changes.
fn charged(
    call: &Call<'_>,
    quota: &Value,
    new: &Value,
    old: Option<&Value>,
) -> Result<Option<Value>, ApiError> {
    let table = &call.resource.table;
    let now = call.server.clock.now();
    let hard = amounts(quota, "/status/hard");
    let used = amounts(quota, "/status/used");
    let limited: Vec<&str> = hard
        .keys()
        .map(String::as_str)
        .filter(|name| concerns(table, name))
        .collect();
    if limited.is_empty() || !is_in_scope(table, quota, new) {
        return Ok(None);
    }
    let refuse =
        |why: String| ApiError::forbidden(call.object_ref_named(object::meta(new, "name")), &why);
    if table.group.is_empty()
        && table.resource.as_ref() == "pods"
        && let Some(missing) = pods::missing(new, limited.iter().copied())
    {
        return Err(refuse(format!(
            "failed quota: {}: {missing}",
            name_of(quota)
        )));
    }
    if limited.iter().any(|name| !used.contains_key(*name)) {
        return Err(refuse(format!(
            "status unknown for quota: {}, resources: {}",
            name_of(quota),
            limited.join(",")
        )));
    }
    let mut more = usage(table, new, now);
    if let Some(old) = old {
        let before = usage(table, old, now);
        for (name, amount) in &mut more {
            if let Some(before) = before.get(name) {
                *amount = *amount - *before;
            }
        }
    }
    more.retain(|name, amount| amount.is_positive() && hard.contains_key(name));
    if more.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    add(&mut after, &more);
    let exceeded = |name: &&String| match (after.get(*name), hard.get(*name)) {
        (Some(after), Some(hard)) => after > hard,
        _ => false,
    };
    let exceeded: Vec<&String> = more.keys().filter(exceeded).collect();
    if !exceeded.is_empty() {
        return Err(refuse(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            name_of(quota),
            format_amounts(&more, &exceeded),
            format_amounts(&used, &exceeded),
            format_amounts(&hard, &exceeded)
        )));
    }
    let mut charged = quota.clone();
    object::child_mut(object::map_mut(&mut charged), "status")
        .insert("used".to_owned(), to_value(&after));
    Ok(Some(charged))
}

fn format_amounts(amounts: &Amounts, names: &[&String]) -> String {
    let parts: Vec<String> = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)))
        .collect();
    parts.join(",")
}
