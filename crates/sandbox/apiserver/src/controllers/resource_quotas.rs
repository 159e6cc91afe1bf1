//! ResourceQuota controller: recounts usage when a quota is written or usage in its namespace may
//! have shrunk.

use std::sync::Arc;

use serde_json::Value;

use super::LoopbackClient;
use crate::{
    ApiError, object,
    quota::{self, Amounts},
    server::Shared,
    store::{ObjectId, WorkItem},
};

const MANAGER: &str = "kube-controller-manager";

pub fn is_quota(id: &ObjectId) -> bool {
    id.table.group.is_empty() && id.table.resource.as_ref() == "resourcequotas"
}

/// Recounts all quotas after resources were added or removed.
pub fn requeue_all(server: &Arc<Shared>) {
    for quota in server.store.list(&quota::TABLE, "").objects {
        server.store.requeue(WorkItem::Object(ObjectId {
            table: quota::TABLE.clone(),
            key: quota.key.clone(),
        }));
    }
}

/// Updates `status.used`.
pub async fn reconcile(server: &Arc<Shared>, id: &ObjectId) -> Result<(), ApiError> {
    let client = LoopbackClient::new(server, MANAGER);
    let Some(quota) = client.get(id) else {
        return Ok(());
    };
    let hard = quota::amounts(&quota, "/spec/hard");
    let mut used = quota::amounts(&quota, "/status/used");
    used.extend(count(server, id, &quota, &hard));
    used.retain(|name, _| hard.contains_key(name));
    let is_known = quota.pointer("/status/used").is_some()
        && quota.pointer("/status/hard") == quota.pointer("/spec/hard")
        && quota::amounts(&quota, "/status/used") == used;
    if is_known {
        return Ok(());
    }
    client
        .update(id, "status", |quota| {
            let hard = quota.pointer("/spec/hard").cloned();
            let status = object::child_mut(object::map_mut(quota), "status");
            status.insert(
                "hard".to_owned(),
                hard.unwrap_or_else(|| Value::Object(serde_json::Map::new())),
            );
            status.insert("used".to_owned(), quota::to_value(&used));
        })
        .await
}

fn count(server: &Shared, id: &ObjectId, quota: &Value, hard: &Amounts) -> Amounts {
    let namespace = format!("{}/", quota::namespace_of(&id.key));
    let now = server.clock.now();
    let mut used = Amounts::new();
    for table in server.registry().namespaced_tables() {
        let limited: Vec<&String> = hard
            .keys()
            .filter(|name| quota::concerns(&table, name))
            .collect();
        if limited.is_empty() {
            continue;
        }
        for name in &limited {
            used.insert((*name).clone(), quota::units(0));
        }
        for stored in server.store.list(&table, &namespace).objects {
            let object = stored.value();
            if !quota::is_in_scope(&table, quota, &object) {
                continue;
            }
            let mut usage = quota::usage(&table, &object, now);
            usage.retain(|name, _| limited.contains(&name));
            quota::add(&mut used, &usage);
        }
    }
    used
}
