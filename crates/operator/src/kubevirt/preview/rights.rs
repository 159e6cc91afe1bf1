//! Permissions of the operator, for the preflight.
//!
//! They are the rules of the roles that its service account is bound to. Before it is bound to any, those
//! of config/rbac/virt-operator are assumed. If the user may not list bindings, the user's own permissions
//! are used.

use plan::kubevirt::preflight::{Permissions, Rule};
use serde_json::{Value, json};

use super::{PreviewError, is_forbidden, not_read};
use crate::{installation::KUBEVIRT_RIGHTS, requests::Requests};

/// The service account of the operator in config/rbac/virt-operator and in the chart.
pub(super) const ACCOUNT: &str = "kubevirt-operator";

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(super) struct Rights {
    pub(super) permissions: Permissions,
    /// Source of the permissions, if they are not the operator's own.
    pub(super) note: Option<String>,
}

/// Roles and role bindings.
#[derive(Default)]
struct Grants {
    cluster_roles: Vec<Value>,
    cluster_bindings: Vec<Value>,
    roles: Vec<Value>,
    bindings: Vec<Value>,
}

/// Service account.
#[derive(Clone, Copy)]
struct Account<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Rights {
    /// Permissions of a service account.
    pub(super) async fn of(
        requests: &Requests,
        namespace: &str,
        name: &str,
    ) -> Result<Self, PreviewError> {
        let account = Account { namespace, name };
        let roles = match Grants::list(requests, namespace).await {
            Ok(roles) => roles,
            Err(error) if is_forbidden(&error) => return own(requests, account).await,
            Err(error) => return Err(not_read(error)),
        };
        if roles.binds(account) {
            let permissions = roles.permissions(account);
            return Ok(Self {
                permissions,
                note: None,
            });
        }
        let note = format!(
            "ServiceAccount {namespace}/{name} is not bound to any role: the preflight used the \
             permissions of config/rbac/virt-operator"
        );
        Ok(Self {
            permissions: Grants::granted(namespace).permissions(account),
            note: Some(note),
        })
    }
}

/// Permissions of the current user.
async fn own(requests: &Requests, account: Account<'_>) -> Result<Rights, PreviewError> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": account.namespace },
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = requests.create(path, &review).await.map_err(not_read)?;
    let status = &review["status"];
    let rules: Vec<Rule> = [&status["resourceRules"], &status["nonResourceRules"]]
        .into_iter()
        .flat_map(rules)
        .collect();
    let Account { namespace, name } = account;
    let note = format!(
        "cannot list the role bindings of ServiceAccount {namespace}/{name}: the preflight used \
         your own permissions in namespace {namespace}"
    );
    Ok(Rights {
        permissions: Permissions {
            cluster: rules.clone(),
            namespace: rules,
        },
        note: Some(note),
    })
}

impl Grants {
    async fn list(requests: &Requests, namespace: &str) -> kube::Result<Self> {
        let own = format!("{RBAC}/namespaces/{namespace}");
        Ok(Self {
            cluster_roles: items(requests, &format!("{RBAC}/clusterroles")).await?,
            cluster_bindings: items(requests, &format!("{RBAC}/clusterrolebindings")).await?,
            roles: items(requests, &format!("{own}/roles")).await?,
            bindings: items(requests, &format!("{own}/rolebindings")).await?,
        })
    }

    /// Roles and bindings of config/rbac/virt-operator, for a namespace.
    fn granted(namespace: &str) -> Self {
        let own = format!("namespace: {namespace}\n");
        let mut granted = Self::default();
        let documents = KUBEVIRT_RIGHTS.iter().flat_map(|text| {
            let text = text.replace("namespace: kubevirt\n", &own);
            // A test ensures that the files are valid.
            serde_saphyr::from_multiple::<Value>(&text).unwrap_or_default()
        });
        for document in documents {
            match document["kind"].as_str() {
                Some("ClusterRole") => granted.cluster_roles.push(document),
                Some("ClusterRoleBinding") => granted.cluster_bindings.push(document),
                Some("Role") => granted.roles.push(document),
                Some("RoleBinding") => granted.bindings.push(document),
                _ => {}
            }
        }
        granted
    }

    /// Whether the account itself is bound to a role.
    fn binds(&self, account: Account<'_>) -> bool {
        let mut bindings = self.cluster_bindings.iter().chain(&self.bindings);
        bindings.any(|binding| subjects(binding).any(|subject| account.is(subject)))
    }

    fn permissions(&self, account: Account<'_>) -> Permissions {
        let bound = |bindings: &[Value]| -> Vec<Rule> {
            let bindings = bindings.iter();
            let bindings = bindings.filter(|binding| {
                subjects(binding).any(|subject| account.is(subject) || account.is_in(subject))
            });
            bindings
                .flat_map(|binding| self.rules(&binding["roleRef"]))
                .collect()
        };
        let cluster = bound(&self.cluster_bindings);
        let mut namespace = bound(&self.bindings);
        namespace.extend_from_slice(&cluster);
        Permissions { cluster, namespace }
    }

    fn rules(&self, reference: &Value) -> Vec<Rule> {
        let roles = match reference["kind"].as_str() {
            Some("ClusterRole") => &self.cluster_roles,
            _ => &self.roles,
        };
        let mut roles = roles.iter();
        let role = roles.find(|role| role["metadata"]["name"] == reference["name"]);
        role.map(|role| rules(&role["rules"])).unwrap_or_default()
    }
}

impl Account<'_> {
    fn is(self, subject: &Value) -> bool {
        let Self { namespace, name } = self;
        let named = |wanted: &str| subject["name"] == wanted;
        match subject["kind"].as_str() {
            Some("ServiceAccount") => named(name) && subject["namespace"] == namespace,
            Some("User") => named(&format!("system:serviceaccount:{namespace}:{name}")),
            _ => false,
        }
    }

    fn is_in(self, subject: &Value) -> bool {
        let own = format!("system:serviceaccounts:{}", self.namespace);
        let groups = [
            own.as_str(),
            "system:serviceaccounts",
            "system:authenticated",
        ];
        subject["kind"] == "Group" && groups.iter().any(|group| subject["name"] == *group)
    }
}

async fn items(requests: &Requests, path: &str) -> kube::Result<Vec<Value>> {
    let mut list = requests.get(path).await?;
    Ok(match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    })
}

fn subjects(binding: &Value) -> impl Iterator<Item = &Value> {
    binding["subjects"].as_array().into_iter().flatten()
}

fn rules(list: &Value) -> Vec<Rule> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|rule| decode::from_value_ref::<Rule>(rule).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_before_the_installation_come_from_its_manifests() {
        let account = Account {
            namespace: "elsewhere",
            name: ACCOUNT,
        };
        let granted = Grants::granted("elsewhere");
        assert!(granted.binds(account));
        let permissions = granted.permissions(account);
        assert!(!permissions.cluster.is_empty());
        assert!(permissions.namespace.len() > permissions.cluster.len());
    }
}
