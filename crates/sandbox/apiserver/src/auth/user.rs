//! User info of a request.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";
/// Members bypass authorization.
pub const MASTERS: &str = "system:masters";

/// User info as authorization and admission receive it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `system:serviceaccount:default:robot`.
    pub name: String,
    /// Empty for none.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator of the kubeconfig.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

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

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// `UserInfo` of reviews, without empty fields.
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

pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Namespace and name of a service account user name.
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
