//! ClusterRole aggregation controller.

use std::sync::Arc;

use serde_json::Value;

use super::LoopbackClient;
use crate::{
    ApiError,
    auth::rbac::{self, GROUP, Rule},
    object,
    server::Shared,
    store::{ObjectId, TableId},
};

const MANAGER: &str = "clusterrole-aggregation-controller";
const RESOURCE: &str = "clusterroles";

pub fn is_cluster_role(id: &ObjectId) -> bool {
    id.table.group.as_ref() == GROUP && id.table.resource.as_ref() == RESOURCE
}

/// Recomputes all aggregated roles after a ClusterRole changed.
pub async fn reconcile(server: &Arc<Shared>) -> Result<(), ApiError> {
    let table = TableId::new(GROUP, RESOURCE);
    let client = LoopbackClient::new(server, MANAGER);
    let stored = server.store.list(&table, "").objects;
    let roles: Vec<Value> = stored.iter().map(|role| role.value()).collect();
    for (stored, role) in stored.iter().zip(&roles) {
        let Some(desired) = rbac::aggregate(role, &roles) else {
            continue;
        };
        if Rule::all_of(role) == desired {
            continue;
        }
        let desired: Vec<Value> = desired.iter().map(Rule::to_value).collect();
        let id = ObjectId {
            table: table.clone(),
            key: stored.key.clone(),
        };
        client
            .update(&id, "", |role| {
                object::map_mut(role).insert("rules".to_owned(), desired.clone().into());
            })
            .await?;
    }
    Ok(())
}
