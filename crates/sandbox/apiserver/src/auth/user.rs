//! The user that a request is made by.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Everyone who has shown a valid token.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who has shown none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of those who have shown no token.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do anything.
pub const MASTERS: &str = "system:masters";

/// A user, as authorisation and admission see one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:default:robot`.
    pub name: String,
    /// The uid; empty for none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator, whose token is in the kubeconfig.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// Somebody who has shown no token.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// A service account.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED.into());
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups,
            ..Self::default()
        }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Whether nothing is ever refused to the user.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The `UserInfo` of reviews. What is empty is left out.
    pub fn to_user_info(&self) -> Value {
        let mut info = Map::new();
        if !self.name.is_empty() {
            info.insert("username".into(), self.name.clone().into());
        }
        if !self.uid.is_empty() {
            info.insert("uid".into(), self.uid.clone().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".into(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            let extra: Map<String, Value> = self
                .extra
                .iter()
                .map(|(key, values)| (key.clone(), values.clone().into()))
                .collect();
            info.insert("extra".into(), extra.into());
        }
        Value::Object(info)
    }
}

/// The groups that all service accounts of a namespace are in.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// The namespace and the name of the service account that a user name stands for.
pub fn split_service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let valid = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            })
    };
    (valid(namespace) && valid(name)).then_some((namespace, name))
}
