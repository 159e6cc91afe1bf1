//! Validation of RBAC roles and bindings.

use schema::names;
use serde_json::{Value, json};

use super::check::{Check, IMMUTABLE};
use crate::{
    Kind,
    value::{at, has, list, text},
};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn check(check: &mut Check, kind: &Kind, new: &Value, old: Option<&Value>) {
    match kind.kind {
        "Role" | "ClusterRole" => rules(check, new, kind.namespaced),
        _ => binding(check, new, old, kind.namespaced),
    }
}

fn rules(check: &mut Check, new: &Value, namespaced: bool) {
    for (index, rule) in list(new, "rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        if list(rule, "verbs").is_empty() {
            check.required(format!("{path}.verbs"));
        }
        let urls = list(rule, "nonResourceURLs");
        let (groups, resources) = (list(rule, "apiGroups"), list(rule, "resources"));
        if !urls.is_empty() {
            let urls = Value::from(urls.to_vec());
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                check.invalid(format!("{path}.nonResourceURLs"), urls.clone(), why);
            }
            if !groups.is_empty() || !resources.is_empty() || has(rule, "resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                check.invalid(format!("{path}.nonResourceURLs"), urls, why);
            }
            continue;
        }
        if groups.is_empty() {
            let why = "resource rules must supply at least one api group";
            check.required_because(format!("{path}.apiGroups"), why);
        }
        if resources.is_empty() {
            let why = "resource rules must supply at least one resource";
            check.required_because(format!("{path}.resources"), why);
        }
    }
}

fn binding(check: &mut Check, new: &Value, old: Option<&Value>, namespaced: bool) {
    let group = text(new, "roleRef.apiGroup");
    if group != GROUP {
        check.unsupported("roleRef.apiGroup", group, &[GROUP]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(new, "roleRef.kind")) {
        check.unsupported("roleRef.kind", text(new, "roleRef.kind"), kinds);
    }
    match text(new, "roleRef.name") {
        "" => check.required("roleRef.name"),
        name => {
            for message in names::path_segment(name) {
                check.invalid("roleRef.name", name, message);
            }
        }
    }
    for (index, subject) in list(new, "subjects").iter().enumerate() {
        subject_rules(check, &format!("subjects[{index}]"), subject, namespaced);
    }
    if let Some(old) = old
        && at(new, "roleRef") != at(old, "roleRef")
    {
        let role = json!({
            "APIGroup": group,
            "Kind": text(new, "roleRef.kind"),
            "Name": text(new, "roleRef.name"),
        });
        check.invalid("roleRef", role, IMMUTABLE);
    }
}

fn subject_rules(check: &mut Check, path: &str, subject: &Value, namespaced: bool) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        check.required(format!("{path}.name"));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                check.dns_name(format!("{path}.name"), name);
            }
            if !group.is_empty() {
                check.unsupported(format!("{path}.apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                check.required(format!("{path}.namespace"));
            }
        }
        "User" | "Group" if group != GROUP => {
            check.unsupported(format!("{path}.apiGroup"), group, &[GROUP]);
        }
        "User" | "Group" => {}
        other => check.unsupported(
            format!("{path}.kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        ),
    }
}
