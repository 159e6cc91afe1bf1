//! Store-backed getters for authentication and RBAC.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    auth::{TokenGetter, rbac},
    object,
    store::{Store, TableId},
};

#[derive(Debug)]
pub struct StoredPolicy<'a>(pub &'a Store);

impl StoredPolicy<'_> {
    fn one(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let stored = self.0.get(
            &TableId::new(group, resource),
            &object::key(namespace, name),
        )?;
        Some(stored.parsed().clone())
    }

    fn all(&self, resource: &str, prefix: &str) -> Vec<Arc<Value>> {
        self.0
            .list(&TableId::new(rbac::GROUP, resource), prefix)
            .objects
            .iter()
            .map(|stored| stored.parsed().clone())
            .collect()
    }
}

impl rbac::Policy for StoredPolicy<'_> {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>> {
        self.one(rbac::GROUP, "clusterroles", "", name)
    }

    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.one(rbac::GROUP, "roles", namespace, name)
    }

    fn cluster_role_bindings(&self) -> Vec<Arc<Value>> {
        self.all("clusterrolebindings", "")
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>> {
        self.all("rolebindings", &format!("{namespace}/"))
    }
}

impl TokenGetter for StoredPolicy<'_> {
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.one("", resource, namespace, name)
    }
}
