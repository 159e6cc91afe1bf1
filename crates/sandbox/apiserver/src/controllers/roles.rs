//! Cluster roles that are filled from other cluster roles.

use std::sync::Arc;

use serde_json::Value;

use super::Internal;
use crate::{
    ApiError,
    auth::rbac::{self, GROUP, Rule},
    object,
    server::Shared,
    store::{ObjectId, TableId},
};

const MANAGER: &str = "clusterrole-aggregation-controller";
const RESOURCE: &str = "clusterroles";

/// Whether the object is a cluster role.
pub fn is_one(id: &ObjectId) -> bool {
    id.table.group.as_ref() == GROUP && id.table.resource.as_ref() == RESOURCE
}

/// Fills all roles anew, after one of them was written or deleted.
pub async fn attend(server: &Arc<Shared>) -> Result<(), ApiError> {
    let table = TableId::new(GROUP, RESOURCE);
    let internal = Internal::new(server, MANAGER);
    let stored = server.store.list(&table, "").objects;
    let roles: Vec<Value> = stored.iter().map(|role| role.value()).collect();
    for (stored, role) in stored.iter().zip(&roles) {
        let Some(wanted) = rbac::aggregate(role, &roles) else {
            continue;
        };
        if Rule::all_of(role) == wanted {
            continue;
        }
        let wanted: Vec<Value> = wanted.iter().map(Rule::to_value).collect();
        let id = ObjectId {
            table: table.clone(),
            key: stored.key.clone(),
        };
        internal
            .change(&id, "", |role| {
                object::map_mut(role).insert("rules".to_owned(), wanted.clone().into());
            })
            .await?;
    }
    Ok(())
}
