//! Fixture: a cluster of a few objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    TokenGetter, User,
    rbac::{GROUP, Policy, bootstrap},
};

pub(super) struct Cluster(Vec<Arc<Value>>);

impl Cluster {
    /// The bootstrap roles and `objects`.
    pub(super) fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let objects = bootstrap::objects().into_iter().chain(objects);
        Self(objects.map(Arc::new).collect())
    }

    fn all(&self, kind: &str, namespace: &str) -> Vec<Arc<Value>> {
        let mut found: Vec<Arc<Value>> = self
            .0
            .iter()
            .filter(|object| {
                object["kind"] == kind
                    && object["metadata"]["namespace"].as_str().unwrap_or("") == namespace
            })
            .cloned()
            .collect();
        found.sort_by_key(|object| object["metadata"]["name"].as_str().map(str::to_owned));
        found
    }

    fn one(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let mut all = self.all(kind, namespace).into_iter();
        all.find(|object| object["metadata"]["name"] == name)
    }
}

impl Policy for Cluster {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>> {
        self.one("ClusterRole", "", name)
    }
    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.one("Role", namespace, name)
    }
    fn cluster_role_bindings(&self) -> Vec<Arc<Value>> {
        self.all("ClusterRoleBinding", "")
    }
    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>> {
        self.all("RoleBinding", namespace)
    }
}

impl TokenGetter for Cluster {
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let kind = match resource {
            "serviceaccounts" => "ServiceAccount",
            "pods" => "Pod",
            "nodes" => "Node",
            _ => "Secret",
        };
        self.one(kind, namespace, name)
    }
}

pub(super) fn user(name: &str) -> User {
    User {
        name: name.into(),
        groups: vec!["system:authenticated".into()],
        ..User::default()
    }
}

fn metadata(namespace: &str, name: &str) -> Value {
    match namespace {
        "" => json!({"name": name}),
        namespace => json!({"name": name, "namespace": namespace}),
    }
}

/// A Role; a ClusterRole if the namespace is empty.
#[expect(
    clippy::needless_pass_by_value,
    reason = "rules are written where they are given"
)]
pub(super) fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    json!({"kind": kind, "metadata": metadata(namespace, name), "rules": rules})
}

/// A binding of a role (`Role/name` or `ClusterRole/name`) to a user.
pub(super) fn binding(namespace: &str, name: &str, role: &str, user: &str) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    let (role_kind, role) = role.split_once('/').unwrap();
    let subject = match user.split_once('/') {
        Some((namespace, name)) => {
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        None => json!({"kind": "User", "apiGroup": GROUP, "name": user}),
    };
    json!({
        "kind": kind,
        "metadata": metadata(namespace, name),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
        "subjects": [subject],
    })
}

pub(super) fn object(kind: &str, namespace: &str, name: &str, uid: &str) -> Value {
    let mut metadata = metadata(namespace, name);
    metadata["uid"] = uid.into();
    json!({"kind": kind, "metadata": metadata})
}
