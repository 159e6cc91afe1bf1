//! Validation of Leases, PriorityClasses and APIServices.

use schema::names;
use serde_json::Value;

use super::check::{Check, IMMUTABLE};
use crate::value::{at, flag, has, int, text};

pub(super) fn lease(check: &mut Check, new: &Value) {
    if has(new, "spec.leaseDurationSeconds") && int(new, "spec.leaseDurationSeconds") <= 0 {
        let seconds = int(new, "spec.leaseDurationSeconds");
        check.invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        );
    }
    check.not_negative(new, "spec.leaseTransitions");
}

/// Higher values are reserved for system classes.
const HIGHEST: i64 = 1_000_000_000;

pub(super) fn priority_class(check: &mut Check, new: &Value, old: Option<&Value>) {
    let name = text(new, "metadata.name");
    let system = matches!(name, "system-cluster-critical" | "system-node-critical");
    if let Some(old) = old {
        if int(new, "value") != int(old, "value") {
            check.forbidden("value", "may not be changed in an update.");
        }
        if at(new, "preemptionPolicy") != at(old, "preemptionPolicy") {
            check.invalid(
                "preemptionPolicy",
                at(new, "preemptionPolicy").clone(),
                IMMUTABLE,
            );
        }
        return;
    }
    if name.starts_with("system-") && !system {
        check.forbidden(
            "metadata.name",
            format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            ),
        );
    } else if int(new, "value") > HIGHEST && !system {
        check.forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {HIGHEST}"),
        );
    }
    let policy = text(new, "preemptionPolicy");
    check.one_of(
        "preemptionPolicy",
        policy,
        &["PreemptLowerPriority", "Never"],
    );
}

pub(super) fn api_service(check: &mut Check, new: &Value) {
    let (group, version) = (text(new, "spec.group"), text(new, "spec.version"));
    let wanted = format!("{version}.{group}");
    let name = text(new, "metadata.name");
    if name != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        check.invalid("metadata.name", name, why);
    }
    if !group.is_empty() {
        check.dns_name("spec.group", group);
    }
    for message in names::dns_label(version) {
        check.invalid("spec.version", version, message);
    }
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let path = format!("spec.{field}");
        let priority = int(new, &path);
        if !(1..=most).contains(&priority) {
            check.invalid(
                path,
                priority,
                format!("must be positive and less than {most}"),
            );
        }
    }
    if !has(new, "spec.service") {
        if has(new, "spec.caBundle") {
            let why = "local APIServices may not have a caBundle";
            check.invalid("spec.caBundle", "...", why);
        }
        if flag(new, "spec.insecureSkipTLSVerify") {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            check.invalid("spec.insecureSkipTLSVerify", true, why);
        }
        return;
    }
    for field in ["namespace", "name"] {
        let path = format!("spec.service.{field}");
        if text(new, &path).is_empty() {
            check.required(path);
        }
    }
    if flag(new, "spec.insecureSkipTLSVerify") && has(new, "spec.caBundle") {
        check.invalid(
            "spec.insecureSkipTLSVerify",
            true,
            "may not be true if caBundle is present",
        );
    }
}
