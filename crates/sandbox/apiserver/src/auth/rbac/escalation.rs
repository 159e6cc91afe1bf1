//! Privilege escalation checks on writes of roles and bindings.
//!
//! A user may write a role whose rules are covered by their own, or any role with the verb
//! `escalate`; they may bind a role whose rules are covered by their own, or any with the verb
//! `bind`. Members of `system:masters` may do both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value;

use super::{GROUP, Policy, Rule, authorize, role_rules, rule::quoted, rules_for, text};
use crate::{
    ApiError, ObjectRef,
    auth::{Attributes, User},
};

#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub user: &'a User,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// Empty for cluster scope.
    pub namespace: &'a str,
    pub object: &'a Value,
    /// `None` on create.
    pub old: Option<&'a Value>,
}

/// Refuses a write that grants permissions the user does not have. Other resources, and changes of
/// garbage collection fields only, pass.
pub fn check(policy: &impl Policy, write: &Write<'_>) -> Result<(), ApiError> {
    let is_role = match write.resource {
        "roles" | "clusterroles" => true,
        "rolebindings" | "clusterrolebindings" => false,
        _ => return Ok(()),
    };
    if write.user.is_master()
        || write
            .old
            .is_some_and(|old| is_only_changing_gc_fields(write.object, old))
    {
        return Ok(());
    }
    if is_role {
        check_role(policy, write)
    } else {
        check_binding(policy, write)
    }
}

fn check_role(policy: &impl Policy, write: &Write<'_>) -> Result<(), ApiError> {
    // A create request has no name in its path.
    let name = match write.old {
        Some(_) => write.name(),
        None => "",
    };
    let escalate = Attributes {
        name,
        namespace: write.namespace,
        ..Attributes::resource(write.user, "escalate", GROUP, write.resource)
    };
    if authorize(policy, &escalate).allowed {
        return Ok(());
    }
    confirm_no_escalation(policy, write, &Rule::all_of(write.object))
        .map_err(|why| write.forbidden(&why))?;
    let aggregates = |role: &Value| {
        role["aggregationRule"]["clusterRoleSelectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
    };
    if aggregates(write.object) || write.old.is_some_and(aggregates) {
        let all = || vec!["*".to_owned()];
        let everything = [
            Rule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                ..Rule::default()
            },
            Rule {
                verbs: all(),
                non_resource_urls: all(),
                ..Rule::default()
            },
        ];
        confirm_no_escalation(policy, write, &everything).map_err(|_| {
            write.forbidden("must have cluster-admin privileges to use the aggregationRule")
        })?;
    }
    Ok(())
}

fn check_binding(policy: &impl Policy, write: &Write<'_>) -> Result<(), ApiError> {
    let role = &write.object["roleRef"];
    let resource = match text(role, "kind") {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    let may_bind = resource.is_some_and(|resource| {
        let bind = Attributes {
            name: text(role, "name"),
            namespace: write.namespace,
            ..Attributes::resource(write.user, "bind", text(role, "apiGroup"), resource)
        };
        authorize(policy, &bind).allowed
    });
    if may_bind {
        return Ok(());
    }
    // kube-apiserver names the binding's resource here, not the role's.
    let rules = role_rules(policy, role, write.namespace).map_err(|_| {
        ApiError::not_found(ObjectRef {
            group: GROUP,
            resource: write.resource,
            name: text(role, "name"),
        })
    })?;
    confirm_no_escalation(policy, write, &rules).map_err(|why| write.forbidden(&why))
}

impl Write<'_> {
    fn name(&self) -> &str {
        text(&self.object["metadata"], "name")
    }

    fn forbidden(&self, why: &str) -> ApiError {
        let object = ObjectRef {
            group: GROUP,
            resource: self.resource,
            name: self.name(),
        };
        ApiError::forbidden(object, why)
    }
}

/// Checks that the user has all permissions of `rules`; the error lists the missing ones.
fn confirm_no_escalation(
    policy: &impl Policy,
    write: &Write<'_>,
    rules: &[Rule],
) -> Result<(), String> {
    let (own, unresolved) = rules_for(policy, write.user, write.namespace);
    let lacking: Vec<Rule> = rules
        .iter()
        .flat_map(break_down)
        .filter(|single| !own.iter().any(|own| own.covers(single)))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compact_rules(lacking).iter().map(Rule::compact).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        write.user.name,
        quoted(&write.user.groups),
        lines.join("\n"),
    );
    let unresolved: Vec<String> = unresolved
        .iter()
        .map(super::MissingRole::as_resource)
        .collect();
    if let Some(unresolved) = super::join_errors(unresolved) {
        let _ = write!(why, "; resolution errors: [{unresolved}]");
    }
    Err(why)
}

/// Splits a rule into rules with at most one item per list.
fn break_down(rule: &Rule) -> impl Iterator<Item = Rule> {
    let one = |item: &String| vec![item.clone()];
    let names: Vec<Vec<String>> = match rule.resource_names.as_slice() {
        [] => vec![Vec::new()],
        names => names.iter().map(one).collect(),
    };
    let mut found = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                found.extend(names.iter().map(|names| Rule {
                    api_groups: one(group),
                    resources: one(resource),
                    verbs: one(verb),
                    resource_names: names.clone(),
                    ..Rule::default()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        found.extend(rule.verbs.iter().map(|verb| Rule {
            non_resource_urls: one(url),
            verbs: one(verb),
            ..Rule::default()
        }));
    }
    found.into_iter()
}

/// Merges rules that differ only in their verbs; non-resource rules stay.
fn compact_rules(break_down: Vec<Rule>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut by_target: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for mut single in break_down {
        if single.non_resource_urls.is_empty() {
            let verbs = std::mem::take(&mut single.verbs);
            by_target.entry(single).or_default().extend(verbs);
        } else {
            rules.push(single);
        }
    }
    rules.extend(
        by_target
            .into_iter()
            .map(|(target, verbs)| Rule { verbs, ..target }),
    );
    rules
}

/// Whether a write changes only fields that the garbage collector changes.
fn is_only_changing_gc_fields(object: &Value, old: &Value) -> bool {
    const GC_FIELDS: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "selfLink"];
    let (Some(object), Some(old)) = (object.as_object(), old.as_object()) else {
        return false;
    };
    let fields: BTreeSet<&String> = object.keys().chain(old.keys()).collect();
    fields.into_iter().all(|field| {
        let (new, old) = (object.get(field), old.get(field));
        match (field.as_str(), new, old) {
            ("metadata", Some(Value::Object(new)), Some(Value::Object(old))) => {
                let fields: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
                fields.into_iter().all(|field| {
                    GC_FIELDS.contains(&field.as_str()) || new.get(field) == old.get(field)
                })
            }
            _ => new == old,
        }
    })
}
