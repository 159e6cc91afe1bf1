//! RBAC authorizer.
//!
//! [`authorize`] decides on a request, [`escalation`] keeps users from granting permissions they do
//! not have, [`aggregate`] computes aggregated ClusterRoles, and [`bootstrap`] has the default
//! roles. Roles and bindings are read as stored; missing or mistyped fields grant nothing.

mod aggregation;
pub mod bootstrap;
pub mod escalation;
mod rule;

use std::sync::Arc;

pub use aggregation::aggregate;
pub use rule::Rule;
use serde_json::Value;

use super::{Attributes, User, user};
use crate::ApiError;

pub const GROUP: &str = "rbac.authorization.k8s.io";

pub trait Policy {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>>;
    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// In order of their names.
    fn cluster_role_bindings(&self) -> Vec<Arc<Value>>;
    /// In order of their names.
    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// The binding that allows it, or resolution errors; may be empty.
    pub reason: String,
}

pub fn authorize(policy: &impl Policy, attributes: &Attributes<'_>) -> Decision {
    if attributes.user.is_master() {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let mut problems = Vec::new();
    for granted in grants(policy, attributes.user, attributes.namespace) {
        match granted.rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                return Decision {
                    allowed: true,
                    reason: format!("RBAC: allowed by {}", granted.source),
                };
            }
            Ok(_) => {}
            Err(missing) => problems.push(missing.to_string()),
        }
    }
    let reason = match join_errors(problems) {
        Some(problems) => format!("rbac: RBAC: {problems}"),
        None => String::new(),
    };
    Decision {
        allowed: false,
        reason,
    }
}

/// Refuses a request that is not authorized.
pub fn require(policy: &impl Policy, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let decision = authorize(policy, attributes);
    if decision.allowed {
        Ok(())
    } else {
        Err(attributes.forbidden(&decision.reason))
    }
}

/// All rules that apply to a user in a namespace, and the roles that could not be resolved.
pub fn rules_for(
    policy: &impl Policy,
    user: &User,
    namespace: &str,
) -> (Vec<Rule>, Vec<MissingRole>) {
    let mut rules = Vec::new();
    let mut missing = Vec::new();
    for granted in grants(policy, user, namespace) {
        match granted.rules {
            Ok(granted) => rules.extend(granted),
            Err(role) => missing.push(role),
        }
    }
    (rules, missing)
}

/// A bound role that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRole {
    kind: String,
    name: String,
}

impl MissingRole {
    /// Error text with the resource instead of the kind.
    fn as_resource(&self) -> String {
        match self.kind.as_str() {
            "Role" => format!("roles.{GROUP} {:?} not found", self.name),
            "ClusterRole" => format!("clusterroles.{GROUP} {:?} not found", self.name),
            _ => self.to_string(),
        }
    }
}

impl std::fmt::Display for MissingRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind.as_str() {
            "Role" => write!(f, "role.{GROUP} {:?} not found", self.name),
            "ClusterRole" => write!(f, "clusterrole.{GROUP} {:?} not found", self.name),
            other => write!(f, "unsupported role reference kind: {other:?}"),
        }
    }
}

/// Rules that one binding grants to a user.
struct Grant {
    source: String,
    rules: Result<Vec<Rule>, MissingRole>,
}

/// Bindings that apply to a user; cluster-wide ones come first.
fn grants<'a>(
    policy: &'a impl Policy,
    user: &'a User,
    namespace: &'a str,
) -> impl Iterator<Item = Grant> + 'a {
    let of_cluster = policy
        .cluster_role_bindings()
        .into_iter()
        .filter_map(move |binding| grant(policy, user, &binding, ""));
    // Lazy: listed only if the ClusterRoleBindings do not suffice.
    let of_namespace = std::iter::once_with(move || match namespace {
        "" => Vec::new(),
        namespace => policy.role_bindings(namespace),
    })
    .flatten()
    .filter_map(move |binding| grant(policy, user, &binding, namespace));
    of_cluster.chain(of_namespace)
}

fn grant(policy: &impl Policy, user: &User, binding: &Value, namespace: &str) -> Option<Grant> {
    let subject = binding
        .get("subjects")?
        .as_array()?
        .iter()
        .find(|subject| applies(user, subject, namespace))?;
    let role = &binding["roleRef"];
    let name = text(&binding["metadata"], "name");
    let (kind, name) = match namespace {
        "" => ("ClusterRoleBinding", name.to_owned()),
        namespace => ("RoleBinding", format!("{name}/{namespace}")),
    };
    Some(Grant {
        source: format!(
            "{kind} {name:?} of {} {:?} to {}",
            text(role, "kind"),
            text(role, "name"),
            describe(subject, namespace),
        ),
        rules: role_rules(policy, role, namespace),
    })
}

fn role_rules(
    policy: &impl Policy,
    role: &Value,
    namespace: &str,
) -> Result<Vec<Rule>, MissingRole> {
    let (kind, name) = (text(role, "kind"), text(role, "name"));
    let found = match kind {
        "Role" => policy.role(namespace, name),
        "ClusterRole" => policy.cluster_role(name),
        _ => None,
    };
    found
        .map(|role| Rule::all_of(&role))
        .ok_or_else(|| MissingRole {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
}

fn applies(user: &User, subject: &Value, namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = match text(subject, "namespace") {
                "" => namespace,
                namespace => namespace,
            };
            !namespace.is_empty()
                && user::split_service_account(&user.name) == Some((namespace, name))
        }
        _ => false,
    }
}

fn describe(subject: &Value, namespace: &str) -> String {
    let (kind, name) = (text(subject, "kind"), text(subject, "name"));
    match kind {
        "ServiceAccount" => {
            let namespace = match text(subject, "namespace") {
                "" => namespace,
                namespace => namespace,
            };
            format!("{kind} {:?}", format!("{name}/{namespace}"))
        }
        _ => format!("{kind} {name:?}"),
    }
}

/// Joins errors like `utilerrors.Aggregate`: duplicates removed, brackets around several.
pub(in crate::auth) fn join_errors(problems: Vec<String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::with_capacity(problems.len());
    for problem in problems {
        if !unique.contains(&problem) {
            unique.push(problem);
        }
    }
    match unique.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

/// A string field, empty if absent.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
